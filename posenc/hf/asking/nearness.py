"""How far what is right may be from what a model's own float32 gives."""

from __future__ import annotations

from posenc.encoding import SAME_BITS, CaseLike, Tolerance, ToleranceOf, eps

EPS = eps("float32")
ANGLE = 4
"""Roundings of an angle in float32: of a frequency (its exponent, its power), of their product, and of the sine."""


def same_bits(case: CaseLike) -> Tolerance:
    """Return that what is looked up has the same bits."""
    return SAME_BITS


def of_angles(case: CaseLike) -> Tolerance:
    """Return what float32 costs a sine: 4 eps of its angle, whose frequency is 1 at most, and one ulp of the sum with x.

    The frequency has a rounding in its exponent, one in the power, the product with the position one more, each of half
    an eps of the angle; where an exponent is as large as ln 10000 = 9.2, its rounding is one of the frequency 4.6 times
    as large, so that all are less than 4 eps of the position.
    """
    return Tolerance(atol=ANGLE * EPS * max(1, case.max_position), ulps=1.0)


def of_sums(terms: int, largest: float) -> ToleranceOf:
    """Return what sums of so many products may be off by in either order: half an eps for each, of the largest sum."""
    return lambda case: Tolerance(atol=2 * (terms + 1) * EPS / 2 * largest, ulps=1.0)
