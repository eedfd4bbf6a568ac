"""Biases that were computed when a file was written: numbers of each head by the distance from query to key."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from posenc.formulas.fitting import Form, Parameter
from posenc_export.read.recognise.buckets import ByDistance, by_distance, t5_buckets
from posenc_export.read.recognise.masks import unblocked

FEWEST = 4
"""How many different numbers a learned bias has at least."""
T5_SIZES = tuple((buckets, far) for buckets in (32, 64, 16, 8) for far in (128, 256, 64, 512, 32, 16))
"""Numbers of buckets and distances that are tried on equal runs."""


def relative_form(bias: NDArray[np.generic]) -> Form | None:
    """Return the form of a learned bias (.., heads, queries, keys) by distance; None where diagonals differ.

    Keys that a mask leaves out count for nothing. A single head tells too little.
    """
    if bias.ndim < 3 or min(bias.shape[-2:]) < 4:
        return None
    # (.., heads, queries, keys) -> (heads, queries, keys): a batch repeats the first
    heads = np.asarray(unblocked(bias).reshape(-1, *bias.shape[-3:])[0])
    if len(heads) < 2 or np.isnan(heads).any():
        return None
    diagonals = by_distance(heads)
    if diagonals is None or not _irregular(diagonals.values):
        return None
    parameters: dict[str, Parameter] = {"heads": len(heads), "rows": diagonals.values.shape[-1]}
    return _t5_of_runs(diagonals, parameters) or Form("relative", _name(diagonals.values), parameters)


def _irregular(values: NDArray[np.generic]) -> bool:
    """Return whether numbers of all heads vary with distance, and not by a straight line as coordinates do."""
    numbers = values.astype(np.float64)
    # an identity and a band have two numbers: they say which places belong together
    if len(np.unique(numbers[0])) < FEWEST:
        return False
    # a straight line by distance is ALiBi's, or a ramp of coordinates
    bends = np.abs(np.diff(numbers, 2, axis=-1)).max(-1)
    return bool((np.ptp(numbers, axis=-1) > 0).all() and (bends > 1e-6 * np.abs(numbers).max()).all())


def _name(values: NDArray[np.generic]) -> str:
    """Return "bucketed" where neighbours share numbers in all heads, in the middle and not at the ends alone."""
    equal = (np.diff(values.astype(np.float64), axis=-1) == 0).all(0)
    # equal numbers at either end alone are distances that were clipped
    inner = equal[np.flatnonzero(~equal)[0] : np.flatnonzero(~equal)[-1] + 1]
    if inner.any():
        return "bucketed"
    return "clipped" if equal.any() else "table"


def _t5_of_runs(diagonals: ByDistance, parameters: dict[str, Parameter]) -> Form | None:
    """Return T5's form where equal runs begin and end as its buckets do."""
    changes = (np.diff(diagonals.values.astype(np.float64), axis=-1) != 0).any(0)
    distance = diagonals.distances()
    if changes.all() or _name(diagonals.values) != "bucketed":
        return None
    for buckets, far in T5_SIZES:
        for bidirectional in (True, False):
            if far <= buckets // 2:
                continue
            # floats miss a bucket at its edge: either side will do
            edges = [np.diff(t5_buckets(distance, buckets, far, bidirectional, edge)) != 0 for edge in (-1e-4, 1e-4)]
            if any(np.array_equal(changes, edge) for edge in edges):
                sizes = {"num_buckets": buckets, "max_distance": far, "bidirectional": bidirectional}
                return Form("t5", "buckets", {"heads": parameters["heads"], **sizes})
    return None
