"""Cosines and sines of position x frequency, by three methods.

`SinCosTable` stores the rows, `AngleAddition` composes them from three small tables, `DirectSinCos` computes them with
Sin and Cos. Everything that depends on the method, they say themselves: nobody else switches on its name.
"""

from typing import Protocol

import torch
from torch import Tensor

from posenc.encoding import RowSource
from posenc.memory import check_room
from posenc.ports import Floats
from posenc.sincos.angle_addition import LOW, MID, AngleAddition
from posenc.sincos.direct import ComputedSinCos, DirectSinCos, SelfAdjustingSinCos
from posenc.sincos.rows import inverse_frequencies, inverse_frequencies_to_base
from posenc.sincos.table import SinCosTable
from posenc.sincos.zeros import ZeroColumn, ZeroRow
from posenc.spec import Spec

__all__ = [
    "AngleAddition",
    "ComputedSinCos",
    "DirectSinCos",
    "SelfAdjustingSinCos",
    "SinCosMethod",
    "SinCosTable",
    "check_table",
    "computed_sincos",
    "inverse_frequencies",
    "inverse_frequencies_to_base",
    "self_adjusting_sincos",
    "sincos",
    "sincos_rows",
]


class SinCosMethod(RowSource, Protocol):
    """A source of rows that hold a cosine and a sine, times `scale`, of each frequency."""

    @property
    def width(self) -> int:
        """Columns of a row."""

    @property
    def scale(self) -> float:
        """What multiplies every cosine and sine."""

    def cos_sin(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines: (...) -> twice (..., pairs)."""


def sincos(
    spec: Spec, inv_freq: Floats, *, scale: float = 1.0, width: int | None = None, interleaved: bool = False
) -> SinCosMethod:
    """Return what computes rows of cosines and sines as a spec asks for: the only switch on the method.

    inv_freq: (pairs,) radians per position. scale: multiplies every cosine and sine. width: columns of a row, 2 pairs
    unless it is odd. Raises ValueError where there is no memory for the tables.
    """
    width = 2 * len(inv_freq) if width is None else width
    check_table(spec, width)
    dtype = getattr(torch, spec.angle_dtype)
    if spec.mode == "baked":
        return SinCosTable(inv_freq, width, interleaved=interleaved, max_len=spec.max_len, dtype=dtype, scale=scale)
    kind = AngleAddition if spec.method == "exact" else DirectSinCos
    method: SinCosMethod = kind(inv_freq, width, interleaved=interleaved, dtype=dtype, scale=scale)
    return method


def sincos_rows(
    spec: Spec,
    inv_freq: Floats,
    *,
    width: int,
    scale: float = 1.0,
    interleaved: bool = False,
    zero_row: int | None = None,
) -> RowSource:
    """Return a source of rows, as `sincos` does, in which there may be zeros: in one row, and in a last column.

    width: columns of a row; where pairs have one less, the last column is zeros. zero_row: the position whose row is
    zeros; a table stores them. Raises ValueError where there is no memory for the tables, and no such position.
    """
    if spec.mode == "baked":
        check_table(spec, width)
        _check_zero_row(zero_row, spec.max_len)
        dtype = getattr(torch, spec.angle_dtype)
        how = {"interleaved": interleaved, "max_len": spec.max_len, "dtype": dtype}
        return SinCosTable(inv_freq, width, **how, scale=scale, zero_row=zero_row)
    columns = min(width, 2 * len(inv_freq))
    source: RowSource = sincos(spec, inv_freq, scale=scale, width=columns, interleaved=interleaved)
    return with_zero_row(source if columns == width else ZeroColumn(source, width), zero_row)


def with_zero_row(source: RowSource, row: int | None) -> RowSource:
    """Return a source whose row at a position, if there is one, is zeros; raise ValueError where it has none there."""
    _check_zero_row(row, source.end)
    return source if row is None else ZeroRow(source, row)


def _check_zero_row(row: int | None, end: int | None) -> None:
    if row is not None and not 0 <= row < (row + 1 if end is None else end):
        below = "" if end is None else f" and below the end of the positions, {end}"
        raise ValueError(f"padding_row must be at least 0{below}, got {row}")


def check_table(spec: Spec, width: int) -> None:
    """Raise ValueError, in one line, where the largest table, or a short call, is more than the memory that is free."""
    if spec.mode == "dynamic" and spec.method == "trig":
        check_room("a call", (LOW, width), spec.angle_dtype)
    else:
        check_room("a table", (spec.max_len if spec.mode == "baked" else MID, width), spec.angle_dtype)


def computed_sincos(spec: Spec) -> ComputedSinCos:
    """Return what computes cosines and sines of frequencies that the graph computes: no table can hold those."""
    return ComputedSinCos(reduced=spec.method == "exact", dtype=getattr(torch, spec.angle_dtype))


def self_adjusting_sincos(spec: Spec, base: float, *, interleaved: bool, scale: float = 1.0) -> SelfAdjustingSinCos:
    """Return what computes rows as wide as each x; raise ValueError where a spec asks for tables."""
    if spec.mode == "baked" or spec.method == "exact":
        raise ValueError("d_model=auto has no table to store: it takes --dynamic --method trig")
    return SelfAdjustingSinCos(base, interleaved=interleaved, dtype=getattr(torch, spec.angle_dtype), scale=scale)
