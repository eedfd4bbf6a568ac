"""Cosines and sines of every position, stored."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from posenc.encoding import SAME_BITS, Probes, Tables, Tolerance, too_small
from posenc.lookup import check_width, inside, leading, take
from posenc.ports import Floats
from posenc.sincos.rows import arrange, largest_angle, layout_of, rounded_once, waves
from posenc.stored import StoredRows, circular, laid_out, rounded

CHUNK = 4096
"""Rows that are computed in float64 at a time."""


class SinCosTable(nn.Module):
    """Rows of `max_len` positions, computed in float64, rounded once and stored: right to half an ulp.

    Args:
        width: columns of a row; if it is 2 pairs + 1, the last column is zeros.
        phase: (pairs,) radians at position 0.
        zero_row: the position whose row is zeros.
    """

    rows: Tensor
    width: Final[int]
    interleaved: Final[bool]
    probes = Probes()

    def __init__(
        self,
        inv_freq: Floats,
        width: int,
        *,
        interleaved: bool,
        max_len: int,
        dtype: torch.dtype,
        scale: float = 1.0,
        phase: Floats | None = None,
        zero_row: int | None = None,
    ) -> None:
        super().__init__()
        self.width = width
        self.interleaved = interleaved
        self.scale = scale
        self.half_safe = too_small(abs(scale))
        self.end = max_len
        self.inv_freq, self.phase, self.zero_row = inv_freq, phase, zero_row  # stored rows are held against them
        rows = torch.zeros(max_len, width, dtype=dtype)
        columns = min(width, 2 * len(inv_freq))
        for start in range(0, max_len, CHUNK):  # a float64 table at once could take more memory than the result
            stop = min(start + CHUNK, max_len)
            sin, cos = waves(np.arange(start, stop), inv_freq, scale, phase)
            rows[start:stop, :columns] = arrange(sin, cos, interleaved, columns)
        if zero_row is not None:
            rows[zero_row] = 0
        self.register_buffer("rows", rows, persistent=False)

    def forward(self, positions: Tensor, width: int) -> Tensor:
        """Return the rows at int64 positions: (...) -> (..., width)."""
        check_width(width, self.width)
        return take(self.rows, inside(positions, self.rows.shape[0]), self.rows.shape[0])

    def cos_sin(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines: (...) -> twice (..., pairs)."""
        assert not self.interleaved
        sin, cos = self.forward(positions, self.width).chunk(2, -1)  # halves: (..., pairs) each
        return cos, sin

    def arange(self, length: int, width: int) -> Tensor:
        """Return the rows of positions 0..length-1: (1, length, width)."""
        check_width(width, self.width)
        return leading(self.rows, length)

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far rows may be from the reference: half an ulp of a sine."""
        return rounded_once(self.rows.dtype, max_position)

    def largest_angle(self, max_position: int) -> float:
        """Return the largest angle, in radians, of positions up to one."""
        return largest_angle(max_position, self.inv_freq, self.phase)

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Graphs must give the same bits as eager."""
        return SAME_BITS

    def tables(self) -> Tables:
        """Return the one table."""
        columns = (0,) * self.width
        return Tables("rows", {"table": self.rows}, columns, self.width, layout_of(self.interleaved), self.end)

    def stored_rows(self) -> Iterator[StoredRows]:
        """Yield all rows, a chunk at a time."""
        columns, phase = min(self.width, 2 * len(self.inv_freq)), 0.0 if self.phase is None else self.phase
        for first in range(0, self.end, CHUNK):
            positions = np.arange(first, min(first + CHUNK, self.end))
            sin, cos = circular(positions, self.inv_freq, self.scale, phase)
            expected = np.zeros((len(positions), self.width))  # the last column of an odd width may stay zeros
            expected[:, :columns] = laid_out(sin, cos, self.interleaved, columns)
            expected[positions == (-1 if self.zero_row is None else self.zero_row)] = 0
            angle = largest_angle(first + CHUNK, self.inv_freq, self.phase)
            yield StoredRows("rows", expected, rounded(angle, self.scale), first)
