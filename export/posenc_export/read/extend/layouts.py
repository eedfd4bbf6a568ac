"""How a stored table holds the rows of a closed form: which columns, with which signs, from which position on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from posenc.formulas.fitting import Form
from posenc_export.read.extend.held import Array, Floats

Exact = Callable[[NDArray[np.int64]], Floats]
FIRST = 12
"""Rows that tell layouts apart: far out, half precision is noise."""
ALIKE = 0.05
"""How far the first rows may be off: bfloat16 holds an angle of 8 to 0.03. The order that is nearest counts."""


@dataclass(frozen=True)
class Layout:
    """The place of a closed form's numbers in a table.

    Args:
        columns: of the closed form, for each column of the table.
        signs: 1 or -1, for each column of the table.
        scale: by what the closed form is multiplied.
        start: the position of the first row.
        zeros: rows of zeros, which padding has.
    """

    columns: NDArray[np.int64]
    signs: Floats
    scale: float
    start: int
    zeros: tuple[int, ...] = ()

    def rows(self, exact: Exact, first: int, last: int) -> Floats:
        """Return the rows from one to before another, in float64."""
        rows = self.scale * self.signs * exact(np.arange(first, last) + self.start)[:, self.columns]
        rows[[row - first for row in self.zeros if first <= row < last]] = 0.0
        return np.asarray(rows, np.float64)


def layout_of(table: Array, form: Form) -> Layout | None:
    """Return the layout in which a table (rows, columns) holds a form; None where it holds it in none."""
    assert form.exact is not None
    numbers = table[:FIRST].astype(np.float64)
    zeros = tuple(np.flatnonzero(~table.astype(bool).any(1)).tolist())
    shown = np.setdiff1d(np.arange(len(numbers)), zeros)
    best: tuple[float, Layout | None] = (ALIKE, None)
    for start in _starts(form):
        rows = form.exact(np.arange(len(numbers)) + start)
        for columns, signs in _arrangements(form, rows.shape[1], table.shape[1]):
            for scale in _scales(form):
                layout = Layout(columns, signs, scale, start, zeros)
                off = np.abs(scale * signs * rows[shown][:, columns] - numbers[shown]).max() if shown.size else np.inf
                best = min(best, (float(off), layout), key=lambda pair: pair[0])
    return best[1]


def _starts(form: Form) -> Sequence[int]:
    # a row of a rotary table is its position; rows of sinusoids may be counted from elsewhere
    offset = form.parameters.get("offset", 0)
    return (0,) if not isinstance(offset, int) else tuple(dict.fromkeys((0, offset, -offset)))


def _scales(form: Form) -> Sequence[float]:
    # the factor of attention is in the table, or multiplies what was looked up
    factor = form.parameters.get("attention_factor", 1.0)
    return tuple(dict.fromkeys((1.0, 1 / factor))) if isinstance(factor, float) and factor else (1.0,)


def _arrangements(form: Form, width: int, columns: int) -> Iterator[tuple[NDArray[np.int64], Floats]]:
    """Yield columns of a closed form and their signs, for a table of so many columns."""
    if not form.traits.is_turned:
        if columns == width:
            yield np.arange(width), np.ones(width)
        return
    pairs = width // 2
    cosine, sine = np.arange(pairs), np.arange(pairs, width)
    sides = {"c": (cosine, 1.0), "s": (sine, 1.0), "n": (sine, -1.0)}
    # cosines and sines alone, both beside each other, or one of them twice
    for first in sides.values():
        if columns == pairs:
            yield first[0], np.full(pairs, first[1])
    for first in sides.values() if columns == width else ():
        for second in sides.values():
            halves = np.concatenate([first[0], second[0]])
            signs = np.repeat([first[1], second[1]], pairs)
            yield halves, signs
            # pairs beside each other
            yield halves.reshape(2, -1).T.reshape(-1), signs.reshape(2, -1).T.reshape(-1)
