"""Windows of images and videos: the bias of every two places, and the sides of windows that say all of one."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from posenc.formulas.parts.distances import by_distance
from posenc.ports import Array, Floats, Integers


def of_places(grid: Floats, sides: tuple[int, int]) -> Floats:
    """Return the bias of every two places: (2 height - 1, 2 width - 1, heads) -> (places, places, heads)."""
    height, width = sides
    row, column = np.divmod(np.arange(height * width), width)
    return np.asarray(grid[row[:, None] - row + height - 1, column[:, None] - column + width - 1])


def sides_of(places: int) -> Iterator[tuple[int, int]]:
    """Yield the rectangles that have so many places, the squarest first."""
    for height in range(int(places**0.5), 1, -1):
        if places % height == 0:
            yield height, places // height
            if height * height != places:
                yield places // height, height


def boxes_of(places: int) -> Iterator[tuple[int, int, int]]:
    """Yield the boxes that have so many places: frames of a video, each a rectangle."""
    for frames in range(2, places // 4 + 1):
        if places % frames == 0:
            yield from ((frames, height, width) for height, width in sides_of(places // frames))


def differences(sides: tuple[int, ...]) -> Integers:
    """Return the number of the difference of every two places: (places, places)."""
    number: Integers = np.zeros((1, 1), np.int64)
    for places, side in zip(np.unravel_index(np.arange(math.prod(sides)), sides), sides, strict=True):
        number = number * (2 * side - 1) + places[:, None] - places + side - 1
    return number


def window_of(matrix: Array) -> tuple[tuple[int, ...], bool] | None:
    """Return the window, and whether a class token is before it, whose differences say all of (.., places, places)."""
    places = matrix.shape[-1]
    if matrix.shape[-2] != places or places < 4:
        return None
    for class_token in (False, True):
        inner = matrix[..., 1:, 1:] if class_token else matrix
        # what the distance on a line says all of is said by the differences in every window, too
        if by_distance(inner) is not None:
            return None
        # a head tells which sides there may be, before all are compared
        first = inner.reshape(-1, *inner.shape[-2:])[:1]
        for sides in (*sides_of(places - class_token), *boxes_of(places - class_token)):
            if all(np.array_equal(_of_differences(part, sides), part) for part in (first, inner)):
                return sides, class_token
    return None


def _of_differences(matrix: Array, sides: tuple[int, ...]) -> Array:
    """Return a matrix in which places with the same difference have the same numbers: those of the last of them."""
    index = differences(sides)
    by_difference = np.zeros((*matrix.shape[:-2], int(index.max()) + 1), matrix.dtype)
    by_difference[..., index] = matrix
    return np.asarray(by_difference[..., index])
