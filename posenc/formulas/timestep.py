"""The embedding of diffusion timesteps: sines and cosines of a step, a row for each sequence of a batch."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from posenc.call import Call
from posenc.formulas.fitting import Guess, Observation, fits
from posenc.formulas.parts.sinusoids import (
    Geometric,
    SineColumns,
    Sinusoid,
    fitted_rows,
    geometric,
    pairings,
    tolerance_of,
    unwrapped,
    usual,
)
from posenc.parameters import Value
from posenc.ports import Array, Complexes, Floats


def reference(call: Call, *, dim: int, first: bool, shift: float, scale: float, period: float) -> tuple[Array]:
    """Return the features in float64, at the steps to compare."""
    steps = call.values[0] if call.values else call.positions
    return (features(steps[call.picked], dim=dim, first=first, shift=shift, scale=scale, period=period),)


def features(steps: Array, *, dim: int, first: bool, shift: float, scale: float, period: float) -> Floats:
    """Return the features of steps in float64: (steps,) -> (steps, dim)."""
    half = dim // 2
    exponent = -math.log(period) * np.arange(half) / (half - shift)
    # (steps, 1) * (half,)
    angle = scale * (steps[:, None].astype(np.float64) * np.exp(exponent))
    waves = [np.cos(angle), np.sin(angle)] if first else [np.sin(angle), np.cos(angle)]
    return np.concatenate([*waves, np.zeros((len(angle), dim % 2))], -1)


@fits("features", family="timestep")
def fit(seen: Observation) -> Iterator[Guess]:
    """Guess frequencies from the largest of known steps, which may be fractions."""
    rows, spacing = fitted_rows(seen), seen.spacing
    at = np.zeros(0) if seen.at is None else seen.at[: len(rows)]
    if rows.ndim != 2 or rows.shape[1] < 4 or len(at) != len(rows) or not at.any():
        return
    for pairing in pairings(rows):
        circles = pairing.split(rows)
        if np.abs(np.abs(circles) - 1).max() > 1e-3 + 4 * spacing:
            continue
        for frequencies in _of_circles(circles, at, pairing, max(4 * spacing, 2e-4)):
            found = Sinusoid(pairing, frequencies, 1.0, 0.0, 1)
            base, shift, scale = frequencies.base, frequencies.shift, frequencies.scale
            order = {"flip_sin_to_cos": pairing.cosines_first, "downscale_freq_shift": shift}
            read: dict[str, Value] = {"dim": pairing.width, "max_period": base, **order, "scale": scale}
            if pairing.layout == "halves":
                first = pairing.cosines_first
                numbers = features(at, dim=pairing.width, first=first, shift=shift, scale=scale, period=base)
            else:
                numbers = found.at(at)
            # the scheme has no columns in turn
            typed = read if pairing.layout == "halves" else {}
            tolerance = tolerance_of(spacing, float(np.abs(at).max()) * frequencies.scale)
            yield Guess(read, numbers, found.name, typed=typed, exact=found.exact, tolerance=tolerance)


def _of_circles(circles: Complexes, at: Floats, pairing: SineColumns, tolerance: float) -> list[Geometric]:
    """Return closed forms of frequencies that the row of the largest step may have, with a round scale."""
    half_width = (pairing.width - pairing.zeros) / 2
    row = int(np.argmax(np.abs(at)))
    fitted = geometric(unwrapped(np.angle(circles[row]), float(at[row])), half_width, tolerance)
    # angles above half a turn in the slowest pair tell nothing: then the usual forms are tried
    return [_whole_scale(form) for form in fitted if form.scale == 1.0 or _round_scale(form)] + usual(half_width)


def _round_scale(frequencies: Geometric) -> bool:
    """Return whether a scale is a power of ten, or its inverse, as steps are scaled by."""
    return bool(abs(np.log10(frequencies.scale) - round(np.log10(frequencies.scale))) < 1e-4)


def _whole_scale(frequencies: Geometric) -> Geometric:
    return replace(frequencies, scale=float(10.0 ** round(np.log10(frequencies.scale))))
