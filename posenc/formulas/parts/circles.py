"""Points on a circle: whether two arrays are cosines and sines of the same angles, and how fast their columns turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posenc.formulas.fitting import NEAR_ROWS
from posenc.ports import Array, Complexes, Floats, Integers

ROUNDOFF = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-24}
"""The largest relative error of rounding to a dtype."""

HALVES = ("bfloat16", "float16")
"""The half precisions, the narrower first."""

SUBNORMAL = 2.0**-25
"""Half the distance of numbers near 0 in float16."""

LOOSEST = 0.02
"""Tables of int8 are off a circle by a hundredth."""

STRAIGHT = 0.1
"""How far radii may lie off straight lines, as a share of what they rise by."""

FIRST_ROWS = 8
"""Rows on which angles of half precision still lie on the circle and are in order."""


COARSEST_ANGLE = 1.2 * 2.0**-8
"""The relative error of an angle computed in bfloat16."""


@dataclass(frozen=True)
class Circle:
    """Points on a circle.

    Args:
        amplitude: its radius: the attention factor.
        points: cosine + i sine of the angles, in the shape of the arrays.
        held_in: the narrowest float type that holds its numbers.
        absolute: their absolute error.
    """

    amplitude: float
    points: Complexes
    held_in: str
    absolute: float

    @property
    def relative(self) -> float:
        """The relative error of the numbers, as their rounding says."""
        return ROUNDOFF[self.held_in]

    def angle_errors(self, rows: Complexes) -> Floats:
        """Bound the errors of the angles of some of its points, in radians."""
        # of c ds - s dc, with ds and dc relative to s and c
        rounding = 2 * self.relative * np.abs(rows.real * rows.imag)
        return np.asarray(rounding + self.absolute + np.abs(rows.imag) * 2.0**-24)


def circle_of(cosine: Array, sine: Array) -> Circle | None:
    """Return the circle that (C, S) lie on; None where C^2 + S^2 is not constant within the precision of the numbers.

    The first axis is that of positions.
    """
    if cosine.shape != sine.shape or cosine.size == 0 or not are_floats(cosine, sine):
        return None
    points = cosine.astype(np.float64) + 1j * sine.astype(np.float64)
    # later rows of half precision may be noise, and still lie on the circle
    radii = np.abs(points[:NEAR_ROWS])
    if not np.isfinite(radii).all() or not (amplitude := float(np.median(radii))) > 0:
        return None
    dtype = narrowest_float(points[:NEAR_ROWS])
    relative, off = ROUNDOFF[dtype], float(np.abs(radii / amplitude - 1).max())
    # float32 angles whose cosine and sine are a few units off are on the circle still
    if off <= 3 * relative:
        absolute = SUBNORMAL if dtype == "float16" else 0.0
    elif off <= LOOSEST and not _is_trend(radii):
        absolute = 2 * off
    else:
        return None
    return Circle(amplitude, np.asarray(points / amplitude, np.complex128), dtype, absolute)


def _is_trend(radii: Floats) -> bool:
    """Return whether radii grow or fall along positions: xPos scales what it turns, and roundings have no direction."""
    rows = radii.reshape(len(radii), -1)
    if len(rows) < FIRST_ROWS:
        return False
    along = np.linspace(-1, 1, len(rows))[:, None]
    slopes = (along * rows).sum(0) / (along**2).sum()
    rest = rows - rows.mean(0) - along * slopes
    return bool(np.abs(rest).max() < STRAIGHT * np.abs(slopes).max())


def narrowest_float(numbers: Complexes) -> str:
    """Return the narrowest float type that holds all of the numbers: what they were rounded to, whatever holds them."""
    parts = np.concatenate([numbers.real.ravel(), numbers.imag.ravel()]).astype(np.float32)
    return next((name for name in HALVES if np.array_equal(to_half(parts, name), parts)), "float32")


def to_half(numbers: Array, name: str) -> Floats:
    """Return numbers as a half precision has them: its nearest ones, even of two. NumPy has no bfloat16."""
    if name == "float16":
        with np.errstate(over="ignore"):
            return numbers.astype(np.float16).astype(np.float64)
    bits = numbers.astype(np.float32).view(np.uint32)
    # the upper half of a float32, one more where the lower half is more than half of its last digit
    upper = (bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return (upper.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def are_floats(*arrays: Array) -> bool:
    """Return whether arrays hold floats, those of bfloat16 too, which NumPy does not count among them."""
    return all(array.dtype.kind == "f" or array.dtype.name == "bfloat16" for array in arrays)


@dataclass(frozen=True)
class MeasuredFrequencies:
    """The frequency of each column.

    Args:
        inv_freq: in radians per position.
        error: a bound of the absolute error of each.
        last: the last position at which the angles are those of these frequencies, among those that were tried.
    """

    inv_freq: Floats
    error: Floats
    last: int


def frequencies_at(circle: Circle, positions: Integers) -> MeasuredFrequencies | None:
    """Return the frequencies of points (positions, columns); None where angles are not proportional to positions.

    Positions are whole, in any order, and two of them are neighbours.
    """
    order = np.argsort(positions, kind="stable")
    positions, start = positions[order], _start(positions[order])
    if start is None:
        return None
    points = circle.points[order]
    fit = _doubled(circle, points, positions, start)
    if fit is None or not _from_zero(circle, points, positions, fit):
        return None
    return fit


def offset_of(circle: Circle, count: int, largest: int = 1 << 20) -> int | None:
    """Return the first of `count` positions in a row, where angles are proportional to them; None where they are not.

    Ranges of positions begin at 0, at 1, or after what was cached.
    """
    steps = np.arange(count, dtype=np.int64)
    # BERT-like ids begin at 2, some counted masks at 1
    for first in (0, 1, 2):
        if frequencies_at(circle, steps + first) is not None:
            return first
    fit = _doubled(circle, circle.points, steps, 0)
    if fit is None or not np.any(np.abs(fit.inv_freq) > 0):
        return None
    # the slowest column says roughly where it is, for its angle is below a turn
    slowest = int(np.argmin(np.where(np.abs(fit.inv_freq) > 2 * fit.error, np.abs(fit.inv_freq), np.inf)))
    first = round(float(np.angle(circle.points[0, slowest]) / fit.inv_freq[slowest]))
    if not 0 <= first <= largest or frequencies_at(circle, steps + first) is None:
        return None
    return first


def _start(positions: Integers) -> int | None:
    """Return the row after which the next position follows; the earliest."""
    rows = np.flatnonzero(np.diff(positions) == 1)
    return int(rows[0]) if rows.size else None


def _doubled(circle: Circle, points: Complexes, positions: Integers, start: int) -> MeasuredFrequencies | None:
    """Fit on the rows at distance 1, 2, 4, ... of the row `start`, and on what is measured from position 0."""
    base, distance, last = points[start], 1, int(positions[start])
    base_error = circle.angle_errors(base) if positions[start] else np.zeros(base.shape)
    inv_freq, error = np.zeros(base.shape), np.full(base.shape, np.inf)
    rows = {int(position): row for row, position in enumerate(positions)}
    while (row := rows.get(int(positions[start]) + distance)) is not None:
        if not np.isfinite(points[row]).all():
            break
        # what is left of the angle after the estimate so far: never near half a turn, as the error halves each time
        excess = np.angle(points[row] * np.conj(base) * np.exp(-1j * inv_freq * distance))
        bound = circle.angle_errors(points[row]) + base_error
        if distance > 1 and np.any(np.abs(excess) > 2 * (error * distance + bound) + _slack(inv_freq, distance)):
            break
        measured, precision = inv_freq + excess / distance, bound / distance
        # a slow pair is known best by its last row, and so is a fast one
        better = precision <= error
        inv_freq, error = np.where(better, measured, inv_freq), np.where(better, precision, error)
        last, distance = int(positions[row]), 2 * distance
    if not np.isfinite(error).all() or distance < 4:
        return None
    return _by_absolute_angle(circle, points[rows[last]], MeasuredFrequencies(inv_freq, error, last))


def _by_absolute_angle(circle: Circle, row: Complexes, fit: MeasuredFrequencies) -> MeasuredFrequencies:
    """Return the fit by the angle of its last row from position 0, where the turns until there are certain."""
    off = np.angle(row * np.exp(-1j * fit.inv_freq * fit.last))
    measured, precision = fit.inv_freq + off / fit.last, circle.angle_errors(row) / fit.last
    better = (precision < fit.error) & (np.abs(off) <= 2 * fit.error * fit.last + _slack(fit.inv_freq, fit.last))
    return MeasuredFrequencies(
        np.where(better, measured, fit.inv_freq), np.where(better, precision, fit.error), fit.last
    )


def _slack(inv_freq: Floats, distance: int) -> Floats:
    """Return what float32 may have lost of an angle."""
    return np.asarray(np.abs(inv_freq) * distance * 2.0**-22 + 1e-12)


def _from_zero(circle: Circle, points: Complexes, positions: Integers, fit: MeasuredFrequencies) -> bool:
    """Return whether the angles of the first rows are frequency x position, even if computed in half precision."""
    rows = np.flatnonzero(positions <= positions[0] + FIRST_ROWS)
    off = np.abs(np.angle(points[rows] * np.exp(-1j * positions[rows, None] * fit.inv_freq)))
    return bool(np.all(off <= _allowed(circle, points[rows], positions[rows], fit)))


def _allowed(circle: Circle, points: Complexes, positions: Integers, fit: MeasuredFrequencies) -> Floats:
    """Return how far angles of rows may be off."""
    measured = circle.angle_errors(points) + fit.error * np.abs(positions[:, None])
    # beyond a turn, angles of half precision would fit anything
    coarse = np.minimum(np.abs(positions[:, None] * fit.inv_freq) * COARSEST_ANGLE, 0.3)
    return np.asarray(3 * measured + coarse + 1e-7)


def first_errors(circle: Circle, positions: Integers, fit: MeasuredFrequencies) -> float:
    """Return how far the first points may be from those of closed forms of the frequencies, relative to the radius."""
    rows = slice(FIRST_ROWS + 1)
    angles = _allowed(circle, circle.points[rows], positions[rows], fit)
    return float(angles.max()) + 3 * circle.relative + circle.absolute
