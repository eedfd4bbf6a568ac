"""Large arrays keep some of their rows; the other rows of an input are zeros."""

from __future__ import annotations

import numpy as np

from posenc.ports import Array, Port

LARGE = 2**17
"""Elements above which an array keeps only some of its rows."""
FEWEST_ROWS, RUNS = 64, 8
"""Rows are kept in runs, from the first row to the last: a single row would bring a page of 2 MB into memory."""


def long_axis(port: Port, shape: tuple[int, ...]) -> int:
    """Return the axis of a port whose rows are sampled: its longest dynamic length, or else its longest axis."""
    lengths = [i for i in port.lengths if port.axes[i].is_dynamic]
    return max(lengths or range(len(shape)), key=lambda i: shape[i], default=0)


def sampled_rows(port: Port, shape: tuple[int, ...]) -> Array | None:
    """Return the indices of the rows of a large array that are kept; None if it is kept whole."""
    elements = int(np.prod(shape))
    if elements <= LARGE:
        return None
    length = shape[long_axis(port, shape)]
    run = min(max(FEWEST_ROWS, LARGE // (elements // length)) // RUNS, length // RUNS)
    if not run:
        return None
    starts = np.linspace(0, length - run, RUNS).astype(np.int64)  # (RUNS,)
    return np.unique(starts[:, None] + np.arange(run))  # (rows,): runs may overlap


def sample(array: Array, at: Array | None, axis: int) -> Array:
    """Return the rows of an array at indices along an axis."""
    return array if at is None else np.take(array, at, axis=axis)


def spread(rows: Array, at: Array, shape: tuple[int, ...], axis: int) -> Array:
    """Undo sample: put the rows back among zeros."""
    array = np.zeros(shape, rows.dtype)  # pages of zeros that are never touched cost no memory
    array[(slice(None),) * axis + (at,)] = rows
    return array
