"""From a bundle to verdicts: every artifact on every runtime, from the golden data alone."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from posenc.scheme import Port, Tolerance
from posenc_export.arrays import Array
from posenc_export.bundle.folder import Artifact, Bundle, TrialSpec, sha256
from posenc_export.errors import first_line
from posenc_export.runtimes import RUNTIMES, Missing, RunFailed, Runner, Runtime
from posenc_export.validation.checks import CHECKS, Context, Looks, Source
from posenc_export.validation.compare import Difference, Judgement, compare_names, judge, measure
from posenc_export.validation.plan import Recorded, is_length, long_axis, sample

Status = Literal["pass", "fail", "skip"]
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Trial:
    """One output in one case on one runtime, against the eager output or the truth; peak: the largest expected."""

    case: str
    output: str
    against: Literal["eager", "float64"]
    max_abs: float
    max_ulp: float
    position: int | None
    passed: bool
    reason: str = ""
    peak: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """A row of the report: what was looked at, on what, how it came out and why.

    subject: a format or a runtime; check: "agrees" for the comparisons, else the name of a check.
    """

    subject: str
    check: str
    status: Status
    detail: str = ""
    trials: tuple[Trial, ...] = ()


@dataclass(frozen=True)
class Options:
    """How to validate: which runtimes, which of them must run, and a tolerance in place of the derived ones."""

    runtimes: tuple[str, ...] = ()
    require: tuple[str, ...] = ()
    atol: float | None = None
    rtol: float | None = None
    progress: Progress = field(default=lambda _: None)

    def tolerance(self, derived: Tolerance) -> Tolerance:
        """Return the derived tolerance, or the one given in its place."""
        if self.atol is None and self.rtol is None:
            return derived
        return Tolerance(atol=self.atol or 0.0, rtol=self.rtol or 0.0)


def validate(bundle: Bundle, options: Options, sources: dict[str, Source] | None = None) -> list[Verdict]:
    """Run every check and every runtime on every artifact of a bundle."""
    verdicts: list[Verdict] = []
    for artifact in bundle.manifest.artifacts:
        verdicts.append(integrity(bundle, artifact))
        if verdicts[-1].status == "fail" or artifact.format.endswith(".data"):
            continue
        context = Context(bundle.manifest, artifact, bundle.path(artifact), (sources or {}).get(artifact.format))
        options.progress(f"checking {artifact.file}")
        verdicts += run_checks(artifact.format, "source", context) if context.source else []
        verdicts += run_checks(artifact.format, "artifact", context)
        for runtime in chosen(artifact.format, options.runtimes):
            options.progress(f"running {artifact.file} on {runtime.name}")
            verdicts += on_runtime(bundle, context, runtime, options)
            gc.collect()  # the reference evaluator keeps itself, and a copy of the table, in a cycle
    return verdicts


def chosen(format_: str, names: tuple[str, ...]) -> Iterator[Runtime]:
    """Yield the runtimes that read a format, of those named, or of all."""
    for runtime in RUNTIMES.values():
        if runtime.format == format_ and (not names or runtime.name in names):
            yield runtime


def integrity(bundle: Bundle, artifact: Artifact) -> Verdict:
    """Compare a file with the size and the SHA-256 that the manifest gives."""
    path = bundle.path(artifact)
    if path.stat().st_size != artifact.bytes:
        detail = f"{artifact.file} has {path.stat().st_size} bytes, the manifest says {artifact.bytes}"
        return Verdict(artifact.format, "integrity", "fail", detail)
    if sha256(path) != artifact.sha256:
        return Verdict(artifact.format, "integrity", "fail", f"{artifact.file} is not the file that was exported")
    return Verdict(artifact.format, "integrity", "pass")


def run_checks(subject: str, looks: Looks, context: Context) -> list[Verdict]:
    """Run the checks that look at one thing of a format or a runtime."""
    verdicts = []
    for check in CHECKS.values():
        if check.looks != looks or (check.of and subject not in check.of):
            continue
        try:
            found = check.find(context)
        except Exception as error:
            found = [f"could not be read: {first_line(error)}"]
        verdicts.append(Verdict(subject, check.name, "fail" if found else "pass", "; ".join(found)))
    return verdicts


def on_runtime(bundle: Bundle, context: Context, runtime: Runtime, options: Options) -> list[Verdict]:
    """Run every case on one runtime, and the checks that look at a loaded graph."""
    manifest = bundle.manifest
    try:
        runner = runtime.open(context.path, manifest.inputs, manifest.outputs)
    except Missing as missing:
        return [Verdict(runtime.name, "agrees", "skip", str(missing))]
    except RunFailed as failed:
        return [Verdict(runtime.name, "agrees", "fail", str(failed))]
    context = replace(context, runtime=runtime, runner=runner)
    verdicts = run_checks(runtime.name, "runner", context)
    trials: list[Trial] = []
    refusals: list[Verdict] = []
    for spec, recorded in bundle.recorded():
        if spec.case.refused:
            refusals.append(refusal(runtime, runner, recorded))
        else:
            allowed = replace(spec, parity=spec.parity.loosened(context.artifact.parity))
            trials += try_case(runtime, runner, allowed, recorded, options)
    return [agreement(runtime, trials, len(manifest.trials) - len(refusals)), *verdicts, *_refusals(runtime, refusals)]


def try_case(runtime: Runtime, runner: Runner, spec: TrialSpec, recorded: Recorded, options: Options) -> list[Trial]:
    """Run one case and compare each output with the eager one and with the truth."""
    name = spec.case.name
    try:
        produced = runner.run(recorded.feeds)
    except RunFailed as failed:
        return [Trial(name, "", "eager", 0.0, 0.0, None, False, str(failed))]
    names = compare_names(set(produced), set(recorded.eager))
    if not names.passed:
        return [Trial(name, "", "eager", 0.0, 0.0, None, False, names.reason)]
    parity, error = options.tolerance(device_parity(spec, runtime.device)), options.tolerance(spec.error)
    trials = []
    for port in runner.outputs:
        expected, rows = recorded.eager[port.name], recorded.rows.get(port.name)
        actual = _sampled(port, produced[port.name], rows)
        trials.append(_trial(spec, (port, "eager"), measure(actual, expected), parity, rows))
        if port.name in recorded.truth:
            difference = measure(actual, recorded.truth[port.name])
            trials.append(_trial(spec, (port, "float64"), difference, error, rows))
    return trials


def device_parity(spec: TrialSpec, device: str) -> Tolerance:
    """Bits are promised on the CPU; elsewhere both sides may be off from the truth, each by as much as is allowed."""
    if device == "cpu" or not spec.parity.bits:
        return spec.parity
    allowed = spec.error
    return Tolerance(2 * allowed.atol, 2 * allowed.rtol, 2 * allowed.ulps, 2 * allowed.vector)


def _sampled(port: Port, array: Array, rows: Array | None) -> Array:
    """Sample an output as the recorded one was; an output too short for that is left whole, to be found so."""
    if rows is None or array.ndim != len(port.axes):
        return array
    axis = long_axis(port, array.shape)
    return array if array.shape[axis] <= int(rows.max()) else sample(array, rows, axis)


def _trial(
    spec: TrialSpec,
    what: tuple[Port, Literal["eager", "float64"]],
    difference: Difference,
    tolerance: Tolerance,
    rows: Array | None,
) -> Trial:
    judged: Judgement = judge(difference, tolerance)
    port, against = what
    worst = _position(port, difference, rows)
    return Trial(
        spec.case.name,
        port.name,
        against,
        difference.max_abs,
        difference.max_ulp,
        None if worst is None else spec.case.first + worst,
        judged.passed,
        judged.reason,
        difference.peak,
    )


def _position(port: Port, difference: Difference, rows: Array | None) -> int | None:
    """Return where along its long axis an output is off the most; None where it is off nowhere, or has no such axis."""
    error = difference.error
    if error is None or error.ndim < 2 or not difference.max_abs > 0:
        return None
    axis = long_axis(port, error.shape) if any(map(is_length, port.dynamic.values())) else error.ndim - 2
    index = difference.worst[axis]
    if rows is None:
        return index
    return int(rows[index]) if error.shape[axis] == len(rows) else None


def refusal(runtime: Runtime, runner: Runner, recorded: Recorded) -> Verdict:
    """Demand an error where a position is beyond what the graph holds."""
    case = recorded.case
    if runtime.device == "cuda" and {"start", "positions"} & set(recorded.feeds):
        return Verdict(
            runtime.name,
            "refusal",
            "skip",
            "CUDA reports no position out of range: ONNX Runtime gives zeros, PyTorch stops the device",
        )
    try:
        runner.run(recorded.feeds)
    except RunFailed as failed:
        return Verdict(runtime.name, "refusal", "pass", f"{case.name}: {failed}")
    if runtime.lenient:
        return Verdict(runtime.name, "refusal", "skip", runtime.lenient)
    return Verdict(runtime.name, "refusal", "fail", f"{case.name}: gave an answer, expected an error")


def _refusals(runtime: Runtime, verdicts: list[Verdict]) -> list[Verdict]:
    """Fold the refusals of a runtime into one row."""
    if not verdicts:
        return []
    for status in ("fail", "skip"):
        found = [v for v in verdicts if v.status == status]
        if found:
            return [found[0]]
    return [replace(verdicts[0], detail="; ".join(v.detail for v in verdicts))]


def agreement(runtime: Runtime, trials: list[Trial], cases: int) -> Verdict:
    """Fold the trials of a runtime into one row."""
    failed = [t for t in trials if not t.passed]
    if not trials:
        return Verdict(runtime.name, "agrees", "fail", "no case was run")
    if failed:
        first = failed[0]
        where = f"{first.output} against {first.against} in {first.case}" if first.output else first.case
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        return Verdict(runtime.name, "agrees", "fail", f"{where}: {first.reason}{more}", tuple(trials))
    return Verdict(runtime.name, "agrees", "pass", f"{cases} cases", tuple(trials))


def worst(trials: tuple[Trial, ...], against: str) -> Trial | None:
    """Return the trial with the largest error against the eager output or the truth; a NaN is the largest."""
    found = [t for t in trials if t.against == against]
    return max(found, key=lambda t: np.inf if np.isnan(t.max_abs) else t.max_abs, default=None)


def to_json(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as JSON values; a NaN error becomes null, as JSON has no word for it."""
    from dataclasses import asdict

    data = asdict(verdict)
    for trial in data["trials"]:
        for key in ("max_abs", "max_ulp", "peak"):
            trial[key] = trial[key] if np.isfinite(trial[key]) else None
    return data
