"""Numbers of float64 as an element type holds them, rounded once, and how far that may be off."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]
Floats = NDArray[np.float64]
DIGITS = {"float16": (10, -14), "bfloat16": (7, -126), "float32": (23, -126), "float64": (52, -1022)}
"""Binary digits behind the point, and the smallest exponent, of the types that tables may have."""


def held(numbers: Floats, dtype: np.dtype[np.generic]) -> Array:
    """Return the nearest numbers of an element type; what lies in the middle goes to the even one."""
    if dtype.kind == "f":
        return numbers.astype(dtype)
    # ml_dtypes goes by float32, and would round twice: an odd last digit keeps that from meeting the middle
    single = numbers.astype(np.float32)
    wide = single.astype(np.float64)
    bits = single.view(np.uint32)
    bits = np.where(np.abs(wide) > np.abs(numbers), bits - 1, bits)
    bits = np.where(wide != numbers, bits | 1, bits).astype(np.uint32)
    return bits.view(np.float32).astype(dtype)


def half_steps(numbers: Floats, dtype: np.dtype[np.generic]) -> Floats:
    """Return half of the step from each number of an element type to the next one."""
    digits, smallest = DIGITS[dtype.name]
    _, exponent = np.frexp(np.abs(numbers))
    return np.asarray(np.ldexp(0.5, np.maximum(exponent - 1, smallest) - digits), np.float64)
