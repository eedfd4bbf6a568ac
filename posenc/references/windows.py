"""Which difference of rows and columns lies between two places of a window, for the references of window biases."""

from __future__ import annotations

import numpy as np

from posenc.ports import Floats


def of_places(grid: Floats, sides: tuple[int, int]) -> Floats:
    """Return the bias of every two places, by that of differences (2h - 1, 2w - 1, heads)."""
    height, width = sides
    row, column = np.divmod(np.arange(height * width), width)
    return np.asarray(grid[row[:, None] - row + height - 1, column[:, None] - column + width - 1])
