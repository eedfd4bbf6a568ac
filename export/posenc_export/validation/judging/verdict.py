"""What validation finds: comparisons of outputs, and verdicts, the rows of a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from posenc.encoding import Tolerance
from posenc_export.runtimes import RUNTIMES
from posenc_export.runtimes.limit import TIMEOUT

Status = Literal["pass", "fail", "skip"]
Against = Literal["eager", "reference", "model"]
NO_REFERENCE = "no reference"
"""What a report says in the place of a reference, before the reason."""
AGREES = "agrees"
"""The check that compares a runtime with what was recorded."""
MODEL = "model"
"""What is required beside runtimes: that a config was held against its model's own code."""
Progress = Callable[[str], None]


def no_progress(text: str) -> None:
    """Say nothing of how far things are."""


@dataclass(frozen=True)
class ValidateOptions:
    """How to validate: which runtimes, which of them must run, and a tolerance in place of the derived ones.

    timeout: seconds that one call of a graph may take; 0 for any.
    prove: run what takes longer too, of runtimes and of checks.
    """

    runtimes: tuple[str, ...] = ()
    require: tuple[str, ...] = ()
    atol: float | None = None
    rtol: float | None = None
    timeout: float = TIMEOUT
    progress: Progress = field(default=no_progress)
    prove: bool = False

    def __post_init__(self) -> None:
        for name in ("atol", "rtol", "timeout"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise ValueError(f"{name} must be a finite number of at least 0, got {value}")

    @property
    def chosen(self) -> tuple[str, ...]:
        """The runtimes to run on, none for all: what is required runs whatever else is named."""
        return tuple(dict.fromkeys((*self.runtimes, *self.required_runtimes))) if self.runtimes else ()

    @property
    def required_runtimes(self) -> tuple[str, ...]:
        """What is required, but for the model."""
        return tuple(name for name in self.require if name != MODEL)

    def asks_for(self, runtime: str) -> bool:
        """Return whether a runtime that takes longer is to run."""
        return self.prove or runtime in (*self.runtimes, *self.require)

    def tolerance(self, derived: Tolerance) -> Tolerance:
        """Return the derived tolerance, or the one that is to be taken in its place."""
        if self.atol is None and self.rtol is None:
            return derived
        return Tolerance(atol=self.atol or 0.0, rtol=self.rtol or 0.0)


@dataclass(frozen=True)
class Comparison:
    """One output in one case on one runtime, judged against the eager output, the float64 reference or the model's own.

    position: where the largest error is; peak: the largest magnitude that was expected.
    """

    case: str
    output: str
    against: Against
    max_abs: float
    max_ulp: float
    position: int | None
    passed: bool
    reason: str = ""
    peak: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """A row of the report: what was looked at, on what, how it came out and why.

    subject: a format or a runtime; check: AGREES for the comparisons, else the name of a check.
    note: what is no failure and yet to be known.
    """

    subject: str
    check: str
    status: Status
    detail: str = ""
    comparisons: tuple[Comparison, ...] = ()
    note: str = ""


def worst(comparisons: Sequence[Comparison], against: Against) -> Comparison | None:
    """Return the comparison with the largest error against one of the two; a NaN is the largest."""
    of_one = [c for c in comparisons if c.against == against]
    return max(of_one, key=lambda c: np.inf if np.isnan(c.max_abs) else c.max_abs, default=None)


def failed(verdicts: Sequence[Verdict]) -> bool:
    """Return whether anything that could run disagreed or failed a check."""
    return any(v.status == "fail" for v in verdicts)


def unmet(verdicts: Sequence[Verdict], required: Sequence[str]) -> list[str]:
    """Return, in words, the required runtimes that did not run: for want of a library, or of a file that is whole."""
    return [f"{name} is required and {reason}" for name in required if (reason := _why_unmet(verdicts, name))]


def _why_unmet(verdicts: Sequence[Verdict], name: str) -> str:
    """Return why a runtime did not run, or nothing where it did: only a verdict of its own shows that."""
    if name == MODEL:
        of_model = [v for v in verdicts if v.check == MODEL]
        held = any(v.status != "skip" for v in of_model)
        return "" if held else next((v.detail for v in of_model), "did not run: no runtime compared anything with it")
    own = [v for v in verdicts if v.subject == name and v.check == AGREES]
    if own:
        return next((v.detail for v in own if v.status == "skip"), "")
    of_format = (v for v in verdicts if v.subject == RUNTIMES[name].format and v.status == "fail")
    return f"did not run: {next((v.detail for v in of_format), 'nothing was tried')}"


@dataclass(frozen=True)
class Basis:
    """What a report stands on.

    manifest_sha256: of manifest.json. replacement: the tolerance in the place of the derived ones, where one was given.
    """

    manifest_sha256: str
    replacement: Tolerance | None = None
