"""Measured numbers to the short decimals that configs hold."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from posenc_export.reading.recognise.circle import Floats

DIGITS = 8
"""More digits than float32 holds say nothing."""

USUAL_BASES = (1e4, 5e5, 1e6, 1.5e5, 1e5, 1e7, 5e6, 2e6, 8e6, 1.5e6, 2.5e5)
"""Bases that models have; a series may have two round bases, of its pairs and of the whole head."""


def short_decimals(value: float, error: float) -> Iterator[float]:
    """Yield decimals within `error` of a value, the shortest first, and at last the value itself."""
    if not math.isfinite(value) or value == 0:
        yield value
        return
    seen: set[float] = set()
    for digits in range(1, DIGITS + 1):
        rounded = float(f"{value:.{digits - 1}e}")
        if abs(rounded - value) <= error and rounded not in seen:
            seen.add(rounded)
            yield rounded
    yield value


def shortest(value: float, error: float) -> float:
    """Return the shortest decimal within `error` of a value."""
    return next(short_decimals(value, error))


def digits_of(value: float) -> int:
    """Count the significant digits of a number: how round it is."""
    return next((n for n in range(1, 17) if float(f"{value:.{n - 1}e}") == value), 17)


def agree(exact: Floats, measured: Floats, error: Floats) -> bool:
    """Tell whether frequencies are those of a closed form, within their errors."""
    return bool(np.all(np.abs(exact - measured) <= error))
