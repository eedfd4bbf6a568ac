"""Cosines and sines: of position x frequency, by three methods, and of other angles, by two.

`SinCosTable` stores the rows, `AngleAddition` stores the first and composes all others, `DirectSinCos` computes them
with Sin and Cos. Steps with fractions, coordinates and angles that a graph computes have makers of their own below.
Whatever depends on the method is asked of the object that a maker returns: only this folder knows methods by name.
"""

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from posenc.encoding import RowSource, Tolerance
from posenc.memory import check_room
from posenc.ports import Floats
from posenc.sincos.angle_addition import LOW, MID, AngleAddition
from posenc.sincos.direct import ComputedSinCos, DirectAngles, DirectSinCos, SelfAdjustingSinCos
from posenc.sincos.fractional import FractionalAngleAddition
from posenc.sincos.octaves import DirectOctaves, Octaves
from posenc.sincos.projection import DirectProjection, Projection
from posenc.sincos.rows import inverse_frequencies, inverse_frequencies_to_base
from posenc.sincos.series import SeriesSinCos
from posenc.sincos.table import SinCosTable
from posenc.sincos.zeros import ZeroColumn, check_zero_row, with_zero_row
from posenc.spec import Spec

__all__ = [
    "AngleAddition",
    "AngleSinCos",
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
    "sincos_of_angles",
    "sincos_of_bands",
    "sincos_of_octaves",
    "sincos_of_projection",
    "sincos_of_steps",
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

    def largest_angle(self, max_position: int) -> float:
        """Return the largest angle, in radians, of positions up to one."""


class AngleSinCos(Protocol):
    """Cosines and sines of angles that the graph itself computes."""

    @property
    def unit(self) -> float:
        """Radians of the unit that angles are in."""

    @property
    def within(self) -> torch.dtype:
        """The dtype that angles are computed in."""

    @property
    def half_safe(self) -> str:
        """Why a graph is not, or nothing; see Encoding."""

    def __call__(self, angles: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines: (...) -> twice (...)."""

    def tolerance(self, max_angle: float) -> Tolerance:
        """Return how far they may be from the float64 reference, at angles up to `max_angle` radians."""

    def eager_tolerance(self, max_angle: float) -> Tolerance:
        """Return how far a graph's may be from those of the eager module."""


def sincos(
    spec: Spec,
    inv_freq: Floats,
    *,
    scale: float = 1.0,
    width: int | None = None,
    interleaved: bool = False,
    phase: Floats | None = None,
) -> SinCosMethod:
    """Return the source of rows of cosines and sines, by position, whose method a spec asks for.

    Args:
        inv_freq: (pairs,) radians per position.
        scale: multiplies every cosine and sine.
        width: columns of a row [default: 2 pairs]; an odd width drops the last cosine.
        interleaved: whether a sine stands beside its cosine.
        phase: (pairs,) radians at position 0 [default: 0].

    Raises ValueError where the tables are larger than the free memory.
    """
    width = 2 * len(inv_freq) if width is None else width
    check_table(spec, width)
    dtype = getattr(torch, spec.angle_dtype)
    if spec.mode == "baked":
        how = {"interleaved": interleaved, "max_len": spec.max_len, "dtype": dtype}
        return SinCosTable(inv_freq, width, **how, scale=scale, phase=phase)
    if spec.method == "exact":
        stored = {"interleaved": interleaved, "table_rows": spec.stored_positions, "dtype": dtype}
        return AngleAddition(inv_freq, width, **stored, scale=scale, phase=phase)
    return DirectSinCos(inv_freq, width, interleaved=interleaved, dtype=dtype, scale=scale, phase=phase)


def sincos_rows(
    spec: Spec,
    inv_freq: Floats,
    *,
    width: int,
    scale: float = 1.0,
    interleaved: bool = False,
    zero_row: int | None = None,
) -> RowSource:
    """Return a source of rows, as `sincos` does, that may have a row and a last column of zeros.

    Args:
        inv_freq: (pairs,) radians per position.
        width: columns of a row; if it is 2 pairs + 1, the last column is zeros.
        scale, interleaved: as for `sincos`.
        zero_row: the position whose row is zeros; a table stores them.

    Raises ValueError where the tables are larger than the free memory, and where `zero_row` is out of range.
    """
    if spec.mode == "baked":
        check_table(spec, width)
        check_zero_row(zero_row, spec.max_len)
        dtype = getattr(torch, spec.angle_dtype)
        how = {"interleaved": interleaved, "max_len": spec.max_len, "dtype": dtype}
        return SinCosTable(inv_freq, width, **how, scale=scale, zero_row=zero_row)
    columns = min(width, 2 * len(inv_freq))
    source: RowSource = sincos(spec, inv_freq, scale=scale, width=columns, interleaved=interleaved)
    return with_zero_row(source if columns == width else ZeroColumn(source, width), zero_row)


def check_table(spec: Spec, width: int) -> None:
    """Raise ValueError, in one line, where the largest table, or a short call, is larger than the free memory."""
    if spec.mode == "dynamic" and spec.method == "trig":
        check_room("a call", (LOW, width), spec.angle_dtype)
    else:
        rows = spec.max_len if spec.mode == "baked" else max(MID, spec.stored_positions)
        check_room("a table", (rows, width), spec.angle_dtype)


def computed_sincos(spec: Spec) -> ComputedSinCos:
    """Return the module for frequencies that the graph itself computes."""
    return ComputedSinCos(reduced=spec.method == "exact", dtype=getattr(torch, spec.angle_dtype))


def sincos_of_angles(spec: Spec) -> AngleSinCos:
    """Return the module for angles that the graph itself computes: a series, or Cos and Sin."""
    kind = SeriesSinCos if spec.method == "exact" else DirectAngles
    return kind(getattr(torch, spec.angle_dtype))


def sincos_of_steps(spec: Spec, inv_freq: Floats) -> FractionalAngleAddition | DirectSinCos:
    """Return the module for step x frequency, of steps with fractions from -max_len to max_len.

    Args:
        inv_freq: (pairs,) radians per step.

    Raises ValueError where the tables are larger than the free memory.
    """
    dtype, baked = getattr(torch, spec.angle_dtype), spec.mode == "baked"
    if baked or spec.method == "exact":
        return FractionalAngleAddition(inv_freq, spec.max_len, stored=baked, dtype=dtype)
    return DirectSinCos(inv_freq, 2 * len(inv_freq), interleaved=False, dtype=dtype)


def sincos_of_projection(
    spec: Spec, matrix: Floats, span: float, *, logs: bool, centered: bool
) -> Projection | DirectProjection:
    """Return the module for cosines and sines of 2 pi (x @ matrix).

    Args:
        matrix: (numbers, pairs).
        span: the largest absolute number, or logarithm.
        logs: x stands for its logarithm.
        centered: x stands for 2x - 1.
    """
    dtype = getattr(torch, spec.angle_dtype)
    if spec.method == "trig":
        return DirectProjection(matrix, span, logs=logs, centered=centered, dtype=dtype)
    if not centered:
        return Projection(matrix, np.zeros(matrix.shape[1]), span, logs=logs, dtype=dtype)
    # (2x - 1) @ matrix = x @ 2 matrix - its sum: 2x - 1 itself would be rounded
    return Projection(2 * matrix, -matrix.sum(0), span, logs=logs, dtype=dtype)


def sincos_of_octaves(spec: Spec, octaves: int, span: float, *, pi: bool, by_number: bool) -> Octaves | DirectOctaves:
    """Return the module for cosines and sines of 2^k pi x, k = 0..octaves-1.

    Args:
        octaves: how many powers of two.
        span: the largest absolute number.
        pi: whether 2^k x is multiplied by pi.
        by_number: all octaves of a number lie together; else all numbers of an octave.
    """
    dtype = getattr(torch, spec.angle_dtype)
    if spec.method == "trig":
        return DirectOctaves(octaves, pi=pi, by_number=by_number, dtype=dtype)
    return Octaves(octaves, span, pi=pi, by_number=by_number, dtype=dtype)


def sincos_of_bands(
    spec: Spec, bands: Floats, span: float, *, pi: bool, by_number: bool
) -> Projection | DirectProjection:
    """Return the module for cosines and sines of pi x times each of its bands.

    Args:
        bands: (count, numbers) frequencies of each number.
        span: the largest absolute number.
        pi: whether x is multiplied by pi.
        by_number: all bands of a number lie together; else all numbers of a band.

    Raises ValueError where the matrix is larger than the free memory.
    """
    count, numbers = bands.shape
    check_room("a matrix", (numbers, count * numbers), "float64")
    # (numbers, count, numbers): a number has columns of its own, with zeros for all others
    circles = np.einsum("kn,nm->nkm", bands / (2 if pi else 2 * np.pi), np.eye(numbers))
    matrix = circles.swapaxes(1, 2) if by_number else circles
    # (numbers, count * numbers)
    return sincos_of_projection(spec, matrix.reshape(numbers, -1), span, logs=False, centered=False)


def self_adjusting_sincos(spec: Spec, base: float, *, interleaved: bool, scale: float = 1.0) -> SelfAdjustingSinCos:
    """Return a source of rows as wide as each x; raise ValueError where a spec asks for tables."""
    if spec.mode == "baked" or spec.method == "exact":
        raise ValueError("d_model=auto has no table to store: it takes --dynamic --method trig")
    return SelfAdjustingSinCos(base, interleaved=interleaved, dtype=getattr(torch, spec.angle_dtype), scale=scale)
