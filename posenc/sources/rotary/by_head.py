"""Rotary angles that each head has of its own, at a row and a column: column x its first frequency + row x its second.

Tables hold cosines and sines of rows and of columns, for each pair of each head; those of a sum follow from them:

    cos(a + b) = cos(a) cos(b) - sin(a) sin(b)        sin(a + b) = sin(a) cos(b) + cos(a) sin(b)
"""

from math import sqrt
from typing import Final

import torch
from torch import Tensor, nn

from posenc.encoding import NoTables, Tables, Tolerance, eps
from posenc.joins.apply_rotary import Heads
from posenc.joins.rotated import CosSin
from posenc.ports import Floats
from posenc.sincos import SinCosMethod, sincos
from posenc.sources.rotary.angles import alike
from posenc.spec import Spec

BY_HEAD = "each head has cosines and sines of its own, and a row here is one for all heads"


class HeadAngles(nn.Module):
    """Angles by row and column, with frequencies for each pair of each head.

    Args:
        rows: Cosines and sines of rows, of all heads side by side.
        columns: Those of columns.
        heads: How many heads there are, and on which axis they lie.
        precision: The dtype of cosines and sines, by torch's name.
    """

    axes: Final[int] = 2
    count: Final[int]  # of heads
    width: Final[int]  # of a row of all heads: sines, then cosines
    head_first: Final[bool]
    attention_factor = 1.0

    def __init__(self, rows: SinCosMethod, columns: SinCosMethod, heads: Heads, precision: str) -> None:
        super().__init__()
        self.rows = rows
        self.columns = columns
        self.count = heads.count or 1
        self.width = rows.width
        self.head_first = heads.tensor_layout == "bhsd"
        self.precision = precision
        self.end = rows.end
        self.probes = rows.probes
        self.half_safe = rows.half_safe

    def forward(self, positions: Tensor) -> CosSin:
        """Return cosines and sines: (2, batch, seq) -> (batch, heads, seq, pairs) or (batch, seq, heads, pairs)."""
        row_cos, row_sin = self.rows.cos_sin(positions[0])
        column_cos, column_sin = self.columns.cos_sin(positions[1])
        # (batch, seq, heads x pairs) -> (batch, heads, seq, pairs)
        row_cos, row_sin = self.by_head(row_cos), self.by_head(row_sin)
        return self.added(row_cos, row_sin, self.by_head(column_cos), self.by_head(column_sin))

    def arange(self, sizes: list[int], device: torch.device) -> CosSin:
        """Return cosines and sines of every place of a grid: (1, heads, *sizes, pairs) or (1, *sizes, heads, pairs)."""
        # (1, size, 2 x heads x pairs) -> twice (1, heads, size, pairs): few numbers, so that heads are moved here
        row_sin, row_cos = self.rows.arange(sizes[0], self.width).chunk(2, -1)
        column_sin, column_cos = self.columns.arange(sizes[1], self.width).chunk(2, -1)
        # A row stands beside every column, and a column below every row; counted from the last axis.
        beside, below = (-2, -3) if self.head_first else (-3, -4)
        row_cos, row_sin = self.by_head(row_cos).unsqueeze(beside), self.by_head(row_sin).unsqueeze(beside)
        column_cos, column_sin = self.by_head(column_cos).unsqueeze(below), self.by_head(column_sin).unsqueeze(below)
        return self.added(row_cos, row_sin, column_cos, column_sin)

    def by_head(self, rows: Tensor) -> Tensor:
        """Return rows head by head: (batch, seq, heads x pairs) -> (batch, heads, seq, pairs), or heads behind seq."""
        parts: Tensor = rows.unflatten(-1, [self.count, -1])
        return parts.transpose(1, 2) if self.head_first else parts

    def added(self, a_cos: Tensor, a_sin: Tensor, b_cos: Tensor, b_sin: Tensor) -> CosSin:
        """Return cosines and sines of the sums of two angles."""
        return alike(a_cos * b_cos - a_sin * b_sin, a_sin * b_cos + a_cos * b_sin)

    def ends(self) -> tuple[int | None, ...]:
        """Return the end of the places along each axis of a grid."""
        return (self.rows.end, self.columns.end)

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far cosines and sines of a sum may be from the reference."""
        rows, columns = self.rows.tolerance(max_position), self.columns.tolerance(max_position)
        # What an angle's cosine and sine are off by is turned by the other angle: by sqrt(2) of it at most. Two
        # products and a sum are rounded, each by half an ulp of a number up to 1; of the sum it may be a whole one.
        return Tolerance(atol=sqrt(2) * (rows.atol + columns.atol) + eps(self.precision))

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return how far a graph's may be from these: not at all where those of rows and columns have the same bits."""
        rows, columns = self.rows.eager_tolerance(max_position), self.columns.eager_tolerance(max_position)
        if rows.bits and columns.bits:
            return rows
        return Tolerance(atol=sqrt(2) * (rows.atol + columns.atol) + eps(self.precision))

    def tables(self) -> Tables:
        """Raise NoTables: a row is not one for all heads."""
        raise NoTables(BY_HEAD)


def head_angles(spec: Spec, frequencies: Floats, heads: Heads) -> HeadAngles:
    """Return the angles of frequencies (2, heads, pairs): radians of a column, then of a row."""
    columns, rows = (sincos(spec, radians.reshape(-1)) for radians in frequencies)
    return HeadAngles(rows, columns, heads, spec.angle_dtype)
