"""Numbers as C99 and C++17 write them, to the last bit: hexadecimal constants."""

from __future__ import annotations

from collections.abc import Mapping

SUFFIXES: Mapping[str, str] = {"float32": "f", "float64": ""}
"""What constants of a dtype end with."""


def constant(value: float, dtype: str) -> str:
    """Return a number that a dtype holds as a constant."""
    digits, _, exponent = value.hex().partition("p")
    return f"{digits.rstrip('0').rstrip('.') if '.' in digits else digits}p{exponent}{SUFFIXES[dtype]}"
