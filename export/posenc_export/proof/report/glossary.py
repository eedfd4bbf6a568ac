"""A line below a report that explains the words in it which a reader may not know."""

from __future__ import annotations

import re
from collections.abc import Iterable

CELLS = {
    r"\d ulp\b": "ulp = the step from one number of the dtype to the next",
    r"^(\S+% of \S+)": r"\1 = the largest difference as a share of the largest value",
}
"""By a pattern, what a word in a cell of a table means."""
CHECKS = {
    r"\bpurity\b": "purity = earlier calls change nothing",
    r"\bstatic-axis\b": "static-axis = no axis is frozen",
    r"\blost-input\b": "lost-input = no input is ignored",
    r"\bhalf-safe\b": "half-safe = what a conversion to half precision costs",
}
"""The same for names of checks, in cells and in lines below the tables."""
LINES = {
    r"\brounding": "a rounding = the step of float16 or bfloat16 at the largest value of the output",
    r": carries ": "carries = what an input holds (-i changes it, by a word after the axes)",
}
"""The same for lines below the tables."""
MORE = "checks: posenc explain"
LONG = 20_000
"""Letters of a text that are looked through: lines of a stranger's bundle may have millions."""


def glossary(cells: Iterable[str], lines: Iterable[str]) -> list[str]:
    """Return a line that explains the words which occur in a report, or no line."""
    cells, lines = list(cells), list(lines)
    meanings = [*_meanings(CELLS, cells), *_meanings(CHECKS, [*cells, *lines]), *_meanings(LINES, lines)]
    return [f"words: {'; '.join([*meanings, MORE])}"] if meanings else []


def _meanings(words: dict[str, str], texts: list[str]) -> Iterable[str]:
    """Yield the meaning of each word that occurs, with the numbers of its first occurrence."""
    for pattern, meaning in words.items():
        match = next((match for text in texts if (match := re.search(pattern, text[:LONG]))), None)
        if match is not None:
            yield match.expand(meaning)
