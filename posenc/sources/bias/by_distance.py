"""Biases that a table holds by the distance from a query to a key: beyond some distance they stay the same."""

from typing import Final

import torch
from torch import Tensor, nn

from posenc.arithmetic import larger
from posenc.encoding import SAME_BITS, Probes, Tolerance, too_small
from posenc.lookup import clip


class ByDistance(nn.Module):
    """A source of biases: a row for each distance; the first row and the last hold for all distances beyond.

    Where queries are the last of the keys, keys that are in the first row for every query are not looked up: the edge
    of the others is repeated, at the cost of writing it.
    """

    rows: Tensor  # (before + 1 + after, heads)
    before: Final[int]
    __constants__ = ("count_dtype",)
    count_dtype = None

    def __init__(self, rows: Tensor, before: int) -> None:
        """Take the biases of keys from `before` places before their query on, up to some places after it."""
        super().__init__()
        self.before = before
        self.half_safe = too_small(float(rows.abs().max()))
        self.probes = Probes(lengths=(before, before + 1, before + 2))
        self.register_buffer("rows", rows, persistent=False)

    def last(self, keys: Tensor, values: Tensor) -> Tensor:
        """Return the bias of the last keys, as queries: (seq_k,), (.., .., seq, any) -> (1, heads, seq, seq_k)."""
        seq, seq_k = values.shape[2], keys.shape[0]
        far = larger(seq_k - seq - max(self.before, 1), 0)  # keys in the first row for every query
        query = torch.arange(seq, dtype=self.count_dtype, device=keys.device) + (seq_k - seq)
        near = self.between(query.unsqueeze(0).unsqueeze(2), keys[far:], None)
        return edge_repeated(near, far)

    def between(self, query: Tensor, key: Tensor, values: Tensor | None) -> Tensor:
        """Return the bias of positions: (batch, seq, 1), (batch, 1, seq_k) or (seq_k,) -> (.., heads, seq, seq_k)."""
        at = clip(key - (query - self.before), self.rows.shape[0] - 1)
        # (batch, seq, seq_k, heads) -> (batch, heads, seq, seq_k)
        return nn.functional.embedding(at, self.rows).permute(0, 3, 1, 2)

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far a bias may be from the reference: it is looked up."""
        return Tolerance()

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return that a graph's bias has the same bits as this one."""
        return SAME_BITS


def edge_repeated(bias: Tensor, far: int) -> Tensor:
    """Return a bias with its first column repeated in front: (batch, heads, seq, n) -> (batch, heads, seq, far + n)."""
    calls = torch.jit.is_scripting() or not torch.compiler.is_compiling()  # type: ignore[attr-defined]
    if calls and bias.numel() == 0:  # torch refuses to repeat the edge of an empty tensor; ONNX Runtime does it
        return nn.functional.pad(bias, [far, 0, 0, 0])
    return nn.functional.pad(bias, [far, 0, 0, 0], mode="replicate")
