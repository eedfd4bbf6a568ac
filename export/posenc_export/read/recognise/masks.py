"""Masks: what is added to scores, or multiplied with states, to leave tokens out. They are no encodings."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
BLOCKED = -3e4
"""From here on a bias leaves a key out: below -10000, and above what half precision has for minus infinity."""
SAMPLE = 4096
"""How many numbers are looked at first."""
STRONG = 50.0
"""Two numbers, 0 and one of at least this size, are a mask: Swin's is -100."""


def is_mask(array: NDArray[np.generic]) -> bool:
    """Return whether numbers only leave tokens out: truth values, 0 and 1, or 0 and a large number below zero.

    A number that is the same everywhere tells nothing of positions either.
    """
    if array.dtype == np.bool_:
        return True
    first = np.unique(array.reshape(-1)[:SAMPLE].astype(np.float64))
    # what the first numbers are not, all together are not either: most tables end here
    return _leaves_out(first) and (array.size <= SAMPLE or _leaves_out(np.unique(array.astype(np.float64))))


def _leaves_out(values: Floats) -> bool:
    """Return whether different numbers, in order, are those of a mask."""
    if len(values) < 2:
        return True
    if len(values) > 2:
        # sums of masks: 0, the least number, and twice that, which is minus infinity or a number again
        return bool((values[values > -1e4] == 0).all()) and bool((values <= -1e4).any())
    low, high = values.tolist()
    return (low, high) == (0.0, 1.0) or (high == 0.0 and low <= -STRONG) or (low == 0.0 and high >= STRONG)


def unblocked(bias: NDArray[np.generic]) -> Floats:
    """Return a bias in float64, NaN where it leaves a key out."""
    numbers = bias.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.where((numbers <= BLOCKED) | (numbers == -1e4) | ~np.isfinite(numbers), np.nan, numbers)
