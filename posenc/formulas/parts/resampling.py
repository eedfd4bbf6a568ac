"""A grid resampled in float64, for the references of schemes that resample one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from posenc.ports import Floats


@dataclass(frozen=True)
class Resampling:
    """Options of `torch.nn.functional.interpolate`; `offset` is added to a size before the scale is made of it."""

    cubic: bool
    antialias: bool = False
    align_corners: bool = False
    offset: float = 0.0


def resampled(table: Floats, how: Resampling, sizes: Sequence[int]) -> Floats:
    """Return a grid (*grid, features) resampled in float64: (*sizes, features)."""
    for axis, weights in enumerate(matrices(table.shape, how, sizes)):
        # (size, rows) times axis `axis` of the table, whose new axis comes out first
        table = np.asarray(np.moveaxis(np.tensordot(weights, table, (1, axis)), 0, axis))
    return table


def matrices(grid: Sequence[int], how: Resampling, sizes: Sequence[int]) -> list[Floats]:
    """Return the weights of each axis: (size, rows)."""
    differs = [size != rows for size, rows in zip(sizes, grid, strict=False)]
    shifted = [any(differs)] * len(sizes) if how.cubic and not how.antialias else differs
    return [
        matrix(rows, size, how, how.offset * shift) for rows, size, shift in zip(grid, sizes, shifted, strict=False)
    ]


def matrix(grid: int, size: int, how: Resampling, offset: float) -> Floats:
    """Return the weights of the rows at each place: (size, grid)."""
    scale = (grid - 1) / max(size - 1, 1) * (size > 1) if how.align_corners else grid / (size + offset)
    i = np.arange(size)[:, None]
    if how.antialias:
        weights = _kernel((np.arange(grid) + 0.5 - scale * (i + 0.5)) / max(scale, 1.0), how.cubic, -0.5)
        return np.asarray(weights / weights.sum(1, keepdims=True))
    place = scale * i if how.align_corners else scale * (i + 0.5) - 0.5
    near = np.floor(place).astype(np.int64) + np.arange(-1, 3)  # (size, 4): the rows that may have a weight
    weights = np.zeros((size, grid))
    np.add.at(weights, (i, np.clip(near, 0, grid - 1)), _kernel(place - near, how.cubic, -0.75))
    return weights


def _kernel(distance: Floats, cubic: bool, a: float) -> Floats:
    """Return the weight of a row at a distance: a hat, or the cubic of Keys (1981)."""
    d = np.abs(distance)
    near = (a + 2) * d**3 - (a + 3) * d**2 + 1
    far = np.where(d < 2, a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a, 0.0)
    return np.where(d < 1, near, far) if cubic else np.asarray(np.maximum(1 - d, 0))
