"""Checks: what a graph must be, beside giving the right numbers.

To add one, write a decorated function in a file here, with its words for users, under a code that no other has had.
A check returns what is wrong, in one line each; nothing wrong, nothing returned; a Finding says more. It raises Missing
where it cannot run here. Its stage says what it looks at:
"capture" (what the export saw of the module), "artifact" (a file) or "runner" (a loaded graph).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from posenc.registry import Registry
from posenc_export.errors import check_machine, first_line
from posenc_export.runtimes import Missing
from posenc_export.validation.catalogue import Words, explained
from posenc_export.validation.judging.verdict import Status, Verdict

if TYPE_CHECKING:
    from posenc_export.bundle.manifest import Artifact, Manifest
    from posenc_export.runtimes import Runner, Runtime

Stage = Literal["capture", "artifact", "runner"]


@dataclass(frozen=True)
class Behaviour:
    """What is wrong with what a module gives, in words, or nothing.

    order: an output depends on earlier calls. random: two copies give other outputs. noise: rounding moves it too far.
    choices: where the last digit of a float chooses what it gives. padding: outputs of tokens that masks leave out.
    """

    order: str = ""
    random: str = ""
    noise: str = ""
    choices: str = ""
    padding: tuple[str, ...] = ()


@dataclass(frozen=True)
class Capture:
    """What an export saw of a module: whether captures in a row, and around calls, agree; what calls changed.

    static: constants that are others where it is traced at other sizes. stored: digests of a user's module's tensors.
    """

    same_twice: bool
    same_after_calls: bool
    changed: tuple[str, ...]
    behaviour: Behaviour = Behaviour()
    static: tuple[str, ...] = ()
    stored: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Context:
    """What a check may look at; a part that does not apply is None.

    trusted: whether code in the file may be run. prove: whether what takes longer is to run too. timeout: seconds that
    a call of a graph may take, 0 for any.
    """

    manifest: Manifest
    artifact: Artifact
    path: Path
    capture: Capture | None = None
    runtime: Runtime | None = None
    runner: Runner | None = None
    trusted: bool = False
    prove: bool = False
    timeout: float = 0.0

    @property
    def captured(self) -> Capture:
        """What the export saw; only where there was one."""
        assert self.capture is not None
        return self.capture

    @property
    def loaded(self) -> tuple[Runner, Runtime]:
        """The loaded graph and its runtime; only where there is one."""
        assert self.runner is not None
        assert self.runtime is not None
        return self.runner, self.runtime


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
