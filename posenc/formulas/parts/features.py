"""Fourier features in float64, for the references of the scheme fourier_features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posenc.call import Call
from posenc.ports import Array, Floats


@dataclass(frozen=True)
class FeatureParameters:
    """The parameters as a user gives them."""

    in_features: int
    kind: str
    features: int | None
    max_freq: float | tuple[float, ...] | None
    inputs: str
    pi: bool
    include_input: bool
    order: str | None
    flip_sin_to_cos: bool

    def bands(self) -> Floats:
        """Return the frequencies of each number: (count, numbers), powers of two, or from 1 to half of max_freq."""
        count, max_freq = self.features or 10, self.max_freq
        if max_freq is None and self.kind == "log":
            return np.repeat(np.ldexp(1.0, np.arange(count))[:, None], self.in_features, 1)
        max_freq = 224.0 if max_freq is None else max_freq
        limits = max_freq if isinstance(max_freq, tuple) else (max_freq,) * self.in_features
        limits = limits * (self.in_features // len(limits))
        if self.kind == "linear":
            return np.stack([np.linspace(1.0, limit / 2, count) for limit in limits], 1)
        return np.stack([np.logspace(0.0, np.log2(limit / 2), count, base=2.0) for limit in limits], 1)

    def waves(self, angle: Floats) -> list[Floats]:
        """Return sines and cosines in their order."""
        waves = [np.sin(angle), np.cos(angle)]
        return waves[::-1] if self.flip_sin_to_cos else waves


def projected(call: Call, *, matrix: Floats, parameters: FeatureParameters) -> tuple[Array]:
    """Return the features of random directions in float64."""
    x = call.values[0][:, call.picked].astype(np.float64)
    numbers = np.log(x) if parameters.inputs == "logs" else 2 * x - 1 if parameters.inputs == "centered" else x
    waves = parameters.waves(2 * np.pi * (numbers @ matrix))  # (batch, seq, numbers) @ (numbers, pairs)
    return (np.concatenate([x, *waves] if parameters.include_input else waves, -1),)


def banded(call: Call, *, parameters: FeatureParameters) -> tuple[Array]:
    """Return the features of bands in float64."""
    x = call.values[0][:, call.picked].astype(np.float64)
    angle = parameters.bands() * x[..., None, :]  # (batch, seq, bands, numbers)
    if parameters.pi:
        angle = np.pi * np.fmod(angle, 2.0)  # whole circles are taken off exactly
    octaves = parameters.kind == "log" and parameters.max_freq is None
    order = parameters.order or ("octaves" if octaves else "halves")
    waves = parameters.waves(angle if order == "octaves" else angle.swapaxes(-1, -2))
    if order == "numbers":
        rows = np.stack(waves, -1)  # (batch, seq, numbers, bands, 2)
    elif order == "octaves":
        rows = np.stack(waves, -2)  # (batch, seq, bands, 2, numbers)
    else:
        rows = np.concatenate([wave.reshape(*x.shape[:-1], -1) for wave in waves], -1)
    # (batch, seq, ..., 2) -> (batch, seq, features)
    rows = rows.reshape(*x.shape[:-1], -1)
    return (np.concatenate([x, rows], -1) if parameters.include_input else rows,)
