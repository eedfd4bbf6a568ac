"""Frequencies that are those of a round base, each divided by a short decimal of its own: longrope."""

from __future__ import annotations

import numpy as np

from posenc.rope_types.default import reference as default
from posenc_export.read.recognise.geometric import Fitted, Measured
from posenc_export.read.recognise.snapping import USUAL_BASES

BY_CHANCE = 1e-9
"""How likely it may be that frequencies of no such form look like it."""


def longrope_forms(measured: Measured) -> list[Fitted]:
    """Return longrope with the divisors of one side of its switch, where they are short decimals for a usual base."""
    # in half precision any divisor is near a short decimal
    if measured.held_in != "float32" or measured.pairs < 4 or not np.all(measured.inv_freq > 0):
        return []
    forms = [fitted for theta in USUAL_BASES if (fitted := _at_base(measured, theta)) is not None]
    return forms[:1]


def _at_base(measured: Measured, theta: float) -> Fitted | None:
    base = default(2 * measured.pairs, theta, 0).inv_freq
    divisors = base / measured.inv_freq
    width = divisors * measured.error / measured.inv_freq
    for digits in range(5):
        step = 10.0**-digits
        rounded = np.round(divisors, digits)
        # each divisor lies so near to a decimal by chance with the share of numbers that do
        chance = float(np.prod(np.minimum(2 * width / step, 1.0)))
        # with few pairs, or coarse numbers, anything would be a short decimal
        if chance > BY_CHANCE:
            return None
        if np.all(rounded >= 1 - 1e-12) and np.all(np.abs(rounded - divisors) <= width):
            return Fitted("longrope", {"rope_theta": theta, "divisors": tuple(rounded.tolist())}, base / rounded)
    return None
