"""The validation of a bundle in child processes, since a graph may end the process that runs it, or run for ever.

The parent, which the user started, opens the manifest, holds the clock and writes the report; it loads no graph, and no
library for graphs. It does not trust what it reads of its children: `messages.py` checks every message.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.golden import GOLDEN
from posenc_export.common.child import Child, Ended, Hung
from posenc_export.common.errors import BadInput, ToolFailed
from posenc_export.proof.apart.messages import ERRORS, Message, ProcessRequest, checked, read
from posenc_export.proof.checks.catalogue import CATALOGUE
from posenc_export.proof.judging.verdict import AGREES, ValidateOptions, Verdict, of_part, unmet
from posenc_export.proof.report.basis import basis_of
from posenc_export.proof.report.result import ValidateResult
from posenc_export.proof.running.integrity import OTHERS, check_known, integrity_beside
from posenc_export.proof.running.model import SUBJECT, check_has_model
from posenc_export.proof.running.progress import expect
from posenc_export.proof.running.run import chosen, steps, validate_bundle
from posenc_export.proof.running.steps import NO_FILE, OPENING, Key, is_damaged
from posenc_export.proof.runtimes import RUNTIMES
from posenc_export.proof.runtimes.requests import check_readable, check_trusted, prepare

GRACE = 0.5
"""Seconds that a process has beyond the time of a step, to send its rows."""
CRASHES = 3
"""If so many steps of a file have ended their process, its other steps do not run."""
MODULE = "posenc_export.proof.apart.child"
Validate = Callable[[Bundle], list[Verdict]]


def validate_folder(folder: Path, options: ValidateOptions, trust: bool = False) -> ValidateResult:
    """Open a bundle and validate it; raise Unavailable where a required runtime cannot run on this machine.

    Args:
        folder: The bundle.
        options: Which runtimes, and how.
        trust: Whether code in the bundle may be run; otherwise naming a runtime that runs it raises BadInput.
    """
    with validating(folder, options, trust) as validate:
        bundle = Bundle.read(folder, trust)
        formats = [artifact.format for artifact in bundle.manifest.artifacts]
        check_known(formats)
        check_readable("--runtime", options.runtimes, formats)
        check_readable("--require", options.required_runtimes, formats)
        check_has_model(options.require, bundle.manifest.model is not None)
        if not trust:
            check_trusted(options.runtimes, options.required_runtimes)
        verdicts = validate(bundle)
    for part in bundle.parts():
        with validating(part.folder, options, trust, part=True) as validate:
            verdicts += of_part(part.folder.name, validate(part))
    basis = basis_of(folder, options)
    return ValidateResult(bundle.manifest, tuple(verdicts), basis, tuple(unmet(verdicts, options.require)))


@contextmanager
def in_process(folder: Path, options: ValidateOptions, trust: bool, part: bool = False) -> Iterator[Validate]:
    """Yield a function that validates a bundle in this process: for bundles that it has written, and for tests."""

    def validate(bundle: Bundle) -> list[Verdict]:
        bundle.check_graphs()
        prepare(options.runtimes, options.required_runtimes, options.progress)
        with bundle.native() as native:
            return validate_bundle(native, options)

    yield validate


@contextmanager
def in_children(folder: Path, options: ValidateOptions, trust: bool, part: bool = False) -> Iterator[Validate]:
    """Yield a function that validates a bundle in child processes; the first begins to load libraries at once."""
    request = ProcessRequest(
        runtimes=list(options.runtimes),
        require=list(options.require),
        atol=options.atol,
        rtol=options.rtol,
        prove=options.prove,
        default=list(options.default),
        trust=trust,
        part=part,
        done=[],
        over=[],
    )
    start = partial(_started, folder.absolute(), request)
    first = start(frozenset(), frozenset())
    try:
        yield partial(_in_children, first, start, options)
    finally:
        first.end()


class Validating(Protocol):
    """A way to validate a bundle."""

    def __call__(
        self, folder: Path, options: ValidateOptions, trust: bool, part: bool = False
    ) -> AbstractContextManager[Validate]:
        """Return a context whose value validates the bundle of a folder; a part's graphs lie in the folder above."""


validating: Validating = in_children
"""How bundles are validated; tests put `in_process` in its place."""


def _started(folder: Path, request: ProcessRequest, done: frozenset[Key], over: frozenset[int]) -> Child:
    """Start a process that runs all steps but those in `done`, and those of files in `over`."""
    said = ProcessRequest(**{**request, "done": sorted(done), "over": sorted(over)})
    return Child(["-m", MODULE, str(folder), json.dumps(said)])


