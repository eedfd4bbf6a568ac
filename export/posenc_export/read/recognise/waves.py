"""Columns that are sines and cosines of a position times a frequency: which are a pair, and their frequencies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from posenc.formulas.parts.turning import frequencies_of

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
Layout = Literal["interleaved", "halves"]
ROWS_BY_DTYPE = {"float16": 32, "bfloat16": 8}
ROWS = 256
"""Rows that are fitted: the first ones alone, as angles of half precision are noise soon, those of float32 later."""


@dataclass(frozen=True)
class Pairing:
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

    pairing: Pairing
    amplitude: float
    frequency: Floats
    phase: Floats


def spacing_of_dtype(dtype: np.dtype[np.generic]) -> float:
    """Return the distance from 1 to the next number: of bfloat16 too, which NumPy does not know."""
    bits = {"float64": 23, "float32": 23, "float16": 10, "bfloat16": 7}.get(dtype.name, 23)
    return float(2.0**-bits)


def pairings(rows: Floats) -> Iterator[Pairing]:
    """Give the ways in which columns may be paired: those of the papers first."""
    width = rows.shape[1]
    trailing = int(width > 2 and width % 2 == 1 and not rows[:, -1].any())
    used = width - trailing
    for layout in ("interleaved", "halves"):
        for cosines_first in (False, True):
            yield Pairing(width, layout, cosines_first, (used + 1) // 2, trailing)


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


def fitted_rows(rows: NDArray[np.generic], spacing: float | None = None) -> tuple[Floats, float]:
    """Return the rows that are fitted, in float64, and the spacing of their dtype, or the known one."""
    if spacing is not None:
        return rows[:ROWS].astype(np.float64), spacing
    spacing = spacing_of_dtype(rows.dtype)
    return rows[: ROWS_BY_DTYPE.get(rows.dtype.name, ROWS)].astype(np.float64), spacing
