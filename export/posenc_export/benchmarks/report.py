"""A benchmark's result as a table: a row for each contender and length, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from posenc_export.benchmarks import BenchResult, LengthResult

COLUMNS = ("length", "what", "ms", "x a copy", "x faster than plain", "than one operator")


def title(result: BenchResult) -> str:
    """Return what was timed, in words."""
    method = f", {result.method}" if result.method else ""
    return f"{result.scheme}, {result.mode}{method}, batch {result.batch}: medians, one run"


def rows(result: BenchResult) -> list[tuple[str, ...]]:
    """Return a row of COLUMNS for each contender and length."""
    return [_row(one, name) for one in result.lengths for name in one.milliseconds]


def _row(one: LengthResult, name: str) -> tuple[str, ...]:
    ratios = (one.times_a_copy, one.faster_than_plain, one.faster_than_one_op)
    return (str(one.length), name, f"{one.milliseconds[name]:.3f}", *(_number(ratio.get(name)) for ratio in ratios))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
