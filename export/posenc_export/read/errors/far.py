"""How far computed rows are from their closed form at all positions, and where they are those of others."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from posenc_export.read.errors.by_position import Columns, Exact, Floats, columns_of, errors_of
from posenc_export.read.errors.far_rows import LENGTH, FarRows
from posenc_export.read.values import Array

JUMP = 0.05
"""An error, beyond that of the position before, that no rounding makes."""
SLACK = 2.0**-20
"""What a position in float32 may add to an error: four roundings of an angle."""
LONGEST = 1 << 17
"""The longest call that is read whole, to see that a wrong position is one."""
NUMBERS = 1 << 26
"""Numbers that are compared with their closed form, unless more are needed for DENSE positions."""
DENSE = 1 << 17
"""Positions from 0 on that are all tried."""
FEWEST = 8
"""Turns beyond them that are tried at least."""
LASTING, MOST = 64, 0.9
"""Positions that are looked at behind a wrong one, and the share of them that must be wrong, too."""
WholeCall = Callable[[int, Sequence[str]], "dict[str, Array] | None"]


@dataclass(frozen=True)
class Far:
    """Errors at all positions from 0 on.

    Args:
        positions: those that were tried, from 0 on; those of the first break and beyond are left out.
        errors: of each position.
        breaks: the first position that does not get its own numbers; None where each does.
        words: what it gets instead.
        is_late: whether time ran out before the limit.
    """

    positions: NDArray[np.int64]
    errors: Floats
    breaks: int | None = None
    words: str = ""
    is_late: bool = False

    @property
    def sampled(self) -> int | None:
        """How many positions were tried; None where all were, up to the last."""
        return None if not self.positions.size or self.positions[-1] + 1 == self.positions.size else self.positions.size


def far_errors(rows: FarRows, exact: Exact, limit: int, seconds: float, whole: WholeCall) -> Far | None:
    """Return the errors of computed rows; None where they are not like those of the closed form.

    Args:
        rows: what computes them.
        exact: the rows of the form in float64.
        limit: how many positions are tried.
        seconds: how long it may take.
        whole: reads a whole call, which a wrong position is looked up in where the graph counts.
    """
    columns: dict[str, Columns] = {}
    errors: list[Floats] = []
    tried: list[NDArray[np.int64]] = []
    deadline = time.monotonic() + seconds
    starts = [0]
    is_late = False
    for first in starts:
        is_late = time.monotonic() >= deadline
        found = None if is_late else rows.at(first)
        if found is None:
            break
        positions = first + np.arange(min(rows.stride, limit - first))
        expected = exact(positions)
        if not columns:
            columns = _columns(found, expected)
            if not columns:
                return None
            starts += _starts(rows.stride, limit, expected.shape[1])
        worst = _worst(found, columns, expected)
        breaks = _break(worst, first, errors[-1] if errors else np.zeros(0))
        if breaks is not None and _lasts(breaks, rows, columns, exact):
            place = breaks - first
            if not _is_real(breaks, rows, columns, exact, whole):
                break
            made = np.concatenate([*tried, positions[:place]]), np.concatenate([*errors, worst[:place]])
            return Far(*made, breaks, _words(found, columns, place, exact, breaks))
        errors.append(worst)
        tried.append(positions)
    return Far(np.concatenate(tried), np.concatenate(errors), is_late=is_late) if errors else None


def _starts(stride: int, limit: int, width: int) -> list[int]:
    """Return where the turns behind the first begin: all of them, or of wide rows those of DENSE positions and some."""
    every = list(range(stride, limit, stride))
    if limit * width <= NUMBERS or limit <= DENSE:
        return every
    near = [start for start in every if start < DENSE]
    far = every[len(near) :]
    count = max(FEWEST, (NUMBERS - DENSE * width) // (stride * width))
    places = np.unique(np.linspace(0, len(far) - 1, min(count, len(far))).astype(np.int64))
    return [*near, *(far[place] for place in places.tolist())]


def _columns(found: Mapping[str, Array], expected: Floats) -> dict[str, Columns]:
    """Return which columns of each value are which of the form."""
    rows = {name: _rows(array, len(expected)) for name, array in found.items()}
    known = {name: columns_of(array, expected) for name, array in rows.items() if array is not None}
    return {name: columns for name, columns in known.items() if columns is not None}


def _rows(array: Array, count: int) -> Floats | None:
    """Return an array as (positions, all else), the first `count` of them; None where no axis has them."""
    axis = next((axis for axis, size in enumerate(array.shape) if size == LENGTH), None)
    if axis is None:
        return None
    # (..., positions, ...) -> (positions, all else)
    return np.moveaxis(array, axis, 0).reshape(LENGTH, -1)[:count].astype(np.float64)


def _worst(found: Mapping[str, Array], columns: Mapping[str, Columns], expected: Floats) -> Floats:
    parts = []
    for name, known in columns.items():
        rows = _rows(found[name], len(expected))
        assert rows is not None  # it had rows when its columns were told
        parts.append(errors_of(rows, known, expected))
    return np.asarray(np.max(parts, axis=0), np.float64)


def _break(errors: Floats, first: int, earlier: Floats) -> int | None:
    """Return the first position whose error is more than rounding grows to; None where there is none.

    Args:
        errors: of positions from the first on.
        first: the first position.
        earlier: the errors of the positions before it.
    """
    allowed = JUMP + SLACK * (first + np.arange(len(errors)))
    beyond = np.flatnonzero(~(errors <= allowed))
    if not beyond.size:
        return None
    place = int(beyond[0])
    # what grows little by little is rounding, however large it is
    before = np.concatenate([earlier[-LASTING:], errors[:place]])[-LASTING:].max(initial=0.0)
    return None if before > allowed[place] / 4 else first + place


def _lasts(breaks: int, rows: FarRows, columns: Mapping[str, Columns], exact: Exact) -> bool:
    """Return whether positions stay wrong: half precision is wrong at every second position first, then at more."""
    begin = breaks // max(rows.counts.values()) * max(rows.counts.values())
    found = rows.at(begin)
    if found is None:
        return True
    errors = _worst(found, columns, exact(begin + np.arange(breaks - begin + LASTING)))[breaks - begin :]
    return float(np.mean(~(errors <= JUMP + SLACK * breaks))) > MOST


def _is_real(breaks: int, rows: FarRows, columns: Mapping[str, Columns], exact: Exact, whole: WholeCall) -> bool:
    """Return whether a position is wrong in a call that is long enough, and not only where a count is started late."""
    if breaks < LENGTH:
        return True
    if breaks >= LONGEST:
        return False
    called = whole(breaks + 1, tuple(columns))
    if called is None:
        return False
    expected = exact(np.array([breaks]))
    for name, known in columns.items():
        array = called[name]
        axis = next((axis for axis, size in enumerate(array.shape) if size == breaks + 1), None)
        if axis is None:
            return False
        row = np.moveaxis(array, axis, 0)[-1:].reshape(1, -1).astype(np.float64)
        if errors_of(row, known, expected)[0] > JUMP + SLACK * breaks:
            return True
    return False


def _words(found: Mapping[str, Array], columns: Mapping[str, Columns], place: int, exact: Exact, breaks: int) -> str:
    """Return what a position gets in place of its own numbers."""
    near = np.arange(min(breaks, LENGTH))
    expected = exact(near)
    errors = np.zeros(len(near))
    for name, known in columns.items():
        rows = _rows(found[name], place + 1)
        assert rows is not None
        row: NDArray[np.float64] = np.repeat(rows[place : place + 1], len(near), axis=0)
        errors = np.maximum(errors, errors_of(row, known, expected))
    nearest = int(np.argmin(errors))
    if errors[nearest] < JUMP:
        return f"position {breaks:,} gets the numbers of position {nearest:,}"
    return f"position {breaks:,} gets other numbers than its own"
