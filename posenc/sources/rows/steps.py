"""A source of rows that change by steps: a stored number for each position, the same over a whole step."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor, nn

from posenc.encoding import SAME_BITS, Probes, Tables, Tolerance
from posenc.lookup import check_width, inside, leading, take
from posenc.ports import Floats, Integers
from posenc.stored import ROUNDED, StoredRows

CHUNK = 65536
"""Rows that are computed in float64 at a time."""


class Steps(nn.Module):
    """A number for each of `max_len` positions, made in float64 from whole steps, rounded once and stored."""

    values: Tensor
    half_safe = ""

    def __init__(
        self,
        value: Callable[[Integers], Floats],
        expected: Callable[[Integers], Floats],
        *,
        max_len: int,
        dtype: torch.dtype,
        edges: tuple[int, ...],
    ) -> None:
        """Store the numbers.

        Args:
            value: positions -> their numbers in float64.
            expected: the same by the reference; stored rows are held against it.
            max_len: how many positions there are.
            dtype: that of the stored numbers.
            edges: positions around which the number changes.
        """
        super().__init__()
        self.end, self.expected = max_len, expected
        # a call must read both sides of a step, which short calls from 0 on do not reach
        read = sorted({p for p in edges if 0 <= p < max_len})
        # the first step is where calls of two lengths differ
        self.probes = Probes(lengths=tuple(p + 1 for p in read[:2]), positions=tuple(read))
        values = torch.empty(max_len, 1, dtype=dtype)
        for positions in self._chunks():
            rows = torch.from_numpy(value(positions))[:, None]  # (rows, 1)
            values[positions[0] : positions[-1] + 1] = rows
        self.register_buffer("values", values, persistent=False)

    def _chunks(self) -> Iterator[Integers]:
        for first in range(0, self.end, CHUNK):
            yield np.arange(first, min(first + CHUNK, self.end))

    def forward(self, positions: Tensor, width: int) -> Tensor:
        """Return the numbers at int64 positions: (...) -> (..., 1)."""
        check_width(width, 1)
        return take(self.values, inside(positions, self.values.shape[0]), self.values.shape[0])

    def arange(self, length: int, width: int) -> Tensor:
        """Return the numbers of positions 0..length-1: (1, length, 1)."""
        check_width(width, 1)
        return leading(self.values, length)

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far numbers may be from the reference: one rounding."""
        return ROUNDED

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Graphs must give the same bits as eager."""
        return SAME_BITS

    def tables(self) -> Tables:
        """Return the one table, of a single column."""
        return Tables("rows", {"table": self.values}, (0,), 1, None, self.end)

    def stored_rows(self) -> Iterator[StoredRows]:
        """Yield all rows, a chunk at a time."""
        for positions in self._chunks():
            yield StoredRows("values", self.expected(positions)[:, None], first=int(positions[0]))
