"""What validation finds: comparisons of outputs, and verdicts, the rows of a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from posenc.encoding import Tolerance
from posenc_export.common.limit import TIMEOUT, check_limits
from posenc_export.proof.runtimes import RUNTIMES

if TYPE_CHECKING:  # pydantic takes a while to load: whoever reads a record has these names resolved
    from posenc_export.bundle import kinds

Status = Literal["pass", "fail", "skip"]
Against = Literal["eager", "reference", "model"]
NO_REFERENCE = "no reference"
"""How a report begins where it says why there is no reference."""
WHOLE = {"strict": True, "extra": "forbid", "json_schema_serialization_defaults_required": True}
"""How pydantic reads the records of a report: nothing is converted, no field is unknown, each is written."""
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
        runtimes: The runtimes that are named, and must be here; none for those of `default`.
        require: Runtimes that must run, and MODEL where the model must have been asked.
        atol: An absolute tolerance in the place of the derived tolerances.
        rtol: A relative tolerance in the place of the derived tolerances.
        timeout: Seconds that one call of a graph may take; 0 for any.
        progress: What shows how far the validation is.
        prove: Whether runtimes and checks that take longer run, too.
        default: The runtimes to run on where none is named, as far as they are here; none for all.
    """

    runtimes: tuple[str, ...] = ()
    require: tuple[str, ...] = ()
    atol: float | None = None
    rtol: float | None = None
    timeout: float = TIMEOUT
    progress: Progress = field(default=no_progress)
    prove: bool = False
    default: tuple[str, ...] = field(default=(), metadata={"internal": True})

    def __post_init__(self) -> None:
        check_limits(timeout=self.timeout, memory=1)
        for name in ("atol", "rtol"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise ValueError(f"{name} must be a finite number of at least 0, got {value}")

    @property
    def chosen(self) -> tuple[str, ...]:
        """The runtimes to run on, none for all; required runtimes are among them."""
        names = self.runtimes or self.default
        return tuple(dict.fromkeys((*names, *self.required_runtimes))) if names else ()

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

    @property
    def gives_tolerance(self) -> bool:
        """Whether the user gave a tolerance in the place of the derived ones."""
        return self.atol is not None or self.rtol is not None

    def tolerance(self, derived: Tolerance) -> Tolerance:
        """Return the derived tolerance, or the user's in its place."""
        return Tolerance(atol=self.atol or 0.0, rtol=self.rtol or 0.0) if self.gives_tolerance else derived


@dataclass(frozen=True)
class Comparison:
    """One output in one case on one runtime, judged against eager's, the float64 reference's or the model's.

    Args:
        case: The name of the case.
        output: The name of the output; empty where the call itself failed, and "scores" for q k^T.
        against: What the output is compared with.
        max_abs: The largest absolute error; in JSON null where it is NaN or infinite, as other errors are.
        max_ulp: The largest error in ulps of the expected value.
        position: Where the largest error is.
        passed: Whether the error is allowed.
        reason: Why it is not allowed.
        peak: The largest expected magnitude.
        hard: Whether hard rows went in, whose errors say nothing of usual ones.
    """

    __pydantic_config__ = WHOLE
    case: kinds.Text
    output: kinds.Text
    against: Against
    max_abs: kinds.Figure
    max_ulp: kinds.Figure
    position: kinds.NoWhole
    passed: kinds.Flag
    reason: kinds.Text = ""
    peak: kinds.Figure = 0.0
    hard: kinds.Flag = False


@dataclass(frozen=True)
class Bin:
    """The largest error in a range of positions, two ranges from a power of two to the next.

    Args:
        position: Where that error is.
        error: How large it is.
        allowed: How far that element may be off.
    """

    __pydantic_config__ = WHOLE
    position: kinds.Whole
    error: kinds.Figure
    allowed: kinds.Figure


@dataclass(frozen=True)
class Curve:
    """The largest errors of an output on one runtime by position, from the first bin to the last."""

    __pydantic_config__ = WHOLE
    output: kinds.Text
    against: Against
    bins: kinds.Listed[kinds.Object[Bin]]


@dataclass(frozen=True)
class Verdict:
    """A row of the report: the result of one check.

    Args:
        subject: A format, a runtime, golden.npz or other files.
        check: A name that `posenc explain` knows: "agrees" for the comparisons.
        status: How it came out; "skip" where it did not run.
        detail: Why it failed or did not run, or what was tried.
        comparisons: The outputs of a runtime in all cases.
        note: What a user should know although nothing failed.
        curves: The largest errors of a runtime by position, where its outputs differ from what was recorded.
        part: Which of a model's graphs it is about, if it has several; "" for the one that the manifest describes.
    """

    __pydantic_config__ = WHOLE
    subject: kinds.Text
    check: kinds.Text
    status: Status
    detail: kinds.Text = ""
    comparisons: kinds.Listed[kinds.Object[Comparison]] = ()
    note: kinds.Text = ""
    curves: kinds.Listed[kinds.Object[Curve]] = ()
    part: kinds.Text = ""

    @property
    def place(self) -> str:
        """The subject, with the graph that it belongs to."""
        return f"{self.part} {self.subject}".lstrip()


def of_part(name: str, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return rows as those of another graph of a model."""
    return [replace(verdict, part=name) for verdict in verdicts]


def worst(comparisons: Sequence[Comparison], against: Against) -> Comparison | None:
    """Return the comparison with the largest error against eager, the reference or the model; a NaN is the largest.

    A call without an answer has no error: it is returned where no call has one. Hard rows that pass do not count.
    """
    candidates = [c for c in comparisons if c.against == against and not (c.hard and c.passed)]
    return max(candidates, key=lambda c: (bool(c.output), np.inf if np.isnan(c.max_abs) else c.max_abs), default=None)


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
        named: The runtimes that the user named: that one of them did not run is news.
    """

    manifest_sha256: str
    replacement: Tolerance | None = None
    named: tuple[str, ...] = ()
