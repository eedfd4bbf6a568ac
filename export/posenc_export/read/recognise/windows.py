"""Windows of images and videos: biases by the difference of rows and of columns, and coordinates of these."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from posenc.formulas.fitting import Form, Parameter
from posenc_export.read.recognise.buckets import by_distance
from posenc_export.read.recognise.masks import unblocked
from posenc_export.read.recognise.waves import spacing_of_dtype

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
FEWEST = 4
"""How many different numbers a bias by differences has at least."""


def sides_of(places: int) -> Iterator[tuple[int, int]]:
    """Give the rectangles that have so many places, the squarest first."""
    for height in range(int(places**0.5), 1, -1):
        if places % height == 0:
            yield height, places // height
            if height * height != places:
                yield places // height, height


def boxes_of(places: int) -> Iterator[tuple[int, int, int]]:
    """Give the boxes that have so many places: frames of a video, each a rectangle."""
    for frames in range(2, places // 4 + 1):
        if places % frames == 0:
            yield from ((frames, height, width) for height, width in sides_of(places // frames))


def differences(sides: tuple[int, ...]) -> Integers:
    """Return the number of the difference of every two places: (places, places)."""
    number: Integers = np.zeros((1, 1), np.int64)
    for places, side in zip(np.unravel_index(np.arange(math.prod(sides)), sides), sides, strict=True):
        number = number * (2 * side - 1) + places[:, None] - places + side - 1
    return number


def window_of(matrix: NDArray[np.generic]) -> tuple[tuple[int, ...], bool] | None:
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
            if _says_all(first, sides) and _says_all(inner, sides):
                return sides, class_token
    return None


def _says_all(matrix: NDArray[np.generic], sides: tuple[int, ...]) -> bool:
    """Return whether places with the same difference have the same numbers."""
    index = differences(sides)
    by_difference = np.zeros((*matrix.shape[:-2], int(index.max()) + 1), matrix.dtype)
    # among places with the same difference the last is taken: if any differs, the matrix is not given back
    by_difference[..., index] = matrix
    return np.array_equal(by_difference[..., index], matrix)


def window_form(bias: NDArray[np.generic]) -> Form | None:
    """Return the form of a bias (.., heads, places, places) by differences of rows and columns in a window."""
    if bias.ndim < 3 or bias.shape[-1] != bias.shape[-2]:
        return None
    heads = np.asarray(unblocked(bias).reshape(-1, *bias.shape[-3:])[0])
    # few different numbers are a mask's; half precision rounds many of a learned table to the same
    if np.isnan(heads).any() or len(np.unique(heads[0])) < FEWEST:
        return None
    window = window_of(heads)
    if window is None:
        return None
    return Form("window", "table", {"heads": len(heads), **_parameters(*window)})


def window_index_form(index: NDArray[np.integer], rows: int) -> Form | None:
    """Return the form of indices (places, places) of a table that has a row for each difference."""
    window = window_of(index) if index.ndim == 2 else None
    if window is None or len(np.unique(index)) < index.shape[0]:
        return None
    return Form("window", "table", {**_parameters(*window), "rows": rows})


def _parameters(sides: tuple[int, ...], class_token: bool) -> dict[str, Parameter]:
    parameters: dict[str, Parameter] = {"window": sides}
    if class_token:
        parameters["class_token"] = True
    return parameters


def coordinates_form(coordinates: NDArray[np.generic]) -> Form | None:
    """Return the form of coordinates (.., height, width, 2) of differences in a window, as Swin version 2 has them.

    They are sign(d) log2(1 + 8 |d| / (trained - 1)) / 3, d from -(side - 1) to side - 1.
    """
    if coordinates.ndim < 3 or coordinates.shape[-1] != 2:
        return None
    # (.., 2h - 1, 2w - 1, 2) -> (2h - 1, 2w - 1, 2)
    grid = coordinates.astype(np.float64).reshape(-1, *coordinates.shape[-3:])[0]
    if min(grid.shape[:2]) < 3 or not (grid.shape[0] % 2 and grid.shape[1] % 2):
        return None
    sides = tuple(size // 2 + 1 for size in grid.shape[:2])
    # the formula backwards: what is left is straight lines of rows and of columns
    linear = np.sign(grid) * (np.exp2(3 * np.abs(grid)) - 1) / 8
    trained = tuple(_side(axis) for axis in (linear[:, 0, 0], linear[0, :, 1]))
    if 0 in trained:
        return None
    exact = _logarithmic(sides, trained)
    if np.abs(exact - grid).max() > 1e-4 + 4 * spacing_of_dtype(coordinates.dtype):
        return None
    return Form("window", "continuous", {"window": sides, "pretrained_window": trained}, _rows_of(exact))


def _side(line: Floats) -> int:
    """Return the side of the window by which a line of coordinates was divided; 0 where it is not told."""
    step = float(line[-1]) / (len(line) // 2)
    if step <= 0:
        return 0
    side = 1 / step + 1
    return round(side) if abs(side - round(side)) < 0.02 and round(side) > 1 else 0


def _logarithmic(sides: tuple[int, ...], trained: tuple[int, ...]) -> Floats:
    axes = [np.arange(1 - side, side) / (divisor - 1) for side, divisor in zip(sides, trained, strict=True)]
    linear = np.stack(np.meshgrid(*axes, indexing="ij"), -1)
    return np.asarray(np.sign(linear) * np.log2(1 + 8 * np.abs(linear)) / 3, np.float64)


def _rows_of(grid: Floats) -> Callable[[Integers], Floats]:
    flat = grid.reshape(-1, grid.shape[-1])
    return lambda positions: flat[positions]
