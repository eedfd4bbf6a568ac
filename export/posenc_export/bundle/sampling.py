"""Large arrays are kept on some rows only; the others of an input are zeros."""

from __future__ import annotations

import numpy as np

from posenc.ports import Array, Port

LARGE = 2**17
"""Above this many elements an array is kept on some rows only."""
FEWEST_ROWS, RUNS = 64, 8
"""Rows are kept in runs from the first row to the last: spread singly, each would bring a page of zeros into memory."""


def long_axis(port: Port, shape: tuple[int, ...]) -> int:
    """Return the axis of a port along which large arrays are kept in part: its longest length, or just its longest."""
    lengths = [i for i in port.lengths if port.axes[i].is_dynamic]
    return max(lengths or range(len(shape)), key=lambda i: shape[i], default=0)


def sampled_rows(port: Port, shape: tuple[int, ...]) -> Array | None:
    """Return the indices along the long axis at which a large array is kept, or None to keep it whole."""
    elements = int(np.prod(shape))
    if elements <= LARGE:
        return None
    length = shape[long_axis(port, shape)]
    run = min(max(FEWEST_ROWS, LARGE // (elements // length)) // RUNS, length // RUNS)
    if not run:
        return None
    starts = np.linspace(0, length - run, RUNS).astype(np.int64)
    return np.unique(starts[:, None] + np.arange(run))


def sample(array: Array, at: Array | None, axis: int) -> Array:
    """Return the rows of an array at indices along an axis."""
    return array if at is None else np.take(array, at, axis=axis)


def spread(rows: Array, at: Array, shape: tuple[int, ...], axis: int) -> Array:
    """Undo sample: put the rows back among zeros. The zeros are never touched, and so cost no memory."""
    array = np.zeros(shape, rows.dtype)
    array[(slice(None),) * axis + (at,)] = rows
    return array
