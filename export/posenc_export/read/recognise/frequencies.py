"""The frequency of each column of cosines and sines, by a fit on rows whose distance doubles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from posenc_export.read.recognise.circle import FIRST_ROWS, Circle, Floats

COARSEST_ANGLE = 1.2 * 2.0**-8
"""The relative error of an angle computed in bfloat16."""


@dataclass(frozen=True)
class Frequencies:
    """The frequency of each column.

    Args:
        inv_freq: in radians per position.
        error: a bound of the absolute error of each.
        last: the last position at which the angles are those of these frequencies, among those that were tried.
    """

    inv_freq: Floats
    error: Floats
    last: int


def frequencies_of(circle: Circle, positions: NDArray[np.int64]) -> Frequencies | None:
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
        if frequencies_of(circle, steps + first) is not None:
            return first
    fit = _doubled(circle, circle.points, steps, 0)
    if fit is None or not np.any(np.abs(fit.inv_freq) > 0):
        return None
    # the slowest column says roughly where it is, for its angle is below a turn
    slowest = int(np.argmin(np.where(np.abs(fit.inv_freq) > 2 * fit.error, np.abs(fit.inv_freq), np.inf)))
    first = round(float(np.angle(circle.points[0, slowest]) / fit.inv_freq[slowest]))
    if not 0 <= first <= largest or frequencies_of(circle, steps + first) is None:
        return None
    return first


def _start(positions: NDArray[np.int64]) -> int | None:
    """Return the row after which the next position follows; the earliest."""
    rows = np.flatnonzero(np.diff(positions) == 1)
    return int(rows[0]) if rows.size else None


def _doubled(
    circle: Circle, points: NDArray[np.complex128], positions: NDArray[np.int64], start: int
) -> Frequencies | None:
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
    return _by_absolute_angle(circle, points[rows[last]], Frequencies(inv_freq, error, last))


def _by_absolute_angle(circle: Circle, row: NDArray[np.complex128], fit: Frequencies) -> Frequencies:
    """Return the fit by the angle of its last row from position 0, where the turns until there are certain."""
    off = np.angle(row * np.exp(-1j * fit.inv_freq * fit.last))
    measured, precision = fit.inv_freq + off / fit.last, circle.angle_errors(row) / fit.last
    better = (precision < fit.error) & (np.abs(off) <= 2 * fit.error * fit.last + _slack(fit.inv_freq, fit.last))
    return Frequencies(np.where(better, measured, fit.inv_freq), np.where(better, precision, fit.error), fit.last)


def _slack(inv_freq: Floats, distance: int) -> Floats:
    """Return what float32 may have lost of an angle."""
    return np.asarray(np.abs(inv_freq) * distance * 2.0**-22 + 1e-12)


def _from_zero(circle: Circle, points: NDArray[np.complex128], positions: NDArray[np.int64], fit: Frequencies) -> bool:
    """Tell whether the angles of the first rows are frequency x position, even if computed in half precision."""
    rows = np.flatnonzero(positions <= positions[0] + FIRST_ROWS)
    angles = positions[rows, None] * fit.inv_freq
    off = np.abs(np.angle(points[rows] * np.exp(-1j * angles)))
    measured = circle.angle_errors(points[rows]) + fit.error * np.abs(positions[rows, None])
    # beyond a turn, angles of half precision would fit anything
    coarse = np.minimum(np.abs(angles) * COARSEST_ANGLE, 0.3)
    return bool(np.all(off <= 3 * measured + coarse + 1e-7))
