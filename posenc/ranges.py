"""Ranges of parameters, in one form: what a signature declares, and what is refused.

`heads: Annotated[int, minimum(1)] = 8` refuses 0: "heads must be at least 1, got 0". This is known without torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Range:
    """The numbers that a parameter may have.

    Args:
        words: what they are, behind "must be".
        holds: whether a number is one of them; it is called with int and float, NaN and infinities too.
    """

    words: str
    holds: Callable[[float], bool] = field(compare=False)

    def check(self, **values: float | None) -> None:
        """Raise ValueError for the first number that is not in the range, by its name; None is not checked."""
        for name, value in values.items():
            if value is not None and not self.holds(value):
                raise ValueError(f"{name} must be {self.words}, got {value}")


def minimum(least: int) -> Range:
    """Return the numbers from `least` on."""
    return Range(f"at least {least}", lambda value: value >= least)


def above(bound: int) -> Range:
    """Return the finite numbers above a bound."""
    return Range(f"a finite number above {bound}", lambda value: value > bound and math.isfinite(value))


def multiple_of(factor: int) -> Range:
    """Return the whole numbers of which `factor` is a divisor, from itself on."""
    return Range(f"a multiple of {factor}, at least {factor}", lambda value: value >= factor and value % factor == 0)


EVEN = Range("an even number of at least 2", lambda value: value >= 2 and value % 2 == 0)
NOT_ZERO = Range("a finite number other than 0", lambda value: value != 0 and math.isfinite(value))
