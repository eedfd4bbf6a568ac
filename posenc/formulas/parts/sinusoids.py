"""Rows of sines and cosines: which columns are a pair, the frequencies of pairs, and where the rows begin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from posenc.formulas.fitting import Guess, Observation
from posenc.formulas.parts.turning import frequencies_of
from posenc.parameters import Value
from posenc.ports import Array, Complexes, Floats, Integers

Layout = Literal["interleaved", "halves"]
ROWS_BY_DTYPE = {"float16": 32, "bfloat16": 8}
ROWS = 256
"""Rows that are fitted: the first ones alone, as angles of half precision are noise soon, those of float32 later."""
LOOSEST = 0.1
"""No row is named that is farther off: with angles so large or so rough, other forms would fit as well."""


def fitted_rows(seen: Observation) -> Floats:
    """Return the rows that are fitted, in float64: the first ones."""
    dtype = seen.numbers.dtype.name
    return seen.numbers[: ROWS_BY_DTYPE.get(dtype, ROWS)].astype(np.float64)


def tolerance_of(spacing: float, rows: float) -> float:
    """Return how far rows may be off that a graph computed in a dtype, up to some position."""
    return min(32 * spacing * (1 + rows), LOOSEST)


@dataclass(frozen=True)
class SineColumns:
    """Where a row of `width` columns has its sines and cosines.

    Args:
        cosines_first: cosines come before sines.
        sines: how many columns there are of the kind that comes first.
        zeros: columns of zeros at the end.
    """

    width: int
    layout: Layout
    cosines_first: bool
    sines: int
    zeros: int = 0

    @property
    def pairs(self) -> int:
        """Return how many columns have a partner."""
        return self.width - self.zeros - self.sines

    def split(self, rows: Floats) -> Complexes:
        """Return cosine + i sine of each pair: (rows, width) -> (rows, pairs)."""
        used = rows[:, : self.width - self.zeros]
        if self.layout == "interleaved":
            first, second = used[:, 0::2], used[:, 1::2]
        else:
            first, second = used[:, : self.sines], used[:, self.sines :]
        first = first[:, : self.pairs]
        return np.asarray(first + 1j * second if self.cosines_first else second + 1j * first, np.complex128)

    def joined(self, angle: Floats) -> Floats:
        """Return rows of sines and cosines: (rows, sines) -> (rows, width)."""
        first, second = (np.cos, np.sin) if self.cosines_first else (np.sin, np.cos)
        rows = np.zeros((len(angle), self.width))
        end = self.width - self.zeros
        if self.layout == "interleaved":
            rows[:, 0:end:2], rows[:, 1:end:2] = first(angle), second(angle[:, : self.pairs])
        else:
            rows[:, : self.sines], rows[:, self.sines : end] = first(angle), second(angle[:, : self.pairs])
        return rows


@dataclass(frozen=True)
class Waves:
    """Rows that turn: amplitude * exp(i (start + row) * frequency), as far as numbers show it.

    Args:
        amplitude: of all sines and cosines.
        frequency: of each pair, in radians a row; negative where rows go down.
        phase: of each pair in the first row.
    """

    pairing: SineColumns
    amplitude: float
    frequency: Floats
    phase: Floats


def pairings(rows: Floats) -> Iterator[SineColumns]:
    """Give the ways in which columns may be paired: those of the papers first."""
    width = rows.shape[1]
    trailing = int(width > 2 and width % 2 == 1 and not rows[:, -1].any())
    used = width - trailing
    for layout in ("interleaved", "halves"):
        for cosines_first in (False, True):
            yield SineColumns(width, layout, cosines_first, (used + 1) // 2, trailing)


def amplitude_of(circles: Complexes, tolerance: float) -> float | None:
    """Return the radius of circles that all pairs run on, rows of zeros aside; None where they run on none."""
    radius = np.abs(circles)
    rows = radius[radius.max(1) > 0]
    if len(rows) == 0 or not np.isfinite(rows).all():
        return None
    amplitude = float(np.median(rows))
    return amplitude if np.abs(rows - amplitude).max() <= tolerance * amplitude else None


def wrapped(angle: Floats) -> Floats:
    """Return angles between -pi and pi."""
    return np.asarray(np.angle(np.exp(1j * angle)), np.float64)


def waves_of(rows: Floats, spacing: float) -> Iterator[Waves]:
    """Give the ways in which rows (rows, width) are pairs on a circle that turn with the row.

    Args:
        spacing: of the dtype in which rows were rounded, at 1.
    """
    if rows.ndim != 2 or len(rows) < 2 or rows.shape[1] < 4 or not np.isfinite(rows).all():
        return
    for pairing in pairings(rows):
        circles = pairing.split(rows)
        # a learned row has no pair on a circle; a wrong pairing of a right one neither
        amplitude = amplitude_of(circles, 1e-3 + 4 * spacing)
        if amplitude is None:
            continue
        frequency = frequencies_of(circles)
        # all rows say what the phase of the first is
        back = np.sum(circles * np.exp(-1j * np.arange(len(circles))[:, None] * frequency), 0)
        yield Waves(pairing, amplitude, frequency, np.asarray(np.angle(back), np.float64))


def start_of(frequency: Floats, phase: Floats) -> float:
    """Return the position of the first row, from the slowest pair, which tells it roughly, to the fastest."""
    # a slow pair turns less than once up to the first row, but its phase is rounded most
    order = np.argsort(np.abs(frequency))
    start = 0.0
    for pair in order[np.abs(frequency[order]) > 1e-9]:
        start += float(wrapped(phase[pair] - frequency[pair] * start) / frequency[pair])
    return start


@dataclass(frozen=True)
class Geometric:
    """Frequencies scale * base^(-i / divisor).

    Args:
        shift: pairs less the divisor: 0 in the paper, 1 in tensor2tensor (fairseq, Whisper).
    """

    scale: float
    base: float
    divisor: float
    shift: float

    def of_pairs(self, pairs: int) -> Floats:
        """Return the frequency of each pair in float64."""
        return np.asarray(self.scale * np.power(self.base, -np.arange(pairs) / self.divisor), np.float64)


def nearest_short(value: float, tolerance: float) -> float | None:
    """Return the number of one or two digits that a value is near, relatively; None where it is near none."""
    if not (np.isfinite(value) and value > 0):
        return None
    for digits in (0, 1):
        candidate = float(f"{value:.{digits}e}")
        if abs(value / candidate - 1) <= tolerance:
            return candidate
    return None


def line(frequency: Floats) -> tuple[float, float]:
    """Return the logarithm of the first frequency, and the fall a pair: fast pairs count most."""
    # an angle is as well known in all pairs, so the frequency of a fast one is known best, relatively
    weight = np.maximum(frequency / frequency.max(), 1e-6)
    fall, first = np.polyfit(np.arange(len(frequency)), np.log(frequency), 1, w=weight)
    return float(first), float(-fall)


def geometric(frequency: Floats, half_width: float, tolerance: float, lowest: float = 0.0) -> list[Geometric]:
    """Return closed forms of frequencies above zero, the likeliest first; none where they do not fall.

    Args:
        half_width: half of the columns: with an odd width this is no whole number.
        tolerance: how far off, relatively, a fitted base may be.
        lowest: slower pairs are not measured: they turn by less than their rounding.
    """
    # frequencies fall: the first slow pair ends what is measured
    slow = np.flatnonzero(frequency <= lowest)
    frequency = frequency[: slow[0]] if len(slow) and lowest > 0 else frequency
    if len(frequency) < 2 or frequency.min() <= 0:
        return []
    first, fall = line(frequency)
    if fall < 1e-3:
        return []
    scale = 1.0 if abs(np.exp(first) - 1) <= tolerance else float(np.exp(first))
    pairs = int(half_width)
    divisors = [d for d in dict.fromkeys((half_width, half_width - 1, pairs, pairs - 1)) if d > 0]
    bases = [(d, nearest_short(float(np.exp(fall * d)), min(8 * tolerance, 0.02))) for d in divisors]
    # 10000 is what nearly all have, before any other round number
    snapped = [(d, base) for d, base in sorted(bases, key=lambda pair: pair[1] != 1e4) if base is not None]
    forms = [Geometric(scale, base, divisor, half_width - divisor) for divisor, base in snapped]
    return [*forms, Geometric(scale, float(np.exp(fall * half_width)), half_width, 0.0)]


def usual(half_width: float) -> list[Geometric]:
    """Return the forms that diffusion steps have in nearly all models."""
    return [Geometric(scale, 1e4, half_width - shift, shift) for scale in (1.0, 1000.0) for shift in (0.0, 1.0)]


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


@dataclass(frozen=True)
class Sinusoid:
    """Rows amplitude * (sin, cos)(position * frequency), and zeros at `padding`.

    Args:
        start: the position of the first row.
        step: from a row to the next: -1 in rows of distances, which go down.
        padding: the rows of zeros that were met.
    """

    pairing: SineColumns
    frequencies: Geometric
    amplitude: float
    start: float
    step: int
    padding: tuple[int, ...] = ()

    def at(self, positions: Array) -> Floats:
        """Return the rows of positions in float64."""
        angle = positions.astype(np.float64)[:, None] * self.frequencies.of_pairs(self.pairing.sines)
        return self.amplitude * self.pairing.joined(angle)

    def of_rows(self, count: int) -> Floats:
        """Return the first rows in float64, the ones of zeros too."""
        rows = self.at(self.start + self.step * np.arange(count))
        rows[[row for row in self.padding if row < count]] = 0.0
        return rows

    def parameters(self) -> dict[str, Value]:
        """Return the parameters by the names of the scheme `sinusoidal`, the usual ones left out."""
        spacing = {0.0: "paper", 1.0: "half"}.get(float(np.floor(self.frequencies.shift)), "paper")
        named: dict[str, Value] = {"d_model": self.pairing.width, "base": self.frequencies.base}
        named |= {"layout": self.pairing.layout, "spacing": spacing}
        if self.pairing.cosines_first:
            named["first"] = "cos"
        if abs(self.amplitude - 1) > 1e-3:
            named["scale"] = self.amplitude
        if self.frequencies.scale != 1.0:
            named["position_scale"] = self.frequencies.scale
        return named

    def guess(self, seen: Observation, **more: Value) -> Guess:
        """Return the guess of an observation, whose parameters no scheme has as they are."""
        numbers = self.of_rows(len(fitted_rows(seen)))
        within = tolerance_of(seen.spacing, len(numbers)) * self.amplitude
        parameters = {**self.parameters(), **more}
        return Guess(parameters, numbers, self.name, typed={}, exact=self.exact, tolerance=within)

    def exact(self, positions: Integers) -> Floats:
        """Return the rows of positions in float64, rows of zeros among them."""
        rows = self.at(positions)
        rows[np.isin(positions, [int(self.start) + row * self.step for row in self.padding])] = 0.0
        return rows

    @property
    def name(self) -> str:
        """Return the layout in words."""
        return f"{self.pairing.layout}, cosines first" if self.pairing.cosines_first else self.pairing.layout


def sinusoid(seen: Observation) -> Sinusoid | None:
    """Return the closed form of rows (rows, width) at consecutive positions; None where they have none.

    The position of the first row may be any, so may be an amplitude, and a factor of positions.
    """
    if len(seen.places) != 1:
        return None
    rows, spacing = fitted_rows(seen), seen.spacing
    padding = tuple(np.flatnonzero(~rows.any(1)).tolist())
    # a row of zeros or two are padding; more are something else
    if len(padding) > 2 or len(rows) - len(padding) < 2:
        return None
    tolerance = tolerance_of(spacing, len(rows))
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


def distances_of(seen: Observation) -> Iterator[Guess]:
    """Guess the distances of rows: they go down from the first to the last row, or up from below zero."""
    rows = seen.measured(sinusoid)
    if rows is None or rows.frequencies.scale != 1.0:
        return
    # the first distance is told by the phases, the last by the number of rows
    first, last = int(rows.start), int(rows.start) + rows.step * (len(seen.numbers) - 1)
    if rows.step < 0 or first < 0:
        yield rows.guess(seen, first_distance=first, last_distance=last)


def is_even(guess: Guess) -> bool:
    """Return whether there are as many distances below zero as above."""
    first, last = guess.parameters["first_distance"], guess.parameters["last_distance"]
    return first == -last if isinstance(last, int) else False
