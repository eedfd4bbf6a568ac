"""How two outputs differ, which is measured, and whether that is allowed, which is judged afterwards."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from posenc.encoding import FRACTION_BITS, Tolerance
from posenc.ports import Array, Bools, Floats
from posenc_export.common.arrays import same_bits

HUGE = {"float16": 3e4}
"""By dtype, the magnitude from which on an element is a mask (finfo.min, -1e9, infinity); MASK for other dtypes."""
MASK = 1e8
LARGEST = {"float16": 16, "bfloat16": 128, "float32": 128, "float64": 1024}
"""The exponent above the largest number of a dtype."""
SMALLEST = {"float16": -14, "bfloat16": -126, "float32": -126, "float64": -1022}


@dataclass(frozen=True)
class Difference:
    """How an actual output differs from an expected one.

    Args:
        dtype: The dtype of the actual output.
        mismatch: Why the two cannot be compared at all; then nothing else is set.
        error: |actual - expected| of each element, NaN where either is.
        magnitude: |expected| of each element.
        same_bits: Whether shape, dtype and every bit agree.
    """

    dtype: str
    mismatch: str | None = None
    error: Floats | None = None
    magnitude: Floats | None = None
    same_bits: bool = False

    @property
    def max_abs(self) -> float:
        """The largest error, NaN where any element is."""
        return float(np.max(self.error)) if self.error is not None and self.error.size else 0.0

    @property
    def peak(self) -> float:
        """The largest expected magnitude; masks count only where all elements are masks."""
        return 0.0 if self.magnitude is None else scale_of(self.magnitude, self.dtype)

    @property
    def max_ulp(self) -> float:
        """The largest error in ulps of the expected value, in the dtype of the output."""
        if self.error is None or self.magnitude is None or not self.error.size or self.dtype not in FRACTION_BITS:
            return 0.0
        return float(np.max(self.error / ulp(self.magnitude, self.dtype)))

    @property
    def worst(self) -> tuple[int, ...]:
        """The index of the largest error, or of a NaN."""
        if self.error is None or not self.error.size:
            return ()
        return _place_of_largest(self.error)


@dataclass(frozen=True)
class Judgement:
    """Whether a difference is allowed, and why not.

    Args:
        passed: Whether it is allowed.
        reason: Why it is not.
        allowed: How far each element may be off, where that was needed to judge.
    """

    passed: bool
    reason: str = ""
    allowed: Floats | None = None


def ulp(magnitude: Floats, dtype: str) -> Floats:
    """Return the distance between neighbouring numbers of a dtype at the given magnitudes."""
    # frexp gives a mantissa in [0.5, 1): the exponent of the leading bit is one less
    exponent = np.frexp(np.where(np.isfinite(magnitude), magnitude, 0.0))[1] - 1
    return np.asarray(np.ldexp(1.0, np.maximum(exponent, SMALLEST[dtype]) - FRACTION_BITS[dtype]))


def scale_of(array: Array, dtype: str) -> float:
    """Return the largest finite magnitude in an array; masks count only where all elements are masks."""
    magnitude = np.abs(array.astype(np.float64))
    ordinary = magnitude[magnitude < HUGE.get(dtype, MASK)]
    finite = ordinary if ordinary.size else magnitude[np.isfinite(magnitude)]
    return float(np.max(finite, initial=0.0))


def measure(actual: Array, expected: Array) -> Difference:
    """Measure an output against an expected one of the same shape and dtype; expected float64 fits any output."""
    name = actual.dtype.name
    floats = name in FRACTION_BITS
    if actual.shape != expected.shape:
        return Difference(name, mismatch=f"shape {actual.shape}, expected {expected.shape}")
    if expected.dtype not in (actual.dtype, np.float64):
        return Difference(name, mismatch=f"dtype {name}, expected {expected.dtype.name}")
    is_same = actual.dtype == expected.dtype and same_bits(actual, expected)
    wide, expected_wide = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        error = np.where(_both_masks(wide, expected_wide, name), 0.0, np.abs(wide - expected_wide))
    if not floats:  # float64 does not tell integers above 2^53 apart
        is_same = bool(np.all(actual == expected))
        error = np.where(actual != expected, np.maximum(error, 1.0), 0.0)
    return Difference(name, error=error, magnitude=np.abs(expected_wide), same_bits=is_same)


def _both_masks(actual: Floats, expected: Floats, dtype: str) -> Bools:
    """Return where both are masks: the same infinity, or of one sign and beyond half of the dtype's largest number."""
    huge = 2.0 ** (LARGEST.get(dtype, 1024) - 1)
    finite = (np.abs(actual) > huge) & (np.abs(expected) > huge) & (np.sign(actual) == np.sign(expected))
    return np.asarray(finite | (np.isinf(actual) & (actual == expected)))


