"""Modules of biases that are wrong, and of which calls they are right in."""

import torch
from torch import Tensor

from posenc.joins.scores import Bias
from posenc.schemes.alibi import Slopes
from posenc.sources.bias.by_distance import ByDistance

EDGE = 14
"""Here a bucket begins, of 32 for both directions, up to 64: 8 * 8^(2 / 8) is 13.45."""


class CountedFromZero(Slopes):
    """Queries are the first of the keys. It is right where there are as many."""

    def last(self, keys: Tensor, values: Tensor) -> Tensor:
        """Return the bias of queries from 0 on, wrong where there is a past."""
        query = torch.arange(values.shape[2], device=keys.device)
        return self.between(query.unsqueeze(0).unsqueeze(2), keys, None)


def counted_from_zero(module: Bias) -> Bias:
    """Return the wrong twin of a module, in its place."""
    module.source.__class__ = CountedFromZero
    return module


def with_an_edge_moved(module: Bias) -> Bias:
    """Return the wrong twin of a module, in its place: EDGE is in the bucket of the distance before it."""
    assert isinstance(module.source, ByDistance)
    rows, at = module.source.rows, module.source.before - EDGE
    assert not torch.equal(rows[at], rows[at + 1])
    assert torch.equal(rows[at], rows[at - 1])
    rows[at] = rows[at + 1]
    return module
