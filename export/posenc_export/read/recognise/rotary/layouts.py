"""Columns of a rotary table to pairs of features: a column a pair, or two."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Columns = Literal["half", "halves", "interleaved"]


def columns_of(cosine: NDArray[np.generic], sine: NDArray[np.generic]) -> Columns:
    """Tell how the columns of (positions, columns) repeat.

    "halves" is [f0 ... fn f0 ... fn], "interleaved" is [f0 f0 f1 f1 ...], and "half" holds each frequency once.
    """
    width = cosine.shape[-1]
    if width % 2 == 0 and width > 2:
        for columns in ("halves", "interleaved"):
            first, second = twice(width, columns)
            if all(np.array_equal(rows[..., first], rows[..., second]) for rows in (cosine, sine)):
                return columns
    return "half"


def twice(width: int, columns: Columns) -> tuple[slice, slice]:
    """Return where a table that is as wide as the features holds each pair: once, and once more."""
    if columns == "halves":
        return slice(0, width // 2), slice(width // 2, width)
    return slice(0, width, 2), slice(1, width, 2)


def pairs_of(rows: NDArray[np.generic], columns: Columns) -> NDArray[np.generic]:
    """Return a column a pair."""
    return rows if columns == "half" else rows[..., twice(rows.shape[-1], columns)[0]]
