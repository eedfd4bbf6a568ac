"""Short decimals near a measured number: what configs and people write."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

DIGITS = range(1, 9)
"""More digits than float32 holds say nothing."""


def short_decimals(value: float, error: float = math.inf, digits: Sequence[int] = DIGITS) -> Iterator[float]:
    """Yield decimals within `error` of a value, the shortest first, each once, and at last the value itself."""
    if not math.isfinite(value) or value == 0:
        yield value
        return
    seen: set[float] = set()
    for count in digits:
        candidate = float(f"{value:.{count - 1}e}")
        if abs(candidate - value) <= error and candidate not in seen:
            seen.add(candidate)
            yield candidate
    if value not in seen:
        yield value


def shortest(value: float, error: float) -> float:
    """Return the shortest decimal within `error` of a value."""
    return next(short_decimals(value, error))


def positive_guesses(value: float) -> Iterator[float]:
    """Yield what a positive number may have been before it was measured; nothing for any other number."""
    if math.isfinite(value) and value > 0:
        yield from short_decimals(value, digits=(1, 2, 3, 4, 6))
