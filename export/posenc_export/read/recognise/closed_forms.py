"""Frequencies of pairs to the rope type and the parameters that make them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from posenc.formulas.fitting import Form, Parameter
from posenc.formulas.parts.decimals import shortest
from posenc_export.read.recognise.circle import ROUNDOFF, SUBNORMAL, Circle, Floats
from posenc_export.read.recognise.divisors import longrope_forms
from posenc_export.read.recognise.frequencies import Frequencies
from posenc_export.read.recognise.geometric import Fitted, Measured, geometric_forms
from posenc_export.read.recognise.ramps import ramp_forms

ALSO = 12
"""How many further forms are listed."""

FLOAT32 = 2.0**-22
"""What frequencies and angles in float32 lose together, relative to them."""

SHARP = 4
"""How many frequencies must be seen to be numbers of half precision."""

BLOCK, LARGEST_BLOCK = 256, 1 << 14
"""How many consecutive rows are composed of others: fewer gain nothing, and more are kept for the next block."""

HALVES = (("float16", np.dtype(np.float16)), ("bfloat16", np.dtype(ml_dtypes.bfloat16)))


def closed_form(measured: Measured) -> Form:
    """Return the closed form of frequencies at or above 0; "unknown frequencies" where they have none."""
    if not np.any(measured.inv_freq > measured.error):
        return _form(measured, Fitted("no position", {}, np.zeros(measured.pairs)), [])
    # a series that half precision rounded comes before settings that would explain what rounding did
    for forms_of in (geometric_forms, ramp_forms, longrope_forms):
        for rounded_to, tried in _roundings(measured):
            if forms := forms_of(tried):
                notes: dict[str, Parameter] = {"frequencies_dtype": rounded_to} if rounded_to else {}
                return _form(measured, replace(forms[0], parameters={**forms[0].parameters, **notes}), forms[1:])
    parameters: dict[str, Parameter] = {"inv_freq": tuple(measured.inv_freq.tolist())}
    return Form("rotary", "unknown frequencies", {**parameters, "attention_factor": measured.amplitude})


def measured_of(circle: Circle, fit: Frequencies) -> tuple[Measured, bool]:
    """Return frequencies at or above 0 with all that may have rounded them, and whether pairs turn backward."""
    certain = fit.inv_freq[np.abs(fit.inv_freq) > 2 * fit.error]
    backward = bool(certain.size) and bool(np.all(certain < 0))
    inv_freq = -fit.inv_freq if backward else fit.inv_freq
    # those that cannot be told from 0 may be measured below it
    inv_freq = np.where(np.abs(inv_freq) <= fit.error, np.maximum(inv_freq, 0.0), inv_freq)
    error = fit.error + np.abs(inv_freq) * FLOAT32
    amplitude_error = (2 * circle.relative + circle.absolute) * circle.amplitude
    return Measured(inv_freq, error, circle.amplitude, amplitude_error, circle.held_in), backward


def _roundings(measured: Measured) -> list[tuple[str, Measured]]:
    """Return the frequencies as measured, and as what half precision may have made of others."""
    rounded = [(name, _rounded(measured, name)) for name, dtype in HALVES if _are_halves(measured, name, dtype)]
    if measured.held_in == "float32":
        return [("", measured), *rounded]
    # what is held in half precision was mostly computed in it too, seen or not
    return rounded or [("", _rounded(measured, measured.held_in))]


def _are_halves(measured: Measured, name: str, dtype: np.dtype[np.generic]) -> bool:
    """Tell whether frequencies are numbers of a half precision, known so well that they are not so by chance."""
    sharp = (measured.error <= ROUNDOFF[name] / 4 * measured.inv_freq) & (measured.inv_freq > 0)
    held = measured.inv_freq.astype(dtype).astype(np.float64)
    return int(np.count_nonzero(sharp)) >= SHARP and bool(np.all(np.abs(held - measured.inv_freq) <= measured.error))


def _rounded(measured: Measured, name: str) -> Measured:
    """Return the frequencies with what rounding them to half precision may have changed."""
    changed = 1.01 * ROUNDOFF[name] * measured.inv_freq
    least = SUBNORMAL if name == "float16" else 0.0
    return replace(measured, error=measured.error + np.where(measured.inv_freq > 0, np.maximum(changed, least), 0.0))


def _form(measured: Measured, fitted: Fitted, others: list[Fitted]) -> Form:
    """Return the form with its amplitude, and with the others that fit in words."""
    amplitude = _amplitude(measured, fitted)
    parameters = {**fitted.parameters, "attention_factor": amplitude}
    words = [fit.in_words() for fit in others]
    if len(words) > ALSO:
        words = [*words[:ALSO], f"{len(words) - ALSO} more"]
    return Form("rotary", fitted.name, parameters, rows_of(fitted.inv_freq, amplitude), tuple(words))


def _amplitude(measured: Measured, fitted: Fitted) -> float:
    """Return what the type says, 1, or a short decimal, whichever the amplitude is."""
    for value in (fitted.attention_factor, 1.0):
        if value is not None and abs(value - measured.amplitude) <= measured.amplitude_error:
            return value
    return shortest(measured.amplitude, measured.amplitude_error)


def rows_of(inv_freq: Floats, amplitude: float) -> Callable[[NDArray[np.int64]], Floats]:
    """Return the function of positions to (positions, 2 * pairs): cosines, then sines, in float64."""

    def direct(positions: NDArray[np.int64]) -> Floats:
        angles = positions.astype(np.float64)[:, None] * inv_freq
        return amplitude * np.concatenate([np.cos(angles), np.sin(angles)], axis=1)

    @cache
    def steps(count: int) -> tuple[Floats, Floats]:
        cosines, sines = np.split(direct(np.arange(count)), 2, axis=1)
        return cosines, sines

    def exact(positions: NDArray[np.int64]) -> Floats:
        count, first = len(positions), positions[:1]
        if count < BLOCK or count > LARGEST_BLOCK or not np.array_equal(positions, first + np.arange(count)):
            return direct(positions)
        # angles add up: rows in a row need no cosine and no sine of their own, and lose some 1e-16
        (cosine, sine), (start, rise) = steps(count), np.split(direct(first) / amplitude, 2, axis=1)
        return np.concatenate([cosine * start - sine * rise, sine * start + cosine * rise], axis=1)

    return exact
