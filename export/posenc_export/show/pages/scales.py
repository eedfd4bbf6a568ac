"""Scales of charts: positions from 0 on, by doublings; errors by powers of ten; each with its ticks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, floor, isfinite, log2, log10

import numpy as np

from posenc_export.common.rounding import ceiling

FEW = 7
"""Ticks of a scale, at most."""
APART = 24
"""Units of a picture between two labels that can be read."""


@dataclass(frozen=True)
class Box:
    """The place of a chart in its picture: the edges of what is drawn, in units of the picture."""

    width: float
    height: float
    left: float = 64
    right: float = 18
    top: float = 18
    bottom: float = 40

    @property
    def x(self) -> tuple[float, float]:
        """The left and the right edge."""
        return self.left, self.width - self.right

    @property
    def y(self) -> tuple[float, float]:
        """The upper and the lower edge."""
        return self.top, self.height - self.bottom


WIDE, NARROW = Box(960, 320), Box(346, 300, left=56)
"""The same chart for screens, and for phones: letters have the same size on both."""


@dataclass(frozen=True)
class Tick:
    """A tick: where it is, and its label."""

    at: float
    label: str


def along(value: float, low: float, high: float, edges: tuple[float, float]) -> float:
    """Return where a value lies between two edges, rounded to a tenth of a unit."""
    share = 0.5 if high == low else (value - low) / (high - low)
    return round(edges[0] + share * (edges[1] - edges[0]), 1)


@dataclass(frozen=True)
class PositionScale:
    """Positions from the least to the largest: equal steps are doublings of the distance from 0, plus 1.

    Args:
        largest: The largest position.
        edges: Where the least and the largest lie.
        least: The least position: 0, or the first of a call that begins below 0.
    """

    largest: int
    edges: tuple[float, float]
    least: int = 0

    def at(self, position: float) -> float:
        """Return where a position lies; one below the least lies at the least."""
        return along(_doublings(max(self.least, position)), _doublings(self.least), self._end, self.edges)

    @property
    def _end(self) -> float:
        return _doublings(max(1, self.largest))

    def ticks(self) -> list[Tick]:
        """Return 0 and powers of ten; below 0 the least position alone, where it is not beside 0."""
        # 2**63 is below 10**20
        powers = [0, *(10**k for k in range(20) if 10**k <= max(1, self.largest))]
        below = [self.least] if self.at(0) - self.at(self.least) > APART else []
        return [Tick(self.at(p), amount(p)) for p in [*below, *thinned(powers)]]


def _doublings(position: float) -> float:
    return log2(1 + position) if position >= 0 else -log2(1 - position)


@dataclass(frozen=True)
class ErrorScale:
    """Errors on a log scale, from a power of ten below the least to one above the largest; 0 has a place below it.

    Args:
        low: The power of ten at the lower end of the log scale.
        high: The power at its upper end.
        edges: The upper and the lower edge.
        has_zero: Whether errors of 0 are shown: the log scale ends above the lower edge then, where 0 is.
    """

    low: int
    high: int
    edges: tuple[float, float]
    has_zero: bool = False

    @classmethod
    def over(cls, errors: Iterable[float], edges: tuple[float, float]) -> ErrorScale:
        """Return the scale for errors; infinities have no place on it."""
        numbers = [*errors]
        # a report without a single error that a log scale has still gets a scale
        logs = [log10(error) for error in numbers if error > 0 and isfinite(error)] or [-8.0, -6.0]
        has_zero = any(error == 0 for error in numbers)
        return cls(floor(min(logs)), max(ceil(max(logs)), floor(min(logs)) + 1), edges, has_zero)

    @property
    def powers(self) -> tuple[float, float]:
        """The edges of the log scale."""
        return self.edges[0], self.edges[1] - (APART if self.has_zero else 0)

    def at(self, error: float) -> float:
        """Return where an error lies: 0 at the lower edge, NaN and infinity at the upper."""
        if not isfinite(error):
            return self.edges[0]
        if error <= 0:
            return self.edges[1]
        return along(min(max(log10(error), self.low), self.high), self.high, self.low, self.powers)

    def ticks(self) -> list[Tick]:
        """Return 0, where it is shown, and powers of ten."""
        powers = thinned(range(self.low, self.high + 1))
        zero = [Tick(self.edges[1], "0")] if self.has_zero else []
        return [*zero, *(Tick(along(k, self.high, self.low, self.powers), f"1e{k}") for k in powers)]


def thinned(numbers: Iterable[int]) -> list[int]:
    """Return every n-th number, so that few are left."""
    listed = [*numbers]
    return listed[:: -(-len(listed) // FEW)]


def amount(number: int) -> str:
    """Return a count as a label: 100, 1k, 1,024, 10M."""
    for size, letter in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size and number % size == 0:
            return f"{number // size}{letter}"
    return f"{number:,}"


def at_most(number: float) -> str:
    """Return a number in words of an inspection: two digits, rounded up."""
    return ceiling(number) if np.isfinite(number) else short(number)


def short(number: float) -> str:
    """Return a number in words of a report: two digits, or that it is none."""
    return f"{number:.2g}" if np.isfinite(number) else "not a number" if np.isnan(number) else "infinite"
