"""From a bundle to the rows of its report: every artifact on every runtime, from the golden data alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.golden import GOLDEN
from posenc_export.bundle.rules import rules_of
from posenc_export.common.arrays import free
from posenc_export.proof.checks import CHECKS, Check, Context, Stage
from posenc_export.proof.judging.by_position import JudgedOutput, curves_of
from posenc_export.proof.judging.call import compare_case
from posenc_export.proof.judging.context import Capture
from posenc_export.proof.judging.verdict import AGREES, MODEL, ValidateOptions, Verdict
from posenc_export.proof.running.integrity import UNKNOWN, integrity, integrity_beside, is_known, without_golden
from posenc_export.proof.running.model import SUBJECT, against_model, unasked
from posenc_export.proof.running.progress import begin, expect
from posenc_export.proof.running.refusals import folded, refusal
from posenc_export.proof.running.steps import NO_FILE, Step, rows_of
from posenc_export.proof.runtimes import NEEDS_TRUST, RUNTIMES, Missing, Progress, RunFailed, Runtime, TimedOut
from posenc_export.write.formats import runs_code


def validate_bundle(
    bundle: Bundle, options: ValidateOptions, captures: dict[str, Capture] | None = None
) -> list[Verdict]:
    """Run every check and every runtime on every artifact of a bundle; only a trusted bundle's code is run.

    Args:
        bundle: The opened bundle.
        options: Which runtimes, and how.
        captures: What the export saw of the module, by format, for a bundle that was just exported.
    """
    expect(options.progress, steps((artifact.format for artifact in bundle.manifest.artifacts), options))
    return [*rows_of(steps_of(bundle, options, captures or {}), partial(_spoken, options.progress))]


def _spoken(progress: Progress, step: Step) -> list[Verdict]:
    if step.text:
        progress(step.text)
    return step.run()


def steps_of(bundle: Bundle, options: ValidateOptions, captures: Mapping[str, Capture]) -> Iterator[Step]:
    """Yield every step of a validation: whether the model was asked, then file after file, then golden data."""
    RUNTIMES.names()  # registers them in the order of their files, before a check imports one of them
    beside = integrity_beside(bundle)
    moved = without_golden(beside)
    yield Step((NO_FILE, SUBJECT, MODEL), "", lambda: [*unasked(bundle.manifest)])
    for number, artifact in enumerate(bundle.manifest.artifacts):
        yield Step((number, artifact.format, "integrity"), "", partial(integrity, bundle, artifact))
        if artifact.format.endswith(".data"):
            continue
        if moved or not is_known(artifact.format):
            run = partial(not_looked_at, artifact.format, options, moved or UNKNOWN)
            yield Step((number, artifact.format, AGREES), "", run)
            continue
        context = Context(bundle.manifest, artifact, bundle.path(artifact), captures.get(artifact.format))
        context = replace(context, trusted=bundle.trusted, prove=options.prove, timeout=options.timeout)
        context = replace(context, elsewhere=bundle.folder if bundle.part else None)
        yield from _steps_of_checks(number, context)
        for runtime in chosen(artifact.format, options.chosen):
            run = partial(on_runtime, bundle, context, runtime, options)
            yield Step((number, runtime.name, AGREES), _running(artifact.file, runtime.name), run)
            free(artifact.bytes)  # the reference evaluator keeps itself, and a copy of the table, in a cycle
    yield Step((NO_FILE, GOLDEN, "integrity"), "", lambda: beside)


def not_looked_at(format_: str, options: ValidateOptions, reason: str) -> list[Verdict]:
    """Return rows that say why no runtime ran a file although it is the exported one."""
    runtimes = [runtime.name for runtime in chosen(format_, options.chosen)]
    return [Verdict(name, AGREES, "skip", reason) for name in (runtimes if is_known(format_) else [format_])]


def _steps_of_checks(number: int, context: Context) -> Iterator[Step]:
    """Yield the checks of a file; where it was just exported, checks of the export come first."""
    artifact = context.artifact
    stages: tuple[Stage, ...] = ("capture", "artifact") if context.capture else ("artifact",)
    for check in (check for stage in stages for check in checks_of(artifact.format, stage)):
        run = partial(_run_check, check, artifact.format, context)
        yield Step((number, artifact.format, check.name), f"checking {artifact.file}", run)


def steps(formats: Iterable[str], options: ValidateOptions) -> int:
    """Return how many steps files of these formats have: one a file, and one a runtime that reads it."""
    graphs = [format_ for format_ in formats if not format_.endswith(".data")]
    return len(graphs) + sum(len(list(chosen(format_, options.chosen))) for format_ in graphs)


def chosen(format_: str, names: tuple[str, ...]) -> Iterator[Runtime]:
    """Yield the runtimes that read a format, among those named, or among all."""
    for runtime in RUNTIMES.values():
        if runtime.format == format_ and (not names or runtime.name in names):
            yield runtime


def checks_of(subject: str, stage: Stage) -> list[Check]:
    """Return the checks of a stage that look at a format or a runtime."""
    return [
        check for check in CHECKS.values() if check.stage == stage and (not check.subjects or subject in check.subjects)
    ]


def run_checks(subject: str, stage: Stage, context: Context) -> list[Verdict]:
    """Run the checks of a stage on a format or a runtime, and return their rows."""
    return [row for check in checks_of(subject, stage) for row in _run_check(check, subject, context)]


def _run_check(check: Check, subject: str, context: Context) -> list[Verdict]:
    """Return the row of a check, or no row where it does not apply to the file."""
    if not check.applies(context):
        return []
    if check.stage == "artifact" and not context.trusted and runs_code(context.artifact.format):
        return [Verdict(subject, check.name, "skip", NEEDS_TRUST)]
    return [check.verdict(subject, context)]


def on_runtime(bundle: Bundle, context: Context, runtime: Runtime, options: ValidateOptions) -> list[Verdict]:
    """Run every case on one runtime that runs graphs, and the checks that look at a loaded graph."""
    if runtime.slow and not options.asks_for(runtime.name):
        return [Verdict(runtime.name, AGREES, "skip", runtime.left_out())]
    begin(options.progress, AGREES, f"loading {context.path.name}")
    try:
        runner = replace(runtime.open(context.path, bundle.manifest, bundle.trusted), limit=options.timeout)
    except Missing as missing:
        return [Verdict(runtime.name, AGREES, "skip", str(missing))]
    except RunFailed as failure:
        return [Verdict(runtime.name, AGREES, "fail", str(failure))]
    # checks of a loaded graph come before its cases: a case may be the last thing that it does
    context = replace(context, runtime=runtime, runner=runner, named=options.names(runtime.name))
    verdicts = []
    for check in checks_of(runtime.name, "runner"):
        begin(options.progress, check.name)
        verdicts += _run_check(check, runtime.name, replace(context, tell=partial(begin, options.progress, check.name)))
    return [*(_tried(bundle, context, options) if runtime.runs else ()), *verdicts]


def _tried(bundle: Bundle, context: Context, options: ValidateOptions) -> Iterator[Verdict]:
    """Yield the rows on what a loaded graph answers and refuses; a case without an answer in time is the last one."""
    runner, runtime = context.loaded
    measured: list[JudgedOutput] = []
    refusals: list[Verdict] = []
    asks_eager = not rules_of(bundle.manifest.family).known_refusals
    for number, golden in enumerate(bundle.golden(), 1):
        options.progress(f"{_running(context.path.name, runtime.name)}: call {number} of {len(bundle.manifest.cases)}")
        # such a runtime takes sizes instead of shapes: inputs cannot be unlike
        if golden.case.unlike and runtime.one_size:
            continue
        begin(options.progress, AGREES, golden.case.name)
        try:
            if golden.case.refused:
                refusals.append(
                    refusal(
                        runtime,
                        runner,
                        golden,
                        own=bool(bundle.manifest.foreign) or asks_eager,
                        checked=bundle.manifest.check_positions,
                    )
                )
            else:
                measured += compare_case(context, golden, options)
        except TimedOut as late:
            tried = tuple(output.comparison for output in measured)
            yield Verdict(
                runtime.name, AGREES, "fail", f"{golden.case.name}: {late}", tried, curves=curves_of(measured)
            )
            return
    of_model = [output.comparison for output in measured if output.comparison.against == MODEL]
    others = [output for output in measured if output.comparison.against != MODEL]
    yield agreement(runtime, others, sum(not case.refused for case in bundle.manifest.cases))
    if bundle.manifest.model is not None:
        yield from against_model(runtime.name, bundle.manifest.model, of_model)
    yield from folded(refusals)


def _running(file: str, runtime: str) -> str:
    """Return the text of a step, which is also how each of its calls begins."""
    return f"running {file} on {runtime}"


def agreement(runtime: Runtime, measured: list[JudgedOutput], cases: int) -> Verdict:
    """Fold the comparisons of a runtime into one row."""
    if not measured:
        return Verdict(runtime.name, AGREES, "fail", "no case was run")
    comparisons = tuple(output.comparison for output in measured)
    wrong, curves = [comparison for comparison in comparisons if not comparison.passed], curves_of(measured)
    if not wrong:
        return Verdict(runtime.name, AGREES, "pass", f"{cases} cases", comparisons, curves=curves)
    first, more = wrong[0], f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    where = f"{first.output} against {first.against} in {first.case}" if first.output else first.case
    return Verdict(runtime.name, AGREES, "fail", f"{where}: {first.reason}{more}", comparisons, curves=curves)
