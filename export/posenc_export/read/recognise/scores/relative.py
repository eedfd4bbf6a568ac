"""Biases that are stored for each distance from query to key, in rows of no formula."""

from __future__ import annotations

import numpy as np

from posenc.formulas.fitting import Form, Observation
from posenc.formulas.parts.distances import by_distance
from posenc_export.read.values import Array

FEWEST = 4
"""How many different numbers a learned bias has at least."""


def stored_by_distance(seen: Observation) -> Form | None:
    """Return the form of a learned bias (heads, queries, keys) by distance; None where diagonals differ.

    A bias from which a mask leaves keys out is no table, and a single head tells too little.
    """
    if min(seen.numbers.shape[1:]) < FEWEST or len(seen.numbers) < 2 or not seen.is_whole:
        return None
    diagonals = by_distance(seen.numbers)
    if diagonals is None or not _is_irregular(diagonals.values):
        return None
    rows = diagonals.values.shape[-1]
    return Form("relative", _name(diagonals.values), {"heads": len(seen.numbers), "rows": rows})


def _is_irregular(values: Array) -> bool:
    """Return whether numbers of all heads vary with distance, and not by a straight line as coordinates do."""
    numbers = values.astype(np.float64)
    # an identity and a band have two numbers: they say which places belong together
    if len(np.unique(numbers[0])) < FEWEST:
        return False
    # a straight line by distance is ALiBi's, or a ramp of coordinates
    bends = np.abs(np.diff(numbers, 2, axis=-1)).max(-1)
    return bool((np.ptp(numbers, axis=-1) > 0).all() and (bends > 1e-6 * np.abs(numbers).max()).all())


def _name(values: Array) -> str:
    """Return "bucketed" where neighbours share numbers in all heads, in the middle and not at the ends alone."""
    equal = (np.diff(values.astype(np.float64), axis=-1) == 0).all(0)
    # equal numbers at either end alone are distances that were clipped
    inner = equal[np.flatnonzero(~equal)[0] : np.flatnonzero(~equal)[-1] + 1]
    if inner.any():
        return "bucketed"
    return "clipped" if equal.any() else "table"
