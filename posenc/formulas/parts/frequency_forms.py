"""Frequencies of pairs as they were measured, and closed forms of them, from base, factor and digits."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from posenc.formulas.fitting import Parameter
from posenc.ports import Floats

USUAL_BASES = (1e4, 5e5, 1e6, 1.5e5, 1e5, 1e7, 5e6, 2e6, 8e6, 1.5e6, 2.5e5)
"""Bases that models have; a series may have two round bases, of its pairs and of the whole head."""


@dataclass(frozen=True)
class PairFrequencies:
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

    def first(self, pairs: int) -> PairFrequencies:
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
class FrequencyForm:
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
class FrequencySeries:
    """theta^(-i / over) / factor, fitted by least squares of logarithms, and bounds of relative errors."""

    theta: float
    theta_error: float
    factor: float
    factor_error: float


def series_of(measured: PairFrequencies, over: int, first: int = 0, *, scaled: bool) -> FrequencySeries:
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
    return FrequencySeries(math.exp(min(solution[0], 700.0)), float(bounds[0]), factor, factor_error)


def digits_of(value: float) -> int:
    """Count the significant digits of a number: how round it is."""
    return next((n for n in range(1, 17) if float(f"{value:.{n - 1}e}") == value), 17)


def agree(exact: Floats, measured: Floats, error: Floats) -> bool:
    """Tell whether frequencies are those of a closed form, within their errors."""
    return bool(np.all(np.abs(exact - measured) <= error))


def _plain(value: Parameter) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
