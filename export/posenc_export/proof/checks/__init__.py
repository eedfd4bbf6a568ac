"""Checks: properties that a graph must have beside right numbers.

To add a check, write a decorated function in a file here, with its words for users, under a code that was never used.
It returns a line for each problem, or a Finding, which says more; it raises Missing where it cannot run on this
machine. Its stage says what it looks at: "capture" (what the export saw of the module), "artifact" (a file) or "runner"
(a loaded graph).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from posenc.registry import Registry
from posenc_export.common.errors import check_machine, first_line
from posenc_export.common.explanations import Words
from posenc_export.proof.checks.catalogue import explained
from posenc_export.proof.judging.context import Context
from posenc_export.proof.judging.verdict import Status, Verdict
from posenc_export.proof.runtimes import Missing

__all__ = ["CHECKS", "NOT_HELD", "Check", "CheckResult", "Context", "Stage", "Words", "check"]
Stage = Literal["capture", "artifact", "runner"]
NOT_HELD = "not held, since this run did not export the file"
"""Why a check of what an export saw, or wrote, says nothing of a file that is proved."""


@dataclass(frozen=True)
class CheckResult:
    """The result of a check: a line for each problem, what was measured, and what users should know beside it."""

    problems: Sequence[str] = ()
    measured: str = ""
    note: str = ""


Run = Callable[[Context], list[str] | CheckResult]
Applies = Callable[[Context], bool]


def _always(context: Context) -> bool:
    return True


@dataclass(frozen=True)
class Check:
    """A named property of a file, of its export, or of a loaded graph.

    Args:
        name: As it stands in reports.
        stage: What it looks at.
        subjects: The formats or runtimes that have it; none for all.
        run: Looks at a context, and returns problems.
        summary: The first line of its docstring.
        applies: Whether it has a row for a file at all.
    """

    name: str
    stage: Stage
    subjects: tuple[str, ...]
    run: Run
    summary: str
    applies: Applies = _always

    def find(self, context: Context) -> CheckResult:
        """Run the check; raise Missing where it cannot run here."""
        outcome = self.run(context)
        return outcome if isinstance(outcome, CheckResult) else CheckResult(outcome)

    def verdict(self, subject: str, context: Context) -> Verdict:
        """Run the check, and return its row."""
        try:
            finding = self.find(context)
        except Missing as missing:
            return Verdict(subject, self.name, "skip", str(missing))
        except Exception as error:
            check_machine(error)
            finding = CheckResult([f"could not be read: {first_line(error)}"])
        status: Status = "fail" if finding.problems else "pass"
        return Verdict(subject, self.name, status, "; ".join(finding.problems) or finding.measured, note=finding.note)


CHECKS: Registry[Check] = Registry("check", __name__)


def check(
    name: str, *, stage: Stage, words: Words, subjects: tuple[str, ...] = (), applies: Applies = _always
) -> Callable[[Run], Run]:
    """Register the decorated function as a check, and its words for users.

    Args:
        name: As it stands in reports.
        stage: What it looks at.
        words: What it says to users.
        subjects: The formats or runtimes that have it; none for all.
        applies: Whether it has a row for a file at all.
    """

    def register(run: Run) -> Run:
        explained(name, words)
        made = Check(name, stage, subjects, run, (run.__doc__ or "").partition("\n")[0], applies)
        CHECKS.add(name, made, run.__module__)
        return run

    return register
