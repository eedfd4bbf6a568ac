"""Parameters of two encodings, compared by name: numbers within what the dtype of a file can tell apart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

TELLS = {"float16": 2e-3, "bfloat16": 2e-2}
"""Relative differences of a parameter that numbers of a dtype cannot show, by the dtype."""
USUAL = 1e-5
"""The same for float32 and wider."""


@dataclass(frozen=True)
class ParameterDifference:
    """A parameter that differs: its name, its value in the file, and the value that was expected."""

    name: str
    got: object
    expected: object

    def __str__(self) -> str:
        where, got, expected = _from_first_unlike(self.got, self.expected)
        return f"{self.name}{where} {shown(got)}, expected {shown(expected)}"


def differences(got: Mapping[str, object], expected: Mapping[str, object], dtype: str) -> Iterator[ParameterDifference]:
    """Yield the parameters that both sides have and that differ, in the order of the file's."""
    for name, value in got.items():
        if name in expected and not alike(value, expected[name], TELLS.get(dtype, USUAL)):
            yield ParameterDifference(name, value, expected[name])


def alike(got: object, expected: object, within: float) -> bool:
    """Return whether two values are the same: words to the letter, numbers within a relative difference."""
    if isinstance(got, Sequence) and isinstance(expected, Sequence) and not isinstance(got, str):
        same_length = len(got) == len(expected)
        return same_length and all(alike(a, b, within) for a, b in zip(got, expected, strict=True))
    if isinstance(got, (int, float)) and isinstance(expected, (int, float)):
        return math.isclose(got, expected, rel_tol=within)
    return got == expected


def _from_first_unlike(got: object, expected: object) -> tuple[str, object, object]:
    """Return where two lists begin to differ, in words, and what they hold from there on; other values as they are."""
    if not isinstance(got, Sequence) or not isinstance(expected, Sequence) or isinstance(got, str):
        return "", got, expected
    unlike = (place for place, pair in enumerate(zip(got, expected, strict=False)) if not alike(*pair, USUAL))
    first = next(unlike, 0) if len(got) == len(expected) else 0
    return f" from number {first + 1} on" if first else "", got[first:], expected[first:]


def shown(value: object) -> str:
    """Return a value for a message: a number as short as it can be told apart, only the first of many."""
    if isinstance(value, float):
        return f"{value:.6g}" if value < 1e6 or value % 1 else f"{value:.0f}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        first = ", ".join(map(shown, value[:3]))
        return f"({first}{', ...' if len(value) > 3 else ''})"
    return str(value)


def numbers(values: Sequence[int]) -> str:
    """Return whole numbers in words, runs of them as their ends: 0-3, 5."""
    runs: list[list[int]] = []
    for value in sorted(set(values)):
        if runs and runs[-1][-1] == value - 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def layers_named(values: Sequence[int]) -> str:
    """Return which layers are meant, in words."""
    return f"layer{'' if len(set(values)) == 1 else 's'} {numbers(values)}"
