"""Names of inputs and outputs in words, those of dozens of layers as one; and lines of which there are too many."""

from __future__ import annotations

import re
from collections.abc import Sequence


def in_runs(names: Sequence[str]) -> str:
    """Return names with commas; those that differ by one whole number, which counts up, as one.

    >>> in_runs(["logits", "present.0.key", "present.0.value", "present.1.key", "present.1.value"])
    'logits, present.0..1.key, present.0..1.value'
    """
    runs: dict[tuple[str, str], list[str]] = {}
    for name in names:
        before, number, after = re.fullmatch(r"(\D*)(\d*)(.*)", name, re.DOTALL).groups()  # type: ignore[union-attr]
        runs.setdefault((before, after), []).append(number)
    return ", ".join(part for (before, after), numbers in runs.items() for part in _parts(before, numbers, after))


def first_few(lines: Sequence[str], count: int) -> list[str]:
    """Return the first lines, and behind them how many more there are.

    >>> first_few(["a", "b", "c"], 2)
    ['a', 'b', 'and 1 more']
    """
    more = [f"and {len(lines) - count} more"] if len(lines) > count else []
    return [*lines[:count], *more]


def _parts(before: str, numbers: Sequence[str], after: str) -> Sequence[str]:
    if len(numbers) > 1 and numbers[0] and numbers == [str(int(numbers[0]) + i) for i in range(len(numbers))]:
        return [f"{before}{numbers[0]}..{numbers[-1]}{after}"]
    return [f"{before}{number}{after}" for number in numbers]
