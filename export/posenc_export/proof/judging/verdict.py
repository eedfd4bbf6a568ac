"""What validation finds: comparisons of outputs, and verdicts, the rows of a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from posenc.encoding import Tolerance
from posenc_export.common.limit import TIMEOUT, check_limits
from posenc_export.proof.runtimes import RUNTIMES

Status = Literal["pass", "fail", "skip"]
Against = Literal["eager", "reference", "model"]
NO_REFERENCE = "no reference"
"""How a report begins where it says why there is no reference."""
AGREES = "agrees"
"""The check that compares a runtime with what was recorded."""
PLACED = "placement"
"""The check that looks at where a runtime runs nodes: all that one has which runs no graph."""
MODEL = "model"
"""The check that compares a graph with the model's own code; --require takes its name, beside those of runtimes."""
Progress = Callable[[str], None]


def no_progress(text: str) -> None:
    """Show no progress."""


@dataclass(frozen=True)
class ValidateOptions:
    """How to validate a bundle.

    Args:
        runtimes: The runtimes to run on; none for all.
        require: Runtimes that must run, and MODEL where the model must have been asked.
        atol: An absolute tolerance in the place of the derived tolerances.
        rtol: A relative tolerance in the place of the derived tolerances.
        timeout: Seconds that one call of a graph may take; 0 for any.
        progress: What shows how far the validation is.
        prove: Whether runtimes and checks that take longer run, too.
    """

    runtimes: tuple[str, ...] = ()
    require: tuple[str, ...] = ()
    atol: float | None = None
    rtol: float | None = None
    timeout: float = TIMEOUT
    progress: Progress = field(default=no_progress)
    prove: bool = False

    def __post_init__(self) -> None:
        check_limits(timeout=self.timeout, memory=1)
        for name in ("atol", "rtol"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise ValueError(f"{name} must be a finite number of at least 0, got {value}")

    @property
    def chosen(self) -> tuple[str, ...]:
        """The runtimes to run on, none for all; required runtimes are among them."""
        return tuple(dict.fromkeys((*self.runtimes, *self.required_runtimes))) if self.runtimes else ()

    @property
    def required_runtimes(self) -> tuple[str, ...]:
        """The required runtimes, without the model."""
        return tuple(name for name in self.require if name != MODEL)

    def asks_for(self, runtime: str) -> bool:
        """Return whether a runtime that takes longer is to run."""
        return self.prove or self.names(runtime)

    def names(self, runtime: str) -> bool:
        """Return whether a runtime is asked for by its name."""
        return runtime in (*self.runtimes, *self.require)

    def tolerance(self, derived: Tolerance) -> Tolerance:
        """Return the derived tolerance, or the user's in its place."""
        if self.atol is None and self.rtol is None:
            return derived
        return Tolerance(atol=self.atol or 0.0, rtol=self.rtol or 0.0)


@dataclass(frozen=True)
class Comparison:
    """One output in one case on one runtime, judged against eager's, the float64 reference's or the model's.

    Args:
        case: The name of the case.
        output: The name of the output; empty where the call itself failed, and SCORES for q k^T.
        against: What the output is compared with.
        max_abs: The largest absolute error.
        max_ulp: The largest error in ulps of the expected value.
        position: Where the largest error is.
        passed: Whether the error is allowed.
        reason: Why it is not allowed.
        peak: The largest expected magnitude.
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
class Bin:
    """The largest error in a range of positions: where it is, how large, and how large it may be there."""

    position: int
    error: float
    allowed: float


@dataclass(frozen=True)
class Curve:
    """The largest errors of an output on one runtime by position, from the first bin to the last."""

    output: str
    against: Against
    bins: tuple[Bin, ...]


@dataclass(frozen=True)
class Verdict:
    """A row of the report: the result of one check.

    Args:
        subject: A format or a runtime.
        check: AGREES for the comparisons, else the name of a check.
        status: How it came out; "skip" where it did not run.
        detail: Why it failed or did not run, or what was tried.
        comparisons: The outputs of a runtime in all cases.
        note: What a user should know although nothing failed.
        curves: The largest errors of a runtime by position, where its outputs differ from what was recorded.
    """

    subject: str
    check: str
    status: Status
    detail: str = ""
    comparisons: tuple[Comparison, ...] = ()
    note: str = ""
    curves: tuple[Curve, ...] = ()


def worst(comparisons: Sequence[Comparison], against: Against) -> Comparison | None:
    """Return the comparison with the largest error against eager, the reference or the model; a NaN is the largest."""
    candidates = [c for c in comparisons if c.against == against]
    return max(candidates, key=lambda c: np.inf if np.isnan(c.max_abs) else c.max_abs, default=None)


def failed(verdicts: Sequence[Verdict]) -> bool:
    """Return whether anything that ran disagreed or failed a check."""
    return any(v.status == "fail" for v in verdicts)


def unmet(verdicts: Sequence[Verdict], required: Sequence[str]) -> list[str]:
    """Return a line for each required runtime that did not run: a library is missing, or a file is damaged."""
    return [f"{name} is required and {reason}" for name in required if (reason := _why_unmet(verdicts, name))]


def _why_unmet(verdicts: Sequence[Verdict], name: str) -> str:
    """Return why a runtime did not run, or nothing where it did: only a row of its own shows that."""
    if name == MODEL:
        of_model = [v for v in verdicts if v.check == MODEL]
        held = any(v.status != "skip" for v in of_model)
        return "" if held else next((v.detail for v in of_model), "did not run: no runtime compared anything with it")
    counted = (AGREES,) if RUNTIMES[name].runs else (AGREES, PLACED)
    own = [v for v in verdicts if v.subject == name and v.check in counted]
    if own:
        return next((v.detail for v in own if v.status == "skip"), "")
    of_format = (v for v in verdicts if v.subject == RUNTIMES[name].format and v.status == "fail")
    return f"did not run: {next((v.detail for v in of_format), 'nothing was tried')}"


@dataclass(frozen=True)
class Basis:
    """What a report is based on.

    Args:
        manifest_sha256: The digest of manifest.json.
        replacement: The user's tolerance in the place of the derived ones, or None.
    """

    manifest_sha256: str
    replacement: Tolerance | None = None
