"""Rows of a source with zeros in the row of padding, and in the last column of an odd width.

Source: the table of https://github.com/facebookresearch/fairseq, `SinusoidalPositionalEmbedding`.

The row of padding is stored in a table; computed rows are multiplied by a mask, one more pass, and a header needs the
number of that row. The zero column of an odd width with `spacing=half` is stored in a table or padded to computed
rows; digits have no such column, so that a header of that form is refused.
"""

from dataclasses import replace
from typing import Final

import torch
from torch import Tensor, nn

from posenc.encoding import NoTables, RowSource, Tables, Tolerance
from posenc.lookup import check_width


class ChangedRows(nn.Module):
    """The base of sources that change rows of another: they share its end, its probes and its tolerances."""

    def __init__(self, source: RowSource) -> None:
        super().__init__()
        self.source = source
        self.end = source.end
        self.probes = source.probes
        self.half_safe = source.half_safe

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far rows may be from the reference: zeros are exact."""
        return self.source.tolerance(max_position)

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return how far a graph's rows may be from these."""
        return self.source.eager_tolerance(max_position)


class ZeroRow(ChangedRows):
    """Rows of a source, with zeros at the position of padding."""

    row: Final[int]
    __constants__ = ("count_dtype",)
    count_dtype = None

    def __init__(self, source: RowSource, row: int) -> None:
        super().__init__(source)
        self.row = row
        self.probes = replace(source.probes, lengths=(*source.probes.lengths, row + 1))

    def forward(self, positions: Tensor, width: int) -> Tensor:
        """Return the rows at int64 positions: (...) -> (..., width)."""
        rows: Tensor = self.source(positions, width)
        return rows.masked_fill((positions == self.row).unsqueeze(-1), 0.0)  # (..., 1) over (..., width)

    def arange(self, length: int, width: int) -> Tensor:
        """Return the rows of positions 0..length-1: (1, length, width)."""
        rows: Tensor = self.source.arange(length, width)
        return rows.masked_fill(
            (torch.arange(length, dtype=self.count_dtype, device=rows.device) == self.row).unsqueeze(-1), 0.0
        )

    def tables(self) -> Tables:
        """Return the tables of the source, and the position whose row they do not hold."""
        return replace(self.source.tables(), zero_row=self.row)


class ZeroColumn(ChangedRows):
    """Rows of an odd width: those of a source that is narrower by a column, and a zero."""

    width: Final[int]

    def __init__(self, source: RowSource, width: int) -> None:
        super().__init__(source)
        self.width = width

    def forward(self, positions: Tensor, width: int) -> Tensor:
        """Return the rows at int64 positions: (...) -> (..., width)."""
        check_width(width, self.width)
        rows: Tensor = self.source(positions, self.width - 1)
        return nn.functional.pad(rows, [0, 1])  # a column of zeros behind the last

    def arange(self, length: int, width: int) -> Tensor:
        """Return the rows of positions 0..length-1: (1, length, width)."""
        check_width(width, self.width)
        rows: Tensor = self.source.arange(length, self.width - 1)
        return nn.functional.pad(rows, [0, 1])

    def tables(self) -> Tables:
        """Raise NoTables: digits of a position make sines and cosines alone."""
        raise NoTables("an odd width has a column of zeros, which digits do not make: give --baked, or an even d_model")


def with_zero_row(source: RowSource, row: int | None) -> RowSource:
    """Return a source whose row at a position, if not None, is zeros; raise ValueError where it is out of range."""
    check_zero_row(row, source.end)
    return source if row is None else ZeroRow(source, row)


def check_zero_row(row: int | None, end: int | None) -> None:
    """Raise ValueError where the position whose row is zeros is negative, or at the end of positions or behind it."""
    if row is not None and not 0 <= row < (row + 1 if end is None else end):
        below = "" if end is None else f" and below the end of the positions, {end}"
        raise ValueError(f"padding_row must be at least 0{below}, got {row}")
