"""The result of a benchmark as a table, a row for each contender and length, and as a section of a document."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from posenc_export.common.errors import printable
from posenc_export.common.markdown import plain, table

if TYPE_CHECKING:
    from posenc_export.proof.benchmarks import BenchResult, LengthResult

COLUMNS = ("length", "what", "ms", "x a copy", "x faster than baseline", "than one operator")
NUMBERS = tuple(column for column in COLUMNS if column != "what")
"""Columns that are flush right."""


WORDS = {
    "x a copy": "how many times as long as a copy of the bytes that a call writes",
    "x faster than baseline": "than the usual module, exported, on the same runtime",
    "than one operator": "than one operator over a stored table",
}
"""The meaning of the columns of ratios."""


def in_words(result: BenchResult) -> str:
    """Return a line that explains the columns that are not empty."""
    cells = dict(zip(COLUMNS, zip(*rows(result), strict=True), strict=True))
    return f"words: {'; '.join(f'{name} = {meaning}' for name, meaning in WORDS.items() if any(cells[name]))}"


def as_text(result: BenchResult) -> str:
    """Return the times as text for a terminal."""
    return printable(
        "\n".join([title(result), plain(COLUMNS, rows(result), NUMBERS), *result.not_run, in_words(result)])
    )


def title(result: BenchResult) -> str:
    """Return a title: the encoding that was timed."""
    method = f", {result.method}" if result.method else ""
    return f"{result.scheme}, {result.mode}{method}, batch {result.batch}: medians, one run"


def rows(result: BenchResult) -> list[tuple[str, ...]]:
    """Return a row of COLUMNS for each contender and length."""
    return [_row(times, name) for times in result.lengths for name in times.milliseconds]


def _row(times: LengthResult, name: str) -> tuple[str, ...]:
    ratios = (times.times_a_copy, times.faster_than_baseline, times.faster_than_one_op)
    return (str(times.length), name, f"{times.milliseconds[name]:.3f}", *(_number(ratio.get(name)) for ratio in ratios))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def section(result: BenchResult, command: str, facts: Mapping[str, str]) -> str:
    """Return the table as Markdown between two marks, with the machine and the command."""
    start, end = _marks(command, facts)
    machine = ", ".join(f"{name} {value}" for name, value in facts.items())
    parts = (start, f"{title(result).capitalize()}. {machine}.", f"    {command}", table(COLUMNS, rows(result)), end)
    return "\n\n".join(parts) + "\n"


def with_section(text: str, result: BenchResult, command: str, facts: Mapping[str, str]) -> str:
    """Return a document with a section: it replaces that of the same command on the same machine, or comes last."""
    start, end = _marks(command, facts)
    made = section(result, command, facts)
    old_section = re.compile(re.escape(start) + ".*?" + re.escape(end) + "\n", re.DOTALL)
    if old_section.search(text):
        return old_section.sub(lambda _: made, text)
    return f"{text.rstrip()}\n\n{made}".lstrip()


def _marks(command: str, facts: Mapping[str, str]) -> tuple[str, str]:
    """Return the marks that begin and end the section of a command on a machine."""
    return f"<!-- {command} | {facts.get('GPU', facts['CPU'])} -->", "<!-- end -->"
