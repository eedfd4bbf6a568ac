"""The checks of a report with their words: what each asks, how it came out for each file and runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from posenc_export.common.explanations import Explanation
from posenc_export.proof.checks.catalogue import CATALOGUE
from posenc_export.proof.judging.verdict import Status, Verdict

ORDER: tuple[Status, ...] = ("fail", "pass", "skip")


@dataclass(frozen=True)
class CheckRows:
    """A check: its words, and its rows.

    Args:
        words: What it asks, what a failure means, and what to do then.
        status: The gravest of its rows.
        rows: Its rows: a file, a runtime or golden data each.
    """

    words: Explanation
    status: Status
    rows: tuple[Verdict, ...]


def checks_of(verdicts: Sequence[Verdict]) -> list[CheckRows]:
    """Return the checks of a report: those that failed first, then by their codes."""
    by_check: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        by_check.setdefault(verdict.check, []).append(verdict)
    checks = [CheckRows(CATALOGUE[name], _gravest(rows), tuple(rows)) for name, rows in by_check.items()]
    # who opens the page of a failure looks for that
    return sorted(checks, key=lambda check: (check.status != "fail", check.words.code))


def _gravest(rows: Sequence[Verdict]) -> Status:
    return next(status for status in ORDER if any(row.status == status for row in rows))
