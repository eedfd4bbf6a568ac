"""Ranges of numbers, in one form: what the signature of a scheme declares, and what is refused.

`heads: Annotated[int, minimum(1)] = 8` refuses 0: "heads must be at least 1, got 0". No torch is loaded for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class NumberRange:
    """The numbers that a parameter may have.

    Args:
        words: what they are, behind "must be".
        holds: whether a number is one of them; NaN and infinities are asked about, too.
    """

    words: str
    holds: Callable[[float], bool] = field(compare=False)

    def check(self, **values: float | None) -> None:
        """Raise ValueError for the first number that is not in the range, by its name; None is not checked."""
        for name, value in values.items():
            if value is not None and not self.holds(value):
                raise ValueError(f"{name} must be {self.words}, got {value}")


def minimum(least: int) -> NumberRange:
    """Return the numbers from `least` on."""
    return NumberRange(f"at least {least}", lambda value: value >= least)


def above(bound: int) -> NumberRange:
    """Return the finite numbers above a bound."""
    return NumberRange(f"a finite number above {bound}", lambda value: value > bound and math.isfinite(value))


def multiple_of(factor: int, least: int | None = None) -> NumberRange:
    """Return the multiples of `factor` from `least` on, by default from `factor` itself."""
    start = factor if least is None else least
    return NumberRange(
        f"a multiple of {factor}, at least {start}", lambda value: value >= start and value % factor == 0
    )


EVEN = NumberRange("an even number of at least 2", lambda value: value >= 2 and value % 2 == 0)
NOT_ZERO = NumberRange("a finite number other than 0", lambda value: value != 0 and math.isfinite(value))
