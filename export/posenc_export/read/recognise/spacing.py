"""Frequencies that fall geometrically, as closed forms: scale * base^(-i / divisor)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Geometric:
    """Frequencies scale * base^(-i / divisor).

    Args:
        shift: pairs less the divisor: 0 in the paper, 1 in tensor2tensor (fairseq, Whisper).
        snapped: base and scale are round numbers, and not only fitted.
    """

    scale: float
    base: float
    divisor: float
    shift: float
    snapped: bool

    def of_pairs(self, pairs: int) -> Floats:
        """Return the frequency of each pair in float64."""
        return np.asarray(self.scale * np.power(self.base, -np.arange(pairs) / self.divisor), np.float64)


def rounded(value: float, tolerance: float) -> float | None:
    """Return the number of one or two digits that a value is near, relatively; None where it is near none."""
    if not (np.isfinite(value) and value > 0):
        return None
    for digits in (0, 1):
        candidate = float(f"{value:.{digits}e}")
        if abs(value / candidate - 1) <= tolerance:
            return candidate
    return None


def line(frequency: Floats) -> tuple[float, float]:
    """Return the logarithm of the first frequency, and the fall a pair: fast pairs count most."""
    # an angle is as well known in all pairs, so the frequency of a fast one is known best, relatively
    weight = np.maximum(frequency / frequency.max(), 1e-6)
    fall, first = np.polyfit(np.arange(len(frequency)), np.log(frequency), 1, w=weight)
    return float(first), float(-fall)


def geometric(frequency: Floats, half_width: float, tolerance: float, lowest: float = 0.0) -> list[Geometric]:
    """Return closed forms of frequencies above zero, the likeliest first; none where they do not fall.

    Args:
        half_width: half of the columns: with an odd width this is no whole number.
        tolerance: how far off, relatively, a fitted base may be.
        lowest: slower pairs are not measured: they turn by less than their rounding.
    """
    # frequencies fall: the first slow pair ends what is measured
    slow = np.flatnonzero(frequency <= lowest)
    frequency = frequency[: slow[0]] if len(slow) and lowest > 0 else frequency
    if len(frequency) < 2 or frequency.min() <= 0:
        return []
    first, fall = line(frequency)
    if fall < 1e-3:
        return []
    scale = 1.0 if abs(np.exp(first) - 1) <= tolerance else float(np.exp(first))
    pairs = int(half_width)
    divisors = [d for d in dict.fromkeys((half_width, half_width - 1, pairs, pairs - 1)) if d > 0]
    bases = [(d, rounded(float(np.exp(fall * d)), min(8 * tolerance, 0.02))) for d in divisors]
    # 10000 is what nearly all have, before any other round number
    snapped = [(d, base) for d, base in sorted(bases, key=lambda pair: pair[1] != 1e4) if base is not None]
    forms = [Geometric(scale, base, divisor, half_width - divisor, scale == 1.0) for divisor, base in snapped]
    return [*forms, Geometric(scale, float(np.exp(fall * half_width)), half_width, 0.0, False)]


def usual(half_width: float) -> list[Geometric]:
    """Return the forms that diffusion steps have in nearly all models."""
    return [Geometric(scale, 1e4, half_width - shift, shift, True) for scale in (1.0, 1000.0) for shift in (0.0, 1.0)]
