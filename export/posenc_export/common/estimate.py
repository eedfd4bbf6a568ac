"""How long the rest of some work takes, in words, from how long its first parts took."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

LEAST = 5.0
"""Seconds of work before its rest is estimated, and seconds of rest that are worth a word."""


@dataclass(frozen=True)
class Estimate:
    """Parts of some work, which take as long as their costs say.

    Args:
        costs: What each part costs, in any unit.
        start: When the work began, on the monotonic clock.
    """

    costs: Sequence[float]
    start: float = field(default_factory=time.monotonic)

    def after(self, done: int) -> str:
        """Return how long the parts after the first `done` take, as ", about 3 min left"; "" if it is not known yet."""
        spent, cost = time.monotonic() - self.start, sum(self.costs[:done])
        if spent < LEAST or not cost:
            return ""
        rest = spent * sum(self.costs[done:]) / cost
        if rest < LEAST:
            return ""
        return f", about {rest / 60:.0f} min left" if rest >= 90 else f", about {rest:.0f} s left"
