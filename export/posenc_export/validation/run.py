"""From a bundle to verdicts: every artifact on every runtime, from the golden data alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from posenc.ports import LOOKED_UP, carrying, is_strict
from posenc_export.arrays import free
from posenc_export.bundle.case import GoldenCase
from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.paths import native_path
from posenc_export.formats import runs_code
from posenc_export.runtimes import (
    NEEDS_TRUST,
    RUNTIMES,
    Missing,
    RunFailed,
    Runner,
    Runtime,
    TimedOut,
    check_readable,
    check_trusted,
    prepare,
)
from posenc_export.validation.basis import basis_of
from posenc_export.validation.call import compare_case
from posenc_export.validation.checks import CHECKS, Capture, Context, Stage
from posenc_export.validation.integrity import (
    UNKNOWN,
    check_known,
    integrity,
    integrity_beside,
    is_known,
    without_golden,
)
from posenc_export.validation.model import against_model, check_has_model, unasked
from posenc_export.validation.progress import expect
from posenc_export.validation.result import ValidateResult
from posenc_export.validation.unlike import answered_all_the_same, fold_notes
from posenc_export.validation.verdict import MODEL, Comparison, ValidateOptions, Verdict, unmet

CUDA_REFUSES_NOTHING = "CUDA reports no position out of range: ONNX Runtime gives zeros, PyTorch stops the device"


def validate_bundle(
    bundle: Bundle, options: ValidateOptions, captures: dict[str, Capture] | None = None
) -> list[Verdict]:
    """Run every check and every runtime on every artifact of a bundle; code in it only where it is trusted.

    captures: what its export saw of the module, by format, if it has just been exported.
    """
    verdicts: list[Verdict] = []
    expect(options.progress, steps((artifact.format for artifact in bundle.manifest.artifacts), options))
    verdicts += unasked(bundle.manifest)
    beside = integrity_beside(bundle)
    moved = without_golden(beside)
    for artifact in bundle.manifest.artifacts:
        verdicts.append(integrity(bundle, artifact))
        if verdicts[-1].status == "fail" or artifact.format.endswith(".data"):
            continue
        if moved or not is_known(artifact.format):
            verdicts += not_looked_at(artifact.format, options, moved or UNKNOWN)
            continue
        capture = (captures or {}).get(artifact.format)
        context = Context(bundle.manifest, artifact, bundle.path(artifact), capture)
        context = replace(context, trusted=bundle.trusted, prove=options.prove, timeout=options.timeout)
        options.progress(f"checking {artifact.file}")
        verdicts += run_checks(artifact.format, "capture", context) if context.capture else []
        verdicts += run_checks(artifact.format, "artifact", context)
        for runtime in chosen(artifact.format, options.chosen):
            options.progress(f"running {artifact.file} on {runtime.name}")
            verdicts += on_runtime(bundle, context, runtime, options)
            free(artifact.bytes)  # the reference evaluator keeps itself, and a copy of the table, in a cycle
    return [*verdicts, *beside]


def not_looked_at(format_: str, options: ValidateOptions, reason: str) -> list[Verdict]:
    """Return rows that say why no runtime ran a file, though it is the one that was exported."""
    runtimes = [runtime.name for runtime in chosen(format_, options.chosen)]
    return [Verdict(name, "agrees", "skip", reason) for name in (runtimes if is_known(format_) else [format_])]


def steps(formats: Iterable[str], options: ValidateOptions) -> int:
    """Return how many steps the validation of files of these formats has: one for each, and one for each runtime."""
    graphs = [format_ for format_ in formats if not format_.endswith(".data")]
    return len(graphs) + sum(len(list(chosen(format_, options.runtimes))) for format_ in graphs)


def validate_folder(folder: Path, options: ValidateOptions, trust: bool = False) -> ValidateResult:
    """Open a bundle and run everything on it; raise Unavailable where a required runtime cannot run here.

    trust: whether code in it may be run; where not, naming a runtime that does raises BadInput.
    """
    bundle = Bundle.open(folder, trust)
    formats = [artifact.format for artifact in bundle.manifest.artifacts]
    check_known(formats)
    check_readable("--runtime", options.runtimes, formats)
    check_readable("--require", options.required_runtimes, formats)
    check_has_model(options.require, bundle.manifest.model is not None)
    if not trust:
        check_trusted(options.runtimes, options.required_runtimes)
    prepare(options.runtimes, options.required_runtimes, options.progress)
    with native_path(folder) as place:
        verdicts = validate_bundle(replace(bundle, folder=place), options)
    basis = basis_of(folder, options)
    return ValidateResult(bundle.manifest, tuple(verdicts), basis, tuple(unmet(verdicts, options.require)))


def chosen(format_: str, names: tuple[str, ...]) -> Iterator[Runtime]:
    """Yield the runtimes that read a format, of those named, or of all."""
    for runtime in RUNTIMES.values():
        if runtime.format == format_ and (not names or runtime.name in names):
            yield runtime


def run_checks(subject: str, stage: Stage, context: Context) -> list[Verdict]:
    """Run the checks of a stage on a format or a runtime, and return their rows."""
    verdicts = []
    for check in CHECKS.values():
        if check.stage != stage or (check.of and subject not in check.of) or not check.applies(context):
            continue
        if stage == "artifact" and not context.trusted and runs_code(context.artifact.format):
            verdicts.append(Verdict(subject, check.name, "skip", NEEDS_TRUST))
            continue
        verdicts.append(check.verdict(subject, context))
    return verdicts


def on_runtime(bundle: Bundle, context: Context, runtime: Runtime, options: ValidateOptions) -> list[Verdict]:
    """Run every case on one runtime, and the checks that look at a loaded graph."""
    if runtime.slow and not options.asks_for(runtime.name):
        return [Verdict(runtime.name, "agrees", "skip", runtime.left_out())]
    try:
        runner = replace(runtime.open(context.path, bundle.manifest, bundle.trusted), limit=options.timeout)
    except Missing as missing:
        return [Verdict(runtime.name, "agrees", "skip", str(missing))]
    except RunFailed as failure:
        return [Verdict(runtime.name, "agrees", "fail", str(failure))]
    context = replace(context, runtime=runtime, runner=runner)
    verdicts = run_checks(runtime.name, "runner", context)
    return [*_tried(bundle, context, options), *verdicts]


def _tried(bundle: Bundle, context: Context, options: ValidateOptions) -> Iterator[Verdict]:
    """Yield how a loaded graph agrees, and what it refuses; after a case without an answer none is tried."""
    runner, runtime = context.loaded
    comparisons: list[Comparison] = []
    refusals: list[Verdict] = []
    for golden in bundle.golden():
        if golden.case.unlike and runtime.one_size:
            continue
        try:
            if golden.case.refused:
                refusals.append(refusal(runtime, runner, golden, own=bundle.manifest.family == "module"))
            else:
                comparisons += compare_case(context, golden, options)
        except TimedOut as late:
            yield Verdict(runtime.name, "agrees", "fail", f"{golden.case.name}: {late}", tuple(comparisons))
            return
    of_model = [comparison for comparison in comparisons if comparison.against == MODEL]
    others = [comparison for comparison in comparisons if comparison.against != MODEL]
    yield agreement(runtime, others, sum(not case.refused for case in bundle.manifest.cases))
    if bundle.manifest.model is not None:
        yield from against_model(runtime.name, bundle.manifest.model, of_model)
    notes = [verdict for verdict in refusals if verdict.note]
    yield from fold_notes(notes, _folded_refusals([verdict for verdict in refusals if not verdict.note]))


def refusal(runtime: Runtime, runner: Runner, golden: GoldenCase, own: bool = False) -> Verdict:
    """Demand an error where a position is beyond what the graph holds, or an input is longer than another.

    own: whether the graph is of a user's module, of which that is a note: ONNX repeats one token for several.
    """
    case = golden.case
    looked_up = not case.unlike and carrying(runner.inputs, *LOOKED_UP)
    if runtime.device == "cuda" and (looked_up or any(is_strict(port) and not case.unlike for port in runner.inputs)):
        return Verdict(runtime.name, "refusal", "skip", CUDA_REFUSES_NOTHING)
    try:
        runner.answer(golden.feeds) if case.unlike else runner.run(golden.feeds)
    except RunFailed as failure:
        return Verdict(runtime.name, "refusal", "pass", f"{case.name}: {failure}")
    if runtime.lenient:
        return Verdict(runtime.name, "refusal", "skip", runtime.lenient)
    if own and case.unlike:
        return answered_all_the_same(runtime.name, case)
    return Verdict(runtime.name, "refusal", "fail", f"{case.name}: gave an answer, expected an error")


def _folded_refusals(verdicts: list[Verdict]) -> list[Verdict]:
    """Return one row for the refusals of a runtime: the first that failed, else the first not run, else all in one."""
    if not verdicts:
        return []
    for status in ("fail", "skip"):
        of_status = [v for v in verdicts if v.status == status]
        if of_status:
            return [of_status[0]]
    return [replace(verdicts[0], detail="; ".join(v.detail for v in verdicts))]


def agreement(runtime: Runtime, comparisons: list[Comparison], cases: int) -> Verdict:
    """Fold the comparisons of a runtime into one row."""
    wrong = [c for c in comparisons if not c.passed]
    if not comparisons:
        return Verdict(runtime.name, "agrees", "fail", "no case was run")
    if wrong:
        first = wrong[0]
        where = f"{first.output} against {first.against} in {first.case}" if first.output else first.case
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        return Verdict(runtime.name, "agrees", "fail", f"{where}: {first.reason}{more}", tuple(comparisons))
    return Verdict(runtime.name, "agrees", "pass", f"{cases} cases", tuple(comparisons))