@dataclass
class Ledger:
    """What child processes have said of a bundle until now.

    Args:
        bundle: The bundle.
        options: Which runtimes, and how.
        rows: The rows of the report.
        step: The step that runs, or None.
        check: Its check that began last.
        call: The call of that check that began last.
        done: Steps that have ended.
        over: Files whose other steps do not run.
        crashes: By file, how many steps have ended their process.
    """

    bundle: Bundle
    options: ValidateOptions
    rows: list[Verdict] = field(default_factory=list)
    step: Key | None = None
    check: str = ""
    call: str = ""
    done: set[Key] = field(default_factory=set)
    over: set[int] = field(default_factory=set)
    crashes: dict[int, int] = field(default_factory=dict)

    @property
    def seconds(self) -> float | None:
        """Seconds that the next line may take; any, while libraries are loaded."""
        return self.options.timeout + GRACE if self.options.timeout and self.step else None

    def subjects(self) -> set[str]:
        """Return the subjects that a row may have."""
        # a process that a graph has taken over may name anything
        formats = (artifact.format for artifact in self.bundle.manifest.artifacts)
        return {SUBJECT, GOLDEN, OTHERS, "", *RUNTIMES, *formats}

    def enter(self, message: Message) -> None:
        """Take a message; raise ValueError where it names something unknown, and the PosencError that it tells of."""
        if "error" in message:
            kind, text = message["error"]
            raise ERRORS[kind](text)
        if "step" in message:
            self._begin(message["step"])
        if "call" in message:
            self.check, self.call = message["call"]
            _check_known("check", self.check, CATALOGUE)
        if "rows" in message:
            self._end([checked(row) for row in message["rows"]])
        if "progress" in message:
            self.options.progress(message["progress"])

    def _begin(self, key: Key) -> None:
        if key != OPENING:
            _check_known("check", key[2], CATALOGUE)
            _check_known("file", key[0], range(NO_FILE, len(self.bundle.manifest.artifacts)))
        _check_known("subject", key[1], self.subjects())
        self.step, self.check, self.call = key, key[2], ""

    def _end(self, rows: list[Verdict]) -> None:
        if self.step is None:
            raise ValueError("rows without a step")
        for row in rows:
            _check_known("subject", row.subject, self.subjects())
        self.rows += rows
        self.done.add(self.step)
        # nothing else is to be learned of a file that is not as the manifest lists it
        if is_damaged(rows):
            self.over.add(self.step[0])

    def fail(self, reason: str, is_late: bool) -> None:
        """Add a row for the step that has ended its process, or was ended as it took too long."""
        if self.step is None:
            raise ToolFailed(f"the process that validates {reason}")
        # graphs are parsed before any step: a crash there has no row
        if self.step == OPENING:
            raise BadInput(f"{self.bundle.folder} has a graph that cannot be read: {reason}")
        number, subject, _ = self.step
        self.rows.append(Verdict(subject, self.check, "fail", f"{self.call}: {reason}" if self.call else reason))
        self.done.add(self.step)
        self.crashes[number] = self.crashes.get(number, 0) + 1
        # a file that hangs would do so in each of its steps
        if is_late or self.crashes[number] == CRASHES:
            self._close(number, reason)

    def _close(self, number: int, reason: str) -> None:
        """Add rows that say that the other steps of a file do not run."""
        self.over.add(number)
        artifact = self.bundle.manifest.artifacts[number]
        for runtime in chosen(artifact.format, self.options.chosen):
            # what has run keeps its rows
            if (number, runtime.name, AGREES) not in self.done:
                words = f"nothing more of {artifact.file} runs: {self.check}: {reason}"
                self.rows.append(Verdict(runtime.name, AGREES, "skip", words))

    @property
    def is_complete(self) -> bool:
        """Whether no step is left behind the one that failed."""
        artifacts = self.bundle.manifest.artifacts
        assert self.step is not None
        number, last = self.step[0], len(artifacts) - 1
        names = [runtime.name for runtime in chosen(artifacts[last].format, self.options.chosen)]
        return number == last and (last in self.over or self.step[1:] == (names[-1] if names else "", AGREES))


def _check_known(kind: str, name: object, names: Container[object]) -> None:
    if name not in names:
        raise ValueError(f"there is no {kind} {name!r}")


def _in_children(
    first: Child, start: Callable[[frozenset[Key], frozenset[int]], Child], options: ValidateOptions, bundle: Bundle
) -> list[Verdict]:
    """Return the rows of a bundle; if a process ends before all steps have, another process goes on."""
    ledger = Ledger(bundle, options)
    expect(options.progress, steps((artifact.format for artifact in bundle.manifest.artifacts), options))
    prepare((*options.runtimes, *options.required_runtimes), (), options.progress)
    child = first
    # a step that ended its process is done: the next process goes on behind it
    while not _followed(child, ledger):
        child = start(frozenset(ledger.done), frozenset(ledger.over))
    if (NO_FILE, GOLDEN, "integrity") not in ledger.done:  # the last step needs no child
        ledger.rows += integrity_beside(bundle)
    return ledger.rows


def _followed(child: Child, ledger: Ledger) -> bool:
    """Take the messages of a process until it ends, and end it; return whether no step is left."""
    # the clock stands while libraries are loaded
    ledger.step = None
    child.go()
    try:
        while True:
            message = read(child.line(ledger.seconds))
            ledger.enter(message)
            if message.get("end"):
                return True
    except Hung:
        ledger.fail(f"no answer within {ledger.options.timeout:g} s (--timeout)", is_late=True)
    except Ended as end:
        ledger.fail(str(end), is_late=False)
    except ValueError:
        ledger.fail("sent a message that no validation sends", is_late=True)
    finally:
        child.end()
    return ledger.is_complete
