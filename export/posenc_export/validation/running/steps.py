"""What a validation consists of: steps, each of which gives rows of the report, in this process or in another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from posenc_export.validation.judging.verdict import Verdict

Key = tuple[int, str, str]
"""Which step: the number of its file in the manifest, a format or a runtime, and a check."""
NO_FILE = -1
"""The number of what is of no file."""
OPENING: Key = (NO_FILE, "", "opening")
"""Looking into the graphs of a bundle, before the first step."""


@dataclass(frozen=True)
class Step:
    """One thing to do: a check of a file, or all that is tried of it on a runtime; `run` returns its rows.

    key: which one. text: what a display of progress says while it runs, or nothing.
    """

    key: Key
    text: str
    run: Callable[[], list[Verdict]]


Run = Callable[[Step], list[Verdict]]


def rows_of(steps: Iterable[Step], run: Run = lambda step: step.run()) -> Iterator[Verdict]:
    """Yield the rows of all steps; of a file that is not the one that its manifest lists nothing else is run."""
    damaged: set[int] = set()
    for step in steps:
        if step.key[0] not in damaged:
            rows = run(step)
            if is_damaged(rows):
                damaged.add(step.key[0])
            yield from rows


def is_damaged(rows: Iterable[Verdict]) -> bool:
    """Return whether rows say that a file is not the one that its manifest lists."""
    return any((row.check, row.status) == ("integrity", "fail") for row in rows)
