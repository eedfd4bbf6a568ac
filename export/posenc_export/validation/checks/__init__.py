"""Checks: what a graph must be, beside giving the right numbers.

To add one, write a decorated function in a file here, with its words for users, under a code that no other has had.
A check returns what is wrong, in one line each; nothing wrong, nothing returned; a Finding says more. It raises Missing
where it cannot run here. Its stage says what it looks at:
"capture" (what the export saw of the module), "artifact" (a file) or "runner" (a loaded graph).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from posenc.registry import Registry
from posenc_export.errors import check_machine, first_line
from posenc_export.runtimes import Missing
from posenc_export.validation.checks.catalogue import Words, explained
from posenc_export.validation.judging.context import Context
from posenc_export.validation.judging.verdict import Status, Verdict

__all__ = ["CHECKS", "Check", "Context", "Finding", "Stage", "Words", "check"]
Stage = Literal["capture", "artifact", "runner"]


@dataclass(frozen=True)
class Finding:
    """What a check found: what is wrong, a line each; what was measured; what is no failure and yet to be known."""

    problems: Sequence[str] = ()
    measured: str = ""
    note: str = ""


Run = Callable[[Context], list[str] | Finding]
Applies = Callable[[Context], bool]


def _always(context: Context) -> bool:
    return True


@dataclass(frozen=True)
class Check:
    """A named property of an artifact; `of` names the formats, or the runtimes, that have it; none, all.

    applies: whether a file of such a format can have it at all.
    """

    name: str
    stage: Stage
    of: tuple[str, ...]
    run: Run
    summary: str
    applies: Applies = _always

    def find(self, context: Context) -> Finding:
        """Run it; raise Missing where it cannot run here."""
        outcome = self.run(context)
        return outcome if isinstance(outcome, Finding) else Finding(outcome)

    def verdict(self, subject: str, context: Context) -> Verdict:
        """Run it, and return the row that says what it found."""
        try:
            finding = self.find(context)
        except Missing as missing:
            return Verdict(subject, self.name, "skip", str(missing))
        except Exception as error:
            check_machine(error)
            finding = Finding([f"could not be read: {first_line(error)}"])
        status: Status = "fail" if finding.problems else "pass"
        return Verdict(subject, self.name, status, "; ".join(finding.problems) or finding.measured, note=finding.note)


CHECKS: Registry[Check] = Registry("check", __name__)


def check(
    name: str, *, stage: Stage, words: Words, of: tuple[str, ...] = (), applies: Applies = _always
) -> Callable[[Run], Run]:
    """Register the decorated function, and its words, as a check of the formats or runtimes in `of`, or of all."""

    def register(run: Run) -> Run:
        explained(name, words)
        made = Check(name, stage, of, run, (run.__doc__ or "").partition("\n")[0], applies)
        CHECKS.add(name, made, run.__module__)
        return run

    return register
