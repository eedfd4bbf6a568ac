"""A bundle is validated in processes of their own: a graph may end the one that runs it, or keep it for ever.

The process that a user started opens the manifest, holds the clock and writes the report; it loads no graph, and no
library that does. What it reads of the others is checked as a stranger's (`messages`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.golden import GOLDEN
from posenc_export.bundle.paths import native_path
from posenc_export.errors import BadInput, ToolFailed
from posenc_export.runtimes import RUNTIMES
from posenc_export.runtimes.requests import check_readable, check_trusted, prepare
from posenc_export.validation.apart.messages import ERRORS, Message, read, row_read
from posenc_export.validation.apart.process import Child, Ended, Hung
from posenc_export.validation.checks.catalogue import CATALOGUE
from posenc_export.validation.judging.verdict import AGREES, ValidateOptions, Verdict, unmet
from posenc_export.validation.report.basis import basis_of
from posenc_export.validation.report.result import ValidateResult
from posenc_export.validation.running.integrity import OTHERS, check_known, integrity_beside
from posenc_export.validation.running.model import SUBJECT, check_has_model
from posenc_export.validation.running.progress import expect
from posenc_export.validation.running.run import chosen, steps, validate_bundle
from posenc_export.validation.running.steps import NO_FILE, OPENING, Key, is_damaged

GRACE = 0.5
"""Seconds that a process has beyond what a step may take, to say what came of it."""
CRASHES = 3
"""After so many steps of a file that ended their process nothing more of it runs."""
MODULE = "posenc_export.validation.apart.child"
Validate = Callable[[Bundle], list[Verdict]]


def validate_folder(folder: Path, options: ValidateOptions, trust: bool = False) -> ValidateResult:
    """Open a bundle and run everything on it; raise Unavailable where a required runtime cannot run here.

    trust: whether code in it may be run; where not, naming a runtime that does raises BadInput.
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
    basis = basis_of(folder, options)
    return ValidateResult(bundle.manifest, tuple(verdicts), basis, tuple(unmet(verdicts, options.require)))


@contextmanager
def in_process(folder: Path, options: ValidateOptions, trust: bool) -> Iterator[Validate]:
    """Yield what validates a bundle here: for bundles that this program has written, and for tests."""

    def validate(bundle: Bundle) -> list[Verdict]:
        bundle.check_graphs()
        prepare(options.runtimes, options.required_runtimes, options.progress)
        with native_path(folder) as place:
            return validate_bundle(replace(bundle, folder=place), options)

    yield validate


@contextmanager
def in_children(folder: Path, options: ValidateOptions, trust: bool) -> Iterator[Validate]:
    """Yield what validates a bundle in other processes, of which the first begins to load libraries at once."""
    start = partial(_started, folder.absolute(), options, trust)
    first = start(frozenset(), frozenset())
    try:
        yield partial(_in_children, first, start, options)
    finally:
        first.end()


validating: Callable[[Path, ValidateOptions, bool], AbstractContextManager[Validate]] = in_children
"""How bundles are validated."""


def _started(folder: Path, options: ValidateOptions, trust: bool, done: frozenset[Key], over: frozenset[int]) -> Child:
    """Start a process that does all but what is done, of all files but those of which nothing more runs."""
    values = {name: getattr(options, name) for name in ("runtimes", "require", "atol", "rtol", "prove")}
    request = {"options": values, "trust": trust, "done": sorted(done), "over": sorted(over)}
    return Child(["-m", MODULE, str(folder), json.dumps(request)])


@dataclass
class Ledger:
    """What processes have said of a bundle until now.

    step: the one that runs, if any; check, call: what of it began last. done: steps that are over. over: files of
    which nothing more runs. crashes: by file.
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
        """How long the next line may take: before any graph is looked into, as long as libraries take to load."""
        return self.options.timeout + GRACE if self.options.timeout and self.step else None

    def subjects(self) -> set[str]:
        """Return what a row may be of."""
        formats = (artifact.format for artifact in self.bundle.manifest.artifacts)
        return {SUBJECT, GOLDEN, OTHERS, "", *RUNTIMES, *formats}

    def enter(self, message: Message) -> None:
        """Take a message; raise ValueError where it is of what there is not, PosencError where it is one."""
        if "error" in message:
            kind, text = message["error"]
            raise ERRORS[kind](text)
        if "step" in message:
            self._begin(message["step"])
        if "call" in message:
            self.check, self.call = message["call"]
            _check_known("check", self.check, CATALOGUE)
        if "rows" in message:
            self._end([row_read(row) for row in message["rows"]])
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
            raise ValueError("rows of no step")
        for row in rows:
            _check_known("subject", row.subject, self.subjects())
        self.rows += rows
        self.done.add(self.step)
        if is_damaged(rows):
            self.over.add(self.step[0])

    def fail(self, reason: str, is_late: bool) -> None:
        """Enter that the step that runs has ended its process, or was ended."""
        if self.step is None:
            raise ToolFailed(f"the process that validates {reason}")
        if self.step == OPENING:
            raise BadInput(f"{self.bundle.folder} has a graph that cannot be read: {reason}")
        number, subject, _ = self.step
        self.rows.append(Verdict(subject, self.check, "fail", f"{self.call}: {reason}" if self.call else reason))
        self.done.add(self.step)
        self.crashes[number] = self.crashes.get(number, 0) + 1
        if is_late or self.crashes[number] == CRASHES:
            self._close(number, reason)

    def _close(self, number: int, reason: str) -> None:
        """Enter that nothing more of a file runs."""
        self.over.add(number)
        artifact = self.bundle.manifest.artifacts[number]
        for runtime in chosen(artifact.format, self.options.chosen):
            if (number, runtime.name, AGREES) not in self.done:
                words = f"nothing more of {artifact.file} runs: {self.check}: {reason}"
                self.rows.append(Verdict(runtime.name, AGREES, "skip", words))

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left after the step that failed."""
        artifacts = self.bundle.manifest.artifacts
        assert self.step is not None
        number, last = self.step[0], len(artifacts) - 1
        names = [runtime.name for runtime in chosen(artifacts[last].format, self.options.chosen)]
        return number == last and (last in self.over or self.step[1:] == (names[-1] if names else "", AGREES))


def _check_known(what: str, name: object, names: object) -> None:
    if name not in names:  # type: ignore[operator]
        raise ValueError(f"there is no {what} {name!r}")


def _in_children(
    first: Child, start: Callable[[frozenset[Key], frozenset[int]], Child], options: ValidateOptions, bundle: Bundle
) -> list[Verdict]:
    """Return the rows of a bundle; where a process ends before all is done, another one goes on."""
    ledger = Ledger(bundle, options)
    expect(options.progress, steps((artifact.format for artifact in bundle.manifest.artifacts), options))
    prepare((*options.runtimes, *options.required_runtimes), (), options.progress)
    child = first
    while not _followed(child, ledger):
        child = start(frozenset(ledger.done), frozenset(ledger.over))
    if (NO_FILE, GOLDEN, "integrity") not in ledger.done:  # the last step, which needs no process of its own
        ledger.rows += integrity_beside(bundle)
    return ledger.rows


def _followed(child: Child, ledger: Ledger) -> bool:
    """Enter what a process says until it ends, and end it; return whether nothing is left to do."""
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
        ledger.fail("said what no validation says", is_late=True)
    finally:
        child.end()
    return ledger.is_complete
