"""Rows by distance, weighted by the probabilities of keys: what attention adds to its product with the values.

Each query has a column for each distance, which holds the probability of the one key at that distance; a column before
these, and one behind them, hold the sums of all keys beyond. The result is the product of the columns and the rows.

One look-up of a key fills each column, and masks sum up the keys before and after. Neither sum is a difference from
the whole, so that a sum without keys is exactly 0. Measured with ONNX Runtime on one core, for 4 heads of 512 queries
and keys and 9 rows, as parts of the time of the product of probabilities and values: columns and rows 0.1, with both
sums 0.7. Rejected: sums by Where 1.5, a shift of all rows 1.5, masks as matrices 2.1, CumSum 2.5. A ScatterElements
that adds needs opset 18, and promises no order.

Two keys at one position would share a column, which a look-up cannot fill: positions are counted, and never given.
"""

from typing import Final

import torch
from torch import Tensor, nn

from posenc.encoding import Probes, Tolerance

HALF_UNSAFE = "sums of probabilities and products with rows are sums, each part of which is rounded"
TOTAL = 1.01
"""Upper bound of the sum of a query's probabilities: 1, and what rounding each to bfloat16 adds."""
ONE_KEY = "a look-up finds the one key at each distance, of keys that are counted; use --positions implicit or offset"
"""Why positions are given in no other way."""


class WeightedRows(nn.Module):
    """A source of rows by distance that are weighted by probabilities."""

    rows: Tensor  # (distances, head_dim); with `beyond`, two more
    distances: Final[int]
    before: Final[int]
    beyond: Final[bool]
    __constants__ = ("count_dtype",)
    count_dtype = None

    def __init__(self, rows: Tensor, before: int, beyond: bool) -> None:
        """Take the rows of keys from `before` places before their query on.

        Args:
            rows: A row for each distance: (distances, head_dim).
            before: Distance from the key of the first row to the query.
            beyond: Whether the first and the last row hold for all keys beyond; else nothing is added for those keys.
        """
        super().__init__()
        self.distances = len(rows)
        self.before = before
        self.beyond = beyond
        self.half_safe = HALF_UNSAFE
        self.probes = Probes(lengths=(before, before + 1, before + 2))
        self.largest = float(rows.abs().max())
        edges = torch.cat([rows[:1], rows, rows[-1:]]) if beyond else rows
        self.register_buffer("rows", edges, persistent=False)

    def last(self, keys: Tensor, values: Tensor) -> Tensor:
        """Return the rows where queries are the last of the keys: (seq_k,), p -> (batch, heads, seq, head_dim)."""
        query = torch.arange(values.shape[2], dtype=self.count_dtype, device=keys.device) + (
            keys.shape[0] - values.shape[2]
        )
        # Stored positions refuse more keys than there are only where they are read.
        return self.between((query + keys.sum(0, keepdim=True).clamp(0, 0)).unsqueeze(1), keys, values)

    def between(self, query: Tensor, key: Tensor, values: Tensor | None) -> Tensor:
        """Return the rows at positions: (1, seq, 1) or (seq, 1), (seq_k,), p -> (batch, heads, seq, head_dim)."""
        assert values is not None  # probabilities always come in
        p = values.to(self.rows.dtype)
        columns = self.near(p, query)
        if self.beyond:
            distance = key - query
            before = self.total(p, distance < -self.before)
            after = self.total(p, distance >= self.distances - self.before)
            columns = torch.cat([before, columns, after], 3)
        # (batch, heads, seq, distances) @ (distances, head_dim) -> (batch, heads, seq, head_dim)
        return torch.matmul(columns, self.rows)

    def near(self, p: Tensor, query: Tensor) -> Tensor:
        """Return the probability of the key at each distance, 0 without one: p, (seq, 1) -> (..., seq, distances)."""
        seq_k = p.shape[3]
        at = query + (torch.arange(self.distances, dtype=self.count_dtype, device=p.device) - self.before)
        index = at.clamp(0, seq_k - 1).expand(p.shape[0], p.shape[1], p.shape[2], self.distances)
        return p.gather(3, index) * ((at >= 0) & (at < seq_k)).to(p.dtype)

    def total(self, p: Tensor, chosen: Tensor) -> Tensor:
        """Return the sum of the probabilities of chosen keys: p, (seq, seq_k) of bool -> (batch, heads, seq, 1)."""
        # Measured with ONNX Runtime, of 512 x 512: a Where takes twice as long, a CumSum more than three times.
        return (p * chosen.to(p.dtype)).sum(3, keepdim=True)

    def tolerance(self, keys: int) -> Tolerance:
        """Return how far a result may be from the reference, which rounds in float64, by the number of keys."""
        return Tolerance(self.error(keys, torch.finfo(self.rows.dtype).eps) + self.error(keys, 2.0**-52))

    def eager_tolerance(self, keys: int) -> Tolerance:
        """Return how far a graph's result may be from this one: both may sum in any order."""
        return Tolerance(self.error(keys, 2 * torch.finfo(self.rows.dtype).eps))

    def error(self, keys: int, unit: float) -> float:
        """Return the bound where each rounding costs half a unit: a sum of n numbers above 0 is off by n of these."""
        return unit / 2 * (keys + self.distances + 3) * TOTAL * self.largest
