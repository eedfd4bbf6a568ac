"""Ranges of parameters: what schemes refuse, in one form."""

import math


def check_at_least(least: int, **values: int | None) -> None:
    """Raise ValueError for the first number below `least`, by its name; None is not checked."""
    for name, value in values.items():
        if value is not None and value < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")


def check_above(bound: int, **values: float) -> None:
    """Raise ValueError for the first number that is not finite or not above a bound, by its name."""
    for name, value in values.items():
        if not (value > bound and math.isfinite(value)):
            raise ValueError(f"{name} must be a finite number above {bound}, got {value}")


def check_not_zero(**values: float) -> None:
    """Raise ValueError for the first number that is 0 or not finite, by its name."""
    for name, value in values.items():
        if not value or not math.isfinite(value):
            raise ValueError(f"{name} must be a finite number other than 0, got {value}")
