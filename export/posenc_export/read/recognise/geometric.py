"""Frequencies that are a geometric series: default, linear, proportional, and partial widths."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from posenc.formulas.fitting import Parameter
from posenc.formulas.parts.decimals import short_decimals, shortest
from posenc.rope_types.default import reference as default
from posenc.rope_types.linear import reference as linear
from posenc.rope_types.proportional import reference as proportional
from posenc_export.read.recognise.circle import Floats
from posenc_export.read.recognise.snapping import USUAL_BASES, agree, digits_of

ROUND = 6
"""A base or a factor of more digits is no setting that anybody wrote."""


@dataclass(frozen=True)
class Measured:
    """Frequencies of pairs as they were measured, at or above 0.

    Args:
        inv_freq: (pairs,), in radians per position.
        error: a bound of the error of each.
        amplitude: what multiplies cosines and sines.
        amplitude_error: its error.
        held_in: the narrowest float type of the cosines and sines.
    """

    inv_freq: Floats
    error: Floats
    amplitude: float = 1.0
    amplitude_error: float = 1e-6
    held_in: str = "float32"

    def first(self, pairs: int) -> Measured:
        """Return the first pairs."""
        return replace(self, inv_freq=self.inv_freq[:pairs], error=self.error[:pairs])

    @property
    def certain(self) -> int:
        """The number of first pairs whose frequencies are far from 0, as far as they were measured."""
        clear = self.inv_freq > 4 * self.error
        return int(clear.size if clear.all() else np.argmin(clear))

    @property
    def pairs(self) -> int:
        """The number of pairs."""
        return int(self.inv_freq.size)


@dataclass(frozen=True)
class Fitted:
    """A closed form of frequencies, before it is checked on cosines.

    Args:
        name: the rope type.
        parameters: what it takes, by the names of rope types.
        inv_freq: the frequencies in float64.
        attention_factor: as the type has it; None where it says nothing.
    """

    name: str
    parameters: dict[str, Parameter]
    inv_freq: Floats
    attention_factor: float | None = None

    @property
    def digits(self) -> int:
        """How many digits its numbers need; fewer are likelier, and so is a usual base."""
        unusual = 0 if self.parameters.get("rope_theta") in USUAL_BASES else 3
        return unusual + sum(digits_of(v) for v in self.parameters.values() if isinstance(v, float))

    def in_words(self) -> str:
        """Say what it is."""
        shown = [f"{name}={_plain(value)}" for name, value in self.parameters.items()]
        return " ".join([self.name, *shown])


@dataclass(frozen=True)
class Series:
    """theta^(-i / over) / factor, fitted by least squares of logarithms, and bounds of relative errors."""

    theta: float
    theta_error: float
    factor: float
    factor_error: float


def series_of(measured: Measured, over: int, first: int = 0, *, scaled: bool) -> Series:
    """Fit a geometric series to pairs from the place `first` on.

    Args:
        over: the exponent of pair i is -i / over.
        scaled: whether all are divided by a factor.
    """
    places = np.arange(first, first + measured.pairs) / over
    relative = np.maximum(measured.error / measured.inv_freq, 1e-12)
    columns = np.stack([-places, -np.ones_like(places)][: 1 + scaled], axis=1) / relative[:, None]
    # linear in log theta and log factor, so that errors go through the same matrix
    solver = np.linalg.pinv(columns) / relative
    solution = solver @ np.log(measured.inv_freq)
    bounds = np.abs(solver) @ relative
    factor, factor_error = (math.exp(solution[1]), float(bounds[1])) if scaled else (1.0, 0.0)
    return Series(math.exp(min(solution[0], 700.0)), float(bounds[0]), factor, factor_error)


def geometric_forms(measured: Measured) -> list[Fitted]:
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


def _whole(measured: Measured) -> list[Fitted]:
    """Return default, or else linear, frequencies."""
    dim = 2 * measured.pairs
    if measured.pairs == 1:
        # theta^0: any base would do
        return [Fitted("default", {}, np.ones(1), 1.0)] if agree(np.ones(1), measured.inv_freq, measured.error) else []
    first = measured.first(measured.certain)
    if first.pairs == 1:
        return []
    fit = series_of(first, measured.pairs, scaled=False)
    for theta in _bases(fit):
        exact = default(dim, theta, 0).inv_freq
        if agree(exact, measured.inv_freq, measured.error):
            return [Fitted("default", {"rope_theta": theta}, exact, 1.0)]
    fit = series_of(first, measured.pairs, scaled=True)
    factor = shortest(fit.factor, fit.factor * fit.factor_error * 1.01)
    for theta in _bases(_with_factor(first, measured.pairs, factor)):
        exact = linear(dim, theta, 0, factor=factor).inv_freq
        # two pairs fit any base and factor: those must be round
        certain = first.pairs > 2 or max(digits_of(theta), digits_of(factor)) <= ROUND
        if certain and agree(exact, measured.inv_freq, measured.error):
            return [Fitted("linear", {"rope_theta": theta, "factor": factor}, exact, 1.0)]
    return []


def _proportional(first: Measured, pairs: int) -> list[Fitted]:
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
                Fitted("proportional", {"rope_theta": theta, **scaling, "partial_rotary_factor": share}, exact, 1.0)
            ]
    return []


def _share(rotated: int, pairs: int) -> float:
    """Return the share of the pairs that comes to so many of them after rounding down."""
    share = rotated / pairs
    return share if int(share * 2 * pairs // 2) == rotated else float(np.nextafter(share, 1))


def _with_factor(measured: Measured, over: int, factor: float) -> Series:
    """Fit the base again, the factor known."""
    return series_of(
        replace(measured, inv_freq=measured.inv_freq * factor, error=measured.error * factor), over, scaled=False
    )


def _bases(fit: Series) -> list[float]:
    """Return the bases above 1 that a series may have, the roundest first."""
    return [theta for theta in short_decimals(fit.theta, fit.theta * fit.theta_error * 1.01) if theta > 1]


def _padded(fitted: Fitted, pairs: int) -> Fitted:
    """Return the form of the first pairs, the others still: a partial width."""
    still = np.zeros(pairs - fitted.inv_freq.size)
    parameters = {**fitted.parameters, "rotary_dim": 2 * fitted.inv_freq.size}
    return replace(fitted, parameters=parameters, inv_freq=np.concatenate([fitted.inv_freq, still]))


def _plain(value: Parameter) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
