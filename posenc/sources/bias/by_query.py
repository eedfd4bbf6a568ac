"""Biases that are products of queries with a row for each distance: Shaw's, and those of wav2vec2-BERT and VITS."""

from typing import Final

import torch
from torch import Tensor, nn

from posenc.arithmetic import larger
from posenc.encoding import Probes, Tolerance
from posenc.lookup import clip
from posenc.sources.bias.by_distance import edge_repeated

LARGEST = 8.0
"""The largest number of q for which the bound of products holds: normal numbers are never larger."""
PRODUCTS = "a product of a query and a row is a sum, each part of which is rounded"
"""Why a graph of such products is not half_safe."""


class ByQuery(nn.Module):
    """A source of biases: a row for each distance, times the query; the first row and the last hold beyond.

    Each query is multiplied with every row once, and each key picks a product. Keys that are in the first row for every
    query are not looked up: see ByDistance.
    """

    rows: Tensor  # (head_dim, before + 1 + after)
    before: Final[int]
    __constants__ = ("count_dtype",)
    count_dtype = None

    def __init__(self, rows: Tensor, before: int) -> None:
        """Take the rows (before + 1 + after, head_dim) of keys from `before` places before their query on."""
        super().__init__()
        self.before = before
        self.probes = Probes(lengths=(before, before + 1, before + 2))
        self.half_safe = PRODUCTS
        self.register_buffer("rows", rows.t().contiguous(), persistent=False)
        largest = LARGEST * float(rows.abs().sum(1).max())
        self.error = torch.finfo(rows.dtype).eps / 2 * (len(rows[0]) + 1) * largest

    def last(self, keys: Tensor, values: Tensor) -> Tensor:
        """Return the bias of the last keys, as queries: (seq_k,), q -> (batch, heads, seq, seq_k)."""
        seq, seq_k = values.shape[2], keys.shape[0]
        far = larger(seq_k - seq - max(self.before, 1), 0)  # keys in the first row for every query
        query = torch.arange(seq, dtype=self.count_dtype, device=keys.device) + (seq_k - seq)
        return edge_repeated(self.between(query.unsqueeze(1), keys[far:], values), far)

    def between(self, query: Tensor, key: Tensor, values: Tensor | None) -> Tensor:
        """Return the bias of positions: (batch, seq, 1) or (seq, 1), (batch, 1, seq_k) or (seq_k,), q.

        (batch, heads, seq, head_dim) -> (batch, heads, seq, seq_k)
        """
        assert values is not None  # queries always come in
        # (batch, heads, seq, head_dim) @ (head_dim, rows) -> (batch, heads, seq, rows)
        products = torch.matmul(values.to(self.rows.dtype), self.rows)
        at = clip(key - (query - self.before), self.rows.shape[1] - 1)
        if key.dim() == 3:  # each sequence has keys of its own: (batch, seq, seq_k) -> (batch, 1, seq, seq_k)
            at = at.unsqueeze(1)
        return products.gather(3, at.expand(values.shape[0], values.shape[1], values.shape[2], key.shape[-1]))

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far a bias may be from the reference: as many roundings as features, each of the largest sum."""
        return Tolerance(atol=self.error)

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return how far a graph's bias may be from this one: both may sum in any order."""
        return Tolerance(atol=2 * self.error)
