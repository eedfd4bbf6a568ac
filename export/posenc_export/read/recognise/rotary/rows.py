"""Rows of cosines and sines, at known positions, to a rotary form."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from posenc.formulas.fitting import Form, Observation, find_scheme, spacing_of_dtype
from posenc.formulas.parts.circles import FIRST_ROWS, are_floats
from posenc.formulas.parts.cos_sin_rows import formula_of
from posenc.formulas.rope_types.longrope import two_tables
from posenc.ports import Floats

CHUNK = 1 << 20
"""How many numbers are compared at once."""

MANY = 1 << 13
"""Rows of a table beyond which its form is read from some of them."""

FIRST, SPREAD = 1024, 512
"""Rows at the beginning, and between there and the end, from which the form of a large table is read."""


SECOND_TABLE = 0.02
"""An error above this may be the beginning of a second table."""

NEXT_ROWS = 64
"""How many rows of a second table must be right."""


@dataclass(frozen=True)
class CosSinRows:
    """Cosines and sines, a row a position and a column a pair."""

    cosine: NDArray[np.generic]
    sine: NDArray[np.generic]

    def __len__(self) -> int:
        """Count the rows."""
        return int(self.cosine.shape[0])

    @property
    def digest(self) -> bytes:
        """A few bytes that say which numbers these are."""
        digest = hashlib.blake2b(digest_size=16)
        for numbers in (self.cosine, self.sine):
            digest.update(np.ascontiguousarray(numbers).view(np.uint8).data)
        return digest.digest()

    @cached_property
    def some(self) -> CosSinRows:
        """The rows from which the form is read: those at `some_of`."""
        return self if len(self) <= MANY else self.at(some_of(len(self)))

    def at(self, places: NDArray[np.int64]) -> CosSinRows:
        """Return the rows at some places, as a copy."""
        return CosSinRows(self.cosine[places], self.sine[places])

    def after(self, row: int) -> CosSinRows:
        """Return the rows from one on."""
        return CosSinRows(self.cosine[row:], self.sine[row:])

    def before(self, row: int) -> CosSinRows:
        """Return the rows up to one."""
        return CosSinRows(self.cosine[:row], self.sine[:row])


def rotary_form(rows: CosSinRows, positions: NDArray[np.int64]) -> Form | None:
    """Return the rotary form of rows at positions; None where they are not cosines and sines of frequency x position.

    A form without a formula has the name "unknown frequencies".
    """
    if len(rows) > MANY and positions[-1] - positions[0] == len(rows) - 1:
        # a fit on rows whose distance doubles reads no others
        rows, positions = rows.some, positions[some_of(len(rows))]
    if not are_floats(rows.cosine, rows.sine):
        return None
    numbers = rows.cosine.astype(np.float64) + 1j * rows.sine.astype(np.float64)
    return find_scheme(Observation("rotation", numbers, spacing_of_dtype(rows.cosine.dtype), positions=positions))


def some_of(count: int) -> NDArray[np.int64]:
    """Return the rows from which the form of a table is read: all of a few, and of many the first and some others."""
    if count <= MANY:
        return np.arange(count)
    spread = np.linspace(FIRST, count - 1, SPREAD).astype(np.int64)
    return np.union1d(np.concatenate([np.arange(FIRST), spread]), 1 << np.arange(int(count - 1).bit_length()))


def row_errors(rows: CosSinRows, form: Form, positions: NDArray[np.int64]) -> Floats:
    """Return the largest absolute error of each row; infinite where a number is not finite."""
    if form.exact is None:
        raise ValueError(f"{form.name} has no formula to compare rows with")
    parts = [
        _errors(rows.cosine[part], rows.sine[part], form.exact(positions[part]))
        for part in _chunks(len(rows), rows.cosine.shape[1])
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


def _errors(cosine: NDArray[np.generic], sine: NDArray[np.generic], exact: Floats) -> Floats:
    numbers = np.concatenate([cosine, sine], axis=1).astype(np.float64)
    with np.errstate(invalid="ignore"):
        off = np.abs(numbers - exact).max(axis=1)
    return np.where(np.isnan(off), np.inf, off)


def _chunks(rows: int, width: int) -> Iterator[slice]:
    count = max(1, CHUNK // max(width, 1))
    return (slice(start, start + count) for start in range(0, rows, count))


def rotary_table(rows: CosSinRows) -> Form | None:
    """Return the form of a stored table, whose row r is position r; two tables end to end have one form."""
    first = rotary_form(rows, np.arange(len(rows)))
    seam = None if first is None else _seam(rows, first)
    if first is None or seam is None:
        return first
    # the second table counts positions on, or anew
    for start in (seam, 0):
        second = rotary_form(rows.after(seam), np.arange(len(rows) - seam) + start)
        if second is not None and _is_right(rows.after(seam), second, start):
            return two_tables(rotary_form(rows.before(seam), np.arange(seam)) or first, second, seam, start)
    return first


def _seam(rows: CosSinRows, first: Form) -> int | None:
    """Return the row from which on a table is not that of its first rows."""
    # noise of half precision grows slowly; a second table begins at once
    checked = replace(first, exact=formula_of(first))
    seam, places = None, some_of(len(rows))
    beyond = np.flatnonzero(row_errors(rows.some, checked, places) > SECOND_TABLE)
    if beyond.size:
        # of a large table some rows were looked at: it begins between a right one and the next
        before = int(places[beyond[0] - 1]) if beyond[0] else 0
        between = np.arange(before, int(places[beyond[0]]) + 1)
        wrong = np.flatnonzero(row_errors(rows.at(between), checked, between) > SECOND_TABLE)
        seam = int(between[wrong[0]])
    return seam if seam is not None and FIRST_ROWS <= seam <= len(rows) - FIRST_ROWS else None


def _is_right(rows: CosSinRows, form: Form, start: int) -> bool:
    """Tell whether the first rows of a second table are those of its form."""
    rows = rows.before(NEXT_ROWS)
    checked = replace(form, exact=formula_of(form))
    return bool(np.all(row_errors(rows, checked, np.arange(len(rows)) + start) <= SECOND_TABLE))