def judge(difference: Difference, tolerance: Tolerance, more: Array | float = 0.0) -> Judgement:
    """Allow a difference if no element is above the tolerance; NaN and unequal integers never pass.

    Args:
        difference: Between an output and an expected one.
        tolerance: How far each element may be off.
        more: How much farther some elements may be.
    """
    if difference.mismatch is not None:
        return Judgement(False, difference.mismatch)
    assert difference.error is not None
    assert difference.magnitude is not None
    if np.isnan(difference.error).any():
        return Judgement(False, f"NaN at {list(difference.worst)}")
    if np.isinf(difference.error).any():
        return Judgement(False, _off(difference, "the same infinity"))
    if tolerance.bits or difference.dtype not in FRACTION_BITS:  # indices and flags are equal or wrong
        return Judgement(difference.same_bits, "" if difference.same_bits else _off(difference, "the same bits"))
    allowed = allowance(difference, tolerance) + more
    if not np.all(difference.error <= allowed):  # a NaN in `allowed` fails, too
        # the element that is furthest beyond what is allowed there, which need not be the one with the largest error
        at = _place_of_largest(difference.error - allowed)
        return Judgement(False, _words(difference.error[at], at, f"at most {allowed[at]:.2g}"), allowed)
    return Judgement(True, allowed=allowed)


def allowance(difference: Difference, tolerance: Tolerance) -> Floats:
    """Return how far each element of an output may be off."""
    assert difference.magnitude is not None
    with np.errstate(over="ignore"):
        allowed: Floats = tolerance.atol + tolerance.rtol * difference.magnitude
    if tolerance.vector and difference.magnitude.ndim:
        # a rotation mixes the features of a head, the last axis: its error is relative to the largest of them
        allowed = allowed + tolerance.vector * np.max(difference.magnitude, axis=-1, keepdims=True, initial=0.0)
    return allowed + tolerance.ulps * ulp(difference.magnitude, difference.dtype)


def held_part(difference: Difference, allowed: Floats) -> Difference:
    """Return a difference without the elements that are not held: those whose allowance is infinite."""
    if difference.error is None:
        return difference
    is_free = np.isinf(allowed)
    error = np.where(is_free, 0.0, difference.error)
    # eager is infinite in some of these: a share of that would be no number
    magnitude = None if difference.magnitude is None else np.where(is_free, 0.0, difference.magnitude)
    return replace(difference, error=error, magnitude=magnitude, same_bits=difference.same_bits or not error.any())


def _off(difference: Difference, expected: str) -> str:
    return _words(difference.max_abs, difference.worst, expected)


def _words(error: float, at: tuple[int, ...], expected: str) -> str:
    return f"off by {error:.3g} at {list(at)}, expected {expected}"


def _place_of_largest(errors: Floats) -> tuple[int, ...]:
    """Return the index of the largest of some errors, or of a NaN."""
    flat = np.argmax(np.where(np.isnan(errors), np.inf, errors))
    return tuple(int(i) for i in np.unravel_index(flat, errors.shape))


def compare_names(actual: set[str], expected: set[str]) -> Judgement:
    """Fail on a missing or an extra output."""
    wrong = {"missing": sorted(expected - actual), "extra": sorted(actual - expected)}
    reason = "; ".join(f"{word} output {', '.join(names)}" for word, names in wrong.items() if names)
    return Judgement(not reason, reason)
