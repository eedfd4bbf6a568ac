"""Frequencies that are a geometric series: default, linear, proportional, and partial widths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from posenc.formulas.fitting import Parameter
from posenc.formulas.parts.decimals import short_decimals, shortest
from posenc.formulas.parts.frequency_forms import (
    FrequencyForm,
    FrequencySeries,
    PairFrequencies,
    agree,
    digits_of,
    series_of,
)
from posenc.formulas.rope_types.default import reference as default
from posenc.formulas.rope_types.linear import reference as linear
from posenc.formulas.rope_types.proportional import reference as proportional

ROUND = 6
"""A base or a factor of more digits is no setting that anybody wrote."""


def geometric_forms(measured: PairFrequencies) -> list[FrequencyForm]:
    """Return the geometric series that the frequencies are, the likeliest first."""
    rotated = measured.certain
    if rotated == 0 or np.any(np.abs(measured.inv_freq[rotated:]) > 4 * measured.error[rotated:]):
        return []
    # slow pairs that cannot be told from 0 may still belong to the series
    if whole := _whole(measured):
        return whole
    if rotated == measured.pairs:
        return []
    first = measured.first(rotated)
    forms = [_padded(fitted, measured.pairs) for fitted in _whole(first)]
    return sorted([*forms, *_proportional(first, measured.pairs)], key=lambda fitted: fitted.digits)


def _whole(measured: PairFrequencies) -> list[FrequencyForm]:
    """Return default, or else linear, frequencies."""
    dim = 2 * measured.pairs
    if measured.pairs == 1:
        # theta^0: any base would do
        return (
            [FrequencyForm("default", {}, np.ones(1), 1.0)]
            if agree(np.ones(1), measured.inv_freq, measured.error)
            else []
        )
    first = measured.first(measured.certain)
    if first.pairs == 1:
        return []
    fit = series_of(first, measured.pairs, scaled=False)
    for theta in _bases(fit):
        exact = default(dim, theta, 0).inv_freq
        if agree(exact, measured.inv_freq, measured.error):
            return [FrequencyForm("default", {"rope_theta": theta}, exact, 1.0)]
    fit = series_of(first, measured.pairs, scaled=True)
    factor = shortest(fit.factor, fit.factor * fit.factor_error * 1.01)
    for theta in _bases(_with_factor(first, measured.pairs, factor)):
        exact = linear(dim, theta, 0, factor=factor).inv_freq
        # two pairs fit any base and factor: those must be round
        certain = first.pairs > 2 or max(digits_of(theta), digits_of(factor)) <= ROUND
        if certain and agree(exact, measured.inv_freq, measured.error):
            return [FrequencyForm("linear", {"rope_theta": theta, "factor": factor}, exact, 1.0)]
    return []


def _proportional(first: PairFrequencies, pairs: int) -> list[FrequencyForm]:
    """Return frequencies of the whole head for its first pairs, the others still."""
    if first.pairs == 1:
        return []
    fit = series_of(first, pairs, scaled=True)
    factor = shortest(fit.factor, fit.factor * fit.factor_error * 1.01)
    share = _share(first.pairs, pairs)
    for theta in _bases(_with_factor(first, pairs, factor)):
        exact = proportional(2 * pairs, theta, 0, factor=factor, partial_rotary_factor=share).inv_freq
        if np.count_nonzero(exact) == first.pairs and agree(exact[: first.pairs], first.inv_freq, first.error):
            scaling: dict[str, Parameter] = {} if factor == 1 else {"factor": factor}
            return [
                FrequencyForm(
                    "proportional", {"rope_theta": theta, **scaling, "partial_rotary_factor": share}, exact, 1.0
                )
            ]
    return []


def _share(rotated: int, pairs: int) -> float:
    """Return the share of the pairs that comes to so many of them after rounding down."""
    share = rotated / pairs
    return share if int(share * 2 * pairs // 2) == rotated else float(np.nextafter(share, 1))


def _with_factor(measured: PairFrequencies, over: int, factor: float) -> FrequencySeries:
    """Fit the base again, the factor known."""
    return series_of(
        replace(measured, inv_freq=measured.inv_freq * factor, error=measured.error * factor), over, scaled=False
    )


def _bases(fit: FrequencySeries) -> list[float]:
    """Return the bases above 1 that a series may have, the roundest first."""
    return [theta for theta in short_decimals(fit.theta, fit.theta * fit.theta_error * 1.01) if theta > 1]


def _padded(fitted: FrequencyForm, pairs: int) -> FrequencyForm:
    """Return the form of the first pairs, the others still: a partial width."""
    still = np.zeros(pairs - fitted.inv_freq.size)
    parameters = {**fitted.parameters, "rotary_dim": 2 * fitted.inv_freq.size}
    return replace(fitted, parameters=parameters, inv_freq=np.concatenate([fitted.inv_freq, still]))
