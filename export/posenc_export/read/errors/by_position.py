"""How far rows are from their closed form in float64, position by position."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from posenc_export.read.inspection import Errors

Floats = NDArray[np.float64]
Exact = Callable[[NDArray[np.int64]], Floats]
POINTS = 256
"""Points of a curve: a point is the largest error up to the next one."""
NEAR = 32
"""Rows at the beginning."""
MATRIX = 4
"""Numbers of the matrix that turns a pair."""
SAME = 0.2
"""A median error beyond which columns are not those that they are compared with."""


def errors_by_position(
    arrays: Sequence[NDArray[np.generic]], exact: Exact, positions: NDArray[np.int64], bound: float
) -> Errors | None:
    """Return the largest error of a row at each position; None where no array has rows like those of the form.

    Args:
        arrays: position values or tables, with a row for each position along one of their axes.
        exact: the rows of the form in float64; cosines, then sines, where it is rotary.
        positions: of the rows.
        bound: the error that counts as too large.
    """
    # computed once: a table may have 131072 rows
    expected = exact(positions)
    rows = [_rows(array, len(positions)) for array in arrays]
    known = [(row, columns) for row in rows if row is not None and (columns := columns_of(row, expected)) is not None]
    measured = [errors_of(row, columns, expected) for row, columns in known]
    if not measured:
        return None
    return curve(positions, np.max(measured, axis=0), bound)


def curve(positions: NDArray[np.int64], errors: Floats, bound: float) -> Errors:
    """Return errors by position as a curve of few points, which has the largest of each range."""
    beyond = np.flatnonzero(~(errors <= bound))  # NaN is beyond every bound
    exceeds = int(positions[beyond[0]]) if beyond.size else None
    ends = np.unique(np.geomspace(1, len(positions), min(POINTS, len(positions))).astype(np.int64))
    starts = [0, *ends[:-1].tolist()]
    finite = np.where(np.isnan(errors), np.inf, errors)
    worst = [start + int(np.argmax(finite[start:end])) for start, end in zip(starts, ends.tolist(), strict=True)]
    return Errors(tuple(int(positions[i]) for i in worst), tuple(float(finite[i]) for i in worst), bound, exceeds)


def larger_errors(one: Errors, other: Errors) -> Errors:
    """Return the larger errors of two tables at each position, under the name of the worse table."""
    points: dict[int, float] = {}
    for curved in (one, other):
        for position, error in zip(curved.positions, curved.errors, strict=True):
            points[position] = max(error, points.get(position, 0.0))
    positions = tuple(sorted(points))
    exceeds = [curved.exceeds_from for curved in (one, other) if curved.exceeds_from is not None]
    sampled = [curved.sampled for curved in (one, other) if curved.sampled is not None]
    worse = max((one, other), key=lambda curved: max(curved.errors, default=0.0))
    return replace(
        worse,
        positions=positions,
        errors=tuple(points[position] for position in positions),
        exceeds_from=min(exceeds, default=None),
        sampled=min(sampled, default=None),
        last_position=max(curved.last_position or 0 for curved in (one, other)),
    )


def _rows(array: NDArray[np.generic], count: int) -> Floats | None:
    """Return an array as (positions, all else); None where no axis has a row for each position."""
    axis = next((axis for axis, size in enumerate(array.shape) if size == count), None)
    if axis is None:
        return None
    # (..., positions, ...) -> (positions, ...) -> (positions, all else)
    return np.moveaxis(array, axis, 0).reshape(count, -1).astype(np.float64)


@dataclass(frozen=True)
class Columns:
    """Which columns of a table are which of a closed form.

    Args:
        pairs: columns of the table, columns of the form, and the sign between them.
    """

    pairs: tuple[tuple[slice, slice, int], ...]


def columns_of(rows: Floats, expected: Floats) -> Columns | None:
    """Return which columns rows have: those that they are most like; None where they are like none."""
    best, least = None, SAME
    for ours, theirs in _columns(rows.shape[1], expected.shape[1]):
        middle = _middle(rows[:, ours], expected[:, theirs])
        if middle < least:
            best, least = (ours, theirs), middle
    if best is None:
        return None
    return Columns(((*best, 1), *_again(rows, expected, *best)))


def errors_of(rows: NDArray[np.generic], columns: Columns, expected: Floats) -> Floats:
    """Return the largest absolute error of each row, over all columns that are known."""
    first = columns.pairs[0][0]
    worst: Floats | None = None
    with np.errstate(invalid="ignore"):
        for ours, theirs, sign in columns.pairs:
            # columns are mostly there twice, bit by bit; NaN is unlike itself, and is measured again
            if worst is not None and sign > 0 and np.array_equal(rows[:, ours], rows[:, first]):
                continue
            off = np.subtract(rows[:, ours], sign * expected[:, theirs] if sign < 0 else expected[:, theirs])
            # without a pass for absolute values; a sum with 0 has no negative zero
            error: Floats = np.maximum(off.max(axis=1), -off.min(axis=1)).astype(np.float64) + 0.0
            worst = error if worst is None else np.maximum(worst, error)
    assert worst is not None  # there is a first pair
    return worst


def _middle(rows: Floats, expected: Floats) -> float:
    """Return the median of the largest error of a row, over all rows or over the first ones, whichever is less."""
    with np.errstate(invalid="ignore"):
        error = np.abs(rows - expected).max(axis=1)
    error = np.where(np.isnan(error), np.inf, error)
    # angles of half precision are noise in most rows, and are those of the form in the first
    return float(min(np.median(error), np.median(error[:NEAR])))


def _again(rows: Floats, expected: Floats, ours: slice, theirs: slice) -> Iterator[tuple[slice, slice, int]]:
    """Yield the other half of a table whose columns are there twice, as they are or with the other sign."""
    pairs = expected.shape[1] // 2
    if ours.step == MATRIX:
        for first, other in ((1, slice(pairs, 2 * pairs)), (2, slice(pairs, 2 * pairs)), (3, theirs)):
            columns = slice(first, MATRIX * pairs, MATRIX)
            sign = next((sign for sign in (1, -1) if _middle(rows[:, columns], sign * expected[:, other]) < SAME), None)
            if sign is not None:
                yield columns, other, sign
        return
    if rows.shape[1] != 2 * pairs or theirs == slice(0, 2 * pairs):
        return
    others = slice(1, 2 * pairs, 2) if ours.step == 2 else slice(pairs, 2 * pairs)
    for sign in (1, -1):
        if _middle(rows[:, others], sign * expected[:, theirs]) < SAME:
            yield others, theirs, sign
            return


def _columns(count: int, width: int) -> Iterator[tuple[slice, slice]]:
    """Yield columns of rows with those of the form that they may be: whole rows, or their cosines or sines alone."""
    if count >= width:
        yield slice(0, width), slice(0, width)
    pairs = width // 2
    if count == MATRIX * pairs > 0:
        # a matrix a pair: cos, -sin, sin, cos
        yield slice(0, count, MATRIX), slice(0, pairs)
    for half in (slice(0, pairs), slice(pairs, 2 * pairs)):
        # a column a pair, or halves; the columns of a batch's first sequence come first
        if count >= pairs > 0:
            yield slice(0, pairs), half
        # each column twice, side by side
        if count >= 2 * pairs > 0:
            yield slice(0, 2 * pairs, 2), half
