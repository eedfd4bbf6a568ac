"""Cosines and sines of positions times the frequencies of pairs, in float64."""

from __future__ import annotations

from functools import cache

import numpy as np

from posenc.formulas.fitting import Exact, Form
from posenc.ports import Floats, Integers

BLOCK, LARGEST_BLOCK = 256, 1 << 14
"""How many consecutive rows are composed of others: fewer gain nothing, and more are kept for the next block."""


def rows_of(inv_freq: Floats, amplitude: float) -> Exact:
    """Return the function of positions to (positions, 2 * pairs): cosines, then sines, in float64."""

    def direct(positions: Integers) -> Floats:
        angles = positions.astype(np.float64)[:, None] * inv_freq
        return amplitude * np.concatenate([np.cos(angles), np.sin(angles)], axis=1)

    @cache
    def steps(count: int) -> tuple[Floats, Floats]:
        cosines, sines = np.split(direct(np.arange(count)), 2, axis=1)
        return cosines, sines

    def exact(positions: Integers) -> Floats:
        count, first = len(positions), positions[:1]
        if count < BLOCK or count > LARGEST_BLOCK or not np.array_equal(positions, first + np.arange(count)):
            return direct(positions)
        # angles add up: rows in a row need no cosine and no sine of their own, and lose some 1e-16
        (cosine, sine), (start, rise) = steps(count), np.split(direct(first) / amplitude, 2, axis=1)
        return np.concatenate([cosine * start - sine * rise, sine * start + cosine * rise], axis=1)

    return exact


def formula_of(form: Form) -> Exact:
    """Return the form's formula, or else that of its measured frequencies."""
    if form.exact is not None:
        return form.exact
    inv_freq, amplitude = form.parameters["inv_freq"], form.parameters["attention_factor"]
    return rows_of(np.asarray(inv_freq, np.float64), float(np.asarray(amplitude)))


def turned_back(forward: Exact) -> Exact:
    """Return the function of pairs that turn by minus the angle: its sines are below 0 where they were above."""

    def exact(positions: Integers) -> Floats:
        cosines, sines = np.split(forward(positions), 2, axis=1)
        return np.concatenate([cosines, -sines], axis=1)

    return exact
