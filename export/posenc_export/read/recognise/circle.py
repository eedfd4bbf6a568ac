"""Whether two arrays are the cosine and the sine of the same angles, times one amplitude."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ROUNDOFF = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-24}
"""The largest relative error of rounding to a dtype."""

SUBNORMAL = 2.0**-25
"""Half the distance of numbers near 0 in float16."""

LOOSEST = 0.02
"""Tables of int8 are off a circle by a hundredth."""

STRAIGHT = 0.1
"""How far radii may lie off straight lines, as a share of what they rise by."""

FIRST_ROWS = 8
"""Rows on which angles of half precision still lie on the circle and are in order."""


@dataclass(frozen=True)
class Circle:
    """Points on a circle.

    Args:
        amplitude: its radius: the attention factor.
        points: cosine + i sine of the angles, in the shape of the arrays.
        held_in: the narrowest float type that holds its numbers.
        absolute: their absolute error.
    """

    amplitude: float
    points: NDArray[np.complex128]
    held_in: str
    absolute: float

    @property
    def relative(self) -> float:
        """The relative error of the numbers, as their rounding says."""
        return ROUNDOFF[self.held_in]

    def angle_errors(self, rows: NDArray[np.complex128]) -> Floats:
        """Bound the errors of the angles of some of its points, in radians."""
        # of c ds - s dc, with ds and dc relative to s and c
        rounding = 2 * self.relative * np.abs(rows.real * rows.imag)
        return np.asarray(rounding + self.absolute + np.abs(rows.imag) * 2.0**-24)


def circle_of(cosine: NDArray[np.generic], sine: NDArray[np.generic]) -> Circle | None:
    """Return the circle that (C, S) lie on; None where C^2 + S^2 is not constant within the precision of the numbers.

    The first axis is that of positions.
    """
    if cosine.shape != sine.shape or cosine.size == 0 or not _are_floats(cosine, sine):
        return None
    points = cosine.astype(np.float64) + 1j * sine.astype(np.float64)
    # later rows of half precision may be noise, and still lie on the circle
    radii = np.abs(points[: 8 * FIRST_ROWS])
    if not np.isfinite(radii).all() or not (amplitude := float(np.median(radii))) > 0:
        return None
    dtype = held_in(points[: 8 * FIRST_ROWS])
    relative, off = ROUNDOFF[dtype], float(np.abs(radii / amplitude - 1).max())
    # float32 angles whose cosine and sine are a few units off are on the circle still
    if off <= 3 * relative:
        absolute = SUBNORMAL if dtype == "float16" else 0.0
    elif off <= LOOSEST and not _is_trend(radii):
        absolute = 2 * off
    else:
        return None
    return Circle(amplitude, np.asarray(points / amplitude, np.complex128), dtype, absolute)


def _is_trend(radii: Floats) -> bool:
    """Return whether radii grow or fall along positions: xPos scales what it turns, and roundings have no direction."""
    rows = radii.reshape(len(radii), -1)
    if len(rows) < FIRST_ROWS:
        return False
    along = np.linspace(-1, 1, len(rows))[:, None]
    slopes = (along * rows).sum(0) / (along**2).sum()
    rest = rows - rows.mean(0) - along * slopes
    return bool(np.abs(rest).max() < STRAIGHT * np.abs(slopes).max())


def held_in(numbers: NDArray[np.complex128]) -> str:
    """Return the narrowest float type that holds all of the numbers: what they were rounded to, whatever holds them."""
    parts = np.concatenate([numbers.real.ravel(), numbers.imag.ravel()]).astype(np.float32)
    for name, dtype in (("bfloat16", ml_dtypes.bfloat16), ("float16", np.float16)):
        with np.errstate(over="ignore"):
            if np.array_equal(parts.astype(dtype).astype(np.float32), parts):
                return name
    return "float32"


def _are_floats(*arrays: NDArray[np.generic]) -> bool:
    return all(array.dtype.kind == "f" or array.dtype == ml_dtypes.bfloat16 for array in arrays)
