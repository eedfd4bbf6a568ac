"""Rows of sinusoids at positions: tables and computed rows, of Transformers, of Conformers, and of diffusion steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from posenc.formulas.fitting import Form, Parameter
from posenc_export.read.recognise.spacing import Geometric, geometric, usual
from posenc_export.read.recognise.waves import (
    Complexes,
    Floats,
    Pairing,
    Waves,
    fitted_rows,
    pairings,
    start_of,
    waves_of,
    wrapped,
)

Integers = NDArray[np.int64]
LOOSEST = 0.1
"""No row is named that is farther off: with angles so large or so rough, other forms would fit as well."""


@dataclass(frozen=True)
class Sinusoid:
    """Rows amplitude * (sin, cos)(position * frequency), and zeros at `padding`.

    Args:
        start: the position of the first row.
        step: from a row to the next: -1 in rows of distances, which go down.
        padding: the rows of zeros that were met.
    """

    pairing: Pairing
    frequencies: Geometric
    amplitude: float
    start: float
    step: int
    padding: tuple[int, ...] = ()

    def at(self, positions: NDArray[np.generic]) -> Floats:
        """Return the rows of positions in float64."""
        angle = positions.astype(np.float64)[:, None] * self.frequencies.of_pairs(self.pairing.sines)
        return self.amplitude * self.pairing.joined(angle)

    def of_rows(self, count: int) -> Floats:
        """Return the first rows in float64, the ones of zeros too."""
        rows = self.at(self.start + self.step * np.arange(count))
        rows[[row for row in self.padding if row < count]] = 0.0
        return rows

    def parameters(self) -> dict[str, Parameter]:
        """Return the parameters by the names of the scheme `sinusoidal`, the usual ones left out."""
        spacing = {0.0: "paper", 1.0: "half"}.get(float(np.floor(self.frequencies.shift)), "paper")
        named: dict[str, Parameter] = {"d_model": self.pairing.width, "base": self.frequencies.base}
        named |= {"layout": self.pairing.layout, "spacing": spacing}
        if self.pairing.cosines_first:
            named["first"] = "cos"
        if abs(self.amplitude - 1) > 1e-3:
            named["scale"] = self.amplitude
        if self.frequencies.scale != 1.0:
            named["position_scale"] = self.frequencies.scale
        return named

    @property
    def name(self) -> str:
        """Return the layout in words."""
        return f"{self.pairing.layout}, cosines first" if self.pairing.cosines_first else self.pairing.layout


def sinusoid(array: NDArray[np.generic], spacing: float | None = None) -> Sinusoid | None:
    """Return the closed form of rows (rows, width) at consecutive positions; None where they have none.

    The position of the first row may be any, so may be an amplitude, and a factor of positions.

    Args:
        array: the rows.
        spacing: of their numbers around 1, where it is not that of their dtype: they were dequantized.
    """
    rows, spacing = fitted_rows(array, spacing)
    # a table of constants has one dimension or three: the caller decides what its rows are
    if rows.ndim != 2:
        return None
    padding = tuple(np.flatnonzero(~rows.any(1)).tolist())
    # a row of zeros or two are padding; more are something else
    if len(padding) > 2 or len(rows) - len(padding) < 2:
        return None
    tolerance = min(32 * spacing * (1 + len(rows)), LOOSEST)
    # what fits is computed again from its parameters alone, and must be what was read
    for waves in waves_of(rows, spacing):
        for fitted in _fitted(waves, spacing, len(rows)):
            candidate = replace(fitted, padding=padding)
            if np.abs(candidate.of_rows(len(rows)) - rows).max() <= tolerance * waves.amplitude:
                return candidate
    return None


def _fitted(waves: Waves, spacing: float, rows: int) -> Iterator[Sinusoid]:
    """Give closed forms of waves, whole positions and an amplitude of 1 where they are as near."""
    step = 1 if np.median(waves.frequency) > 0 else -1
    # a pair that turns by half a turn a row, or more, seems to go back
    frequency = np.where(step * waves.frequency < 0, step * waves.frequency + 2 * np.pi, step * waves.frequency)
    half_width = (waves.pairing.width - waves.pairing.zeros) / 2
    amplitude = 1.0 if abs(waves.amplitude - 1) <= 1e-4 + spacing else waves.amplitude
    for frequencies in geometric(frequency, half_width, max(4 * spacing, 2e-5), 8 * spacing / rows):
        # the phases are those of the first row, its frequency told by the closed form
        start = start_of(frequencies.of_pairs(len(waves.phase)), waves.phase)
        if frequencies.scale != 1.0:
            yield Sinusoid(waves.pairing, frequencies, amplitude, start, step)
        elif abs(start - round(start)) <= 0.02 + 4 * spacing * max(rows, abs(start)):
            yield Sinusoid(waves.pairing, frequencies, amplitude, float(round(start)), step)


def rows_form(array: NDArray[np.generic], spacing: float | None = None) -> Form | None:
    """Return the form of rows (rows, width) of sinusoids that go up, with the position of the first as `offset`.

    Args:
        array: the rows.
        spacing: of their numbers around 1, where it is not that of their dtype: they were dequantized.
    """
    rows = sinusoid(array, spacing)
    if rows is None or rows.step < 0 or rows.frequencies.scale != 1.0 or rows.start < 0:
        return None
    parameters = rows.parameters()
    if rows.start:
        parameters["offset"] = int(rows.start)
    if rows.padding:
        parameters["padding_row"] = int(rows.start) + rows.padding[0]
    return Form("sinusoidal", rows.name, parameters, exact_of(rows))


def exact_of(rows: Sinusoid) -> Callable[[Integers], Floats]:
    """Return the function from positions to rows in float64, rows of zeros among them."""

    def exact(positions: Integers) -> Floats:
        waves = rows.at(positions)
        zeros = [int(rows.start) + row * rows.step for row in rows.padding]
        waves[np.isin(positions, zeros)] = 0.0
        return waves

    return exact


def distances_form(array: NDArray[np.generic]) -> Form | None:
    """Return the form of rows (rows, width) at distances: of a Conformer, of Transformer-XL.

    Distances go down from the first to the last row, or up from below zero.
    """
    rows = sinusoid(array)
    if rows is None or rows.frequencies.scale != 1.0:
        return None
    # the first distance is told by the phases, the last by the number of rows
    first, last = int(rows.start), int(rows.start) + rows.step * (len(array) - 1)
    if rows.step > 0 and first >= 0:
        return None
    # Conformers have as many distances below zero as above; Transformer-XL stops at 0, XLNet anywhere
    name = "conformer" if first == -last else "transformer_xl"
    parameters = rows.parameters() | {"first_distance": first, "last_distance": last}
    return Form("relative", name, parameters, exact_of(rows))


def timestep_form(array: NDArray[np.generic], steps: NDArray[np.generic]) -> Form | None:
    """Return the form of rows (batch, width) of sinusoids at known steps (batch,), which may be fractions."""
    rows, spacing = fitted_rows(array)
    at = steps.astype(np.float64).reshape(-1)[: len(rows)]
    if rows.ndim != 2 or rows.shape[1] < 4 or len(at) != len(rows) or not (at.any() and np.isfinite(rows).all()):
        return None
    for pairing in pairings(rows):
        circles = pairing.split(rows)
        if np.abs(np.abs(circles) - 1).max() > 1e-3 + 4 * spacing:
            continue
        for frequencies in _of_circles(circles, at, pairing, max(4 * spacing, 2e-4)):
            candidate = Sinusoid(pairing, frequencies, 1.0, 0.0, 1)
            largest = float(np.abs(at).max()) * frequencies.scale
            if np.abs(candidate.at(at) - rows).max() <= min(32 * spacing * (1 + largest), LOOSEST):
                return Form("timestep", candidate.name, _of_steps(candidate), exact_of(candidate))
    return None


def _of_circles(circles: Complexes, at: Floats, pairing: Pairing, tolerance: float) -> list[Geometric]:
    """Return closed forms of frequencies that the row of the largest step may have, with a round scale."""
    half_width = (pairing.width - pairing.zeros) / 2
    row = int(np.argmax(np.abs(at)))
    fitted = geometric(unwrapped(np.angle(circles[row]), float(at[row])), half_width, tolerance)
    # angles above half a turn in the slowest pair tell nothing: then the usual forms are tried
    return [_whole_scale(form) for form in fitted if form.scale == 1.0 or _round_scale(form)] + usual(half_width)


def unwrapped(phase: Floats, step: float) -> Floats:
    """Return frequencies from the phases of a row at a step: the slowest pairs turned less than once."""
    frequency = phase / step
    for pair in range(len(phase) - 3, -1, -1):
        known = frequency[pair + 1 :]
        if (known <= 0).any():
            return frequency
        ratio = (known[0] / known[-1]) ** (1 / (len(known) - 1))
        expected = known[0] * ratio * step
        frequency[pair] = (expected + float(wrapped(phase[pair] - expected))) / step
    return frequency


def _round_scale(frequencies: Geometric) -> bool:
    """Return whether a scale is a power of ten, or its inverse, as steps are scaled by."""
    return bool(abs(np.log10(frequencies.scale) - round(np.log10(frequencies.scale))) < 1e-4)


def _whole_scale(frequencies: Geometric) -> Geometric:
    return replace(frequencies, scale=float(10.0 ** round(np.log10(frequencies.scale))), snapped=True)


def _of_steps(rows: Sinusoid) -> dict[str, Parameter]:
    """Return the parameters by the names of the scheme `timestep`."""
    return {
        "dim": rows.pairing.width,
        "max_period": rows.frequencies.base,
        "flip_sin_to_cos": rows.pairing.cosines_first,
        "downscale_freq_shift": rows.frequencies.shift,
        "scale": rows.frequencies.scale,
    }
