"""The bias of every two places of a window, from that of differences, for the references of window biases."""

from __future__ import annotations

import numpy as np

from posenc.ports import Floats


def of_places(grid: Floats, sides: tuple[int, int]) -> Floats:
    """Return the bias of every two places: (2 height - 1, 2 width - 1, heads) -> (places, places, heads)."""
    height, width = sides
    row, column = np.divmod(np.arange(height * width), width)
    return np.asarray(grid[row[:, None] - row + height - 1, column[:, None] - column + width - 1])
