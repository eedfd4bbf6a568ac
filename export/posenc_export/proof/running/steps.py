"""The steps of a validation: each gives rows of the report, in this process or in another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from posenc_export.proof.judging.verdict import Verdict

Key = tuple[int, str, str]
"""A step's key: the number of its file in the manifest, a format or a runtime, and a check."""
NO_FILE = -1
"""The number in the key of a step without a file."""
OPENING: Key = (NO_FILE, "", "opening")
"""The key while the graphs of a bundle are looked into, before the first step."""


@dataclass(frozen=True)
class Step:
    """A check of a file, or all cases of a file on a runtime.

    Args:
        key: Which step it is.
        text: What a display of progress shows while it runs, or nothing.
        run: Runs it, and returns its rows.
    """

    key: Key
    text: str
    run: Callable[[], list[Verdict]]


Run = Callable[[Step], list[Verdict]]


def rows_of(steps: Iterable[Step], run: Run = lambda step: step.run()) -> Iterator[Verdict]:
    """Yield the rows of all steps; if a file is not the one that its manifest lists, its other steps do not run."""
    damaged: set[int] = set()
    for step in steps:
        if step.key[0] not in damaged:
            rows = run(step)
            if is_damaged(rows):
                damaged.add(step.key[0])
            yield from rows


def is_damaged(rows: Iterable[Verdict]) -> bool:
    """Return whether a row says that a file is not the one that its manifest lists."""
    return any((row.check, row.status) == ("integrity", "fail") for row in rows)
