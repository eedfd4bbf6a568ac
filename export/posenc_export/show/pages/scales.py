"""Scales of charts: positions from 0 on, by doublings; errors by powers of ten; each with its ticks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, floor, isfinite, log2, log10

import numpy as np

FEW = 7
"""Ticks of a scale, at most."""


@dataclass(frozen=True)
class Box:
    """The place of a chart in its picture: the edges of what is drawn, in units of the picture."""

    width: float
    height: float
    left: float = 64
    right: float = 14
    top: float = 14
    bottom: float = 40

    @property
    def x(self) -> tuple[float, float]:
        """The left and the right edge."""
        return self.left, self.width - self.right

    @property
    def y(self) -> tuple[float, float]:
        """The upper and the lower edge."""
        return self.top, self.height - self.bottom


WIDE, NARROW = Box(960, 320), Box(346, 300, left=56, right=10)
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
    """Positions from 0 to the largest: equal steps are doublings of the position plus 1."""

    largest: int
    edges: tuple[float, float]

    def at(self, position: float) -> float:
        """Return where a position lies; a negative one lies at 0."""
        return along(log2(1 + max(0, position)), 0, log2(1 + max(1, self.largest)), self.edges)

    def ticks(self) -> list[Tick]:
        """Return 0 and powers of ten."""
        # 2**63 is below 10**20
        powers = [0, *(10**k for k in range(20) if 10**k <= max(1, self.largest))]
        return [Tick(self.at(p), amount(p)) for p in thinned(powers)]


@dataclass(frozen=True)
class ErrorScale:
    """Errors on a log scale, from a power of ten below the least to one above the largest."""

    low: int
    high: int
    edges: tuple[float, float]

    @classmethod
    def over(cls, errors: Iterable[float], edges: tuple[float, float]) -> ErrorScale:
        """Return the scale for errors; zeros and infinities have no place on it."""
        # a report without a single error that a log scale has still gets a scale
        logs = [log10(error) for error in errors if error > 0 and isfinite(error)] or [-8.0, -6.0]
        return cls(floor(min(logs)), max(ceil(max(logs)), floor(min(logs)) + 1), edges)

    def at(self, error: float) -> float:
        """Return where an error lies: 0 at the lower edge, NaN and infinity at the upper."""
        if not isfinite(error):
            return self.edges[0]
        if error <= 0:
            return self.edges[1]
        return along(min(max(log10(error), self.low), self.high), self.high, self.low, self.edges)

    def ticks(self) -> list[Tick]:
        """Return powers of ten."""
        powers = thinned(range(self.low, self.high + 1))
        return [Tick(along(k, self.high, self.low, self.edges), f"1e{k}") for k in powers]


def thinned(numbers: Iterable[int]) -> list[int]:
    """Return every n-th number, so that few are left."""
    listed = [*numbers]
    return listed[:: -(-len(listed) // FEW)]


def amount(number: int) -> str:
    """Return a count as a label: 100, 1k, 10M."""
    for size, letter in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size and number % size == 0:
            return f"{number // size}{letter}"
    return str(number)


def short(number: float) -> str:
    """Return a number in words of a report: two digits, or that it is none."""
    return f"{number:.2g}" if np.isfinite(number) else "not a number" if np.isnan(number) else "infinite"
