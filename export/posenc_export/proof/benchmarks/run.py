"""How long a graph takes, beside a copy of what it writes and the plain export of a Sin/Cos module, in one run."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from posenc.scheme import SCHEMES
from posenc.spec import Spec
from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.manifest import Manifest
from posenc_export.bundle.paths import native_path
from posenc_export.common.errors import BadInput, bad_input
from posenc_export.proof.benchmarks import BenchOptions, BenchResult, LengthResult
from posenc_export.proof.benchmarks.baselines import Baseline, baseline_of
from posenc_export.proof.benchmarks.contenders import BASELINE, COPY, ONE_OP, Contender, contenders_in, not_run
from posenc_export.proof.benchmarks.lengths import lengths_of
from posenc_export.proof.benchmarks.workers import workers
from posenc_export.proof.exporter import ExportOptions, write_bundle
from posenc_export.proof.exporter.options import check_options
from posenc_export.proof.exporter.settings import with_fields
from posenc_export.proof.judging.verdict import ValidateOptions
from posenc_export.proof.running.integrity import integrity_of_all
from posenc_export.proof.running.progress import keep
from posenc_export.proof.runtimes import RUNTIMES, Progress
from posenc_export.proof.runtimes.requests import check_trusted, prepare
from posenc_export.write.formats import FORMATS
from posenc_export.write.targets import Target
from posenc_export.write.targets.module import module_target


def bench_target(make: Callable[[], Target], options: ExportOptions, timing: BenchOptions) -> BenchResult:
    """Export the target that `make` returns to a scratch folder, and time it at every length.

    The options opset, rotary_op, seed and progress count; formats are the ones that the runtimes read, and nothing is
    validated. Raises BadInput, in one line, where nothing can be timed.
    """
    progress = options.validation.progress
    _prepare(timing, progress)
    options = _scratch_options(options, formats_read(timing))
    check_options(options)
    with _exported(make, options) as folder:
        return _bench(Bundle.open(folder, trusted=True), timing, progress)


def bench_folder(folder: Path, timing: BenchOptions, progress: Progress, trust: bool = False) -> BenchResult:
    """Time a bundle at every length; raise BadInput, in one line, where nothing can be timed.

    Args:
        trust: whether code in it may be run; where not, naming a runtime that does raises BadInput.
    """
    bundle = Bundle.open(folder, trust)
    if not trust:
        check_trusted(timing.runtimes, ())
    for verdict in integrity_of_all(bundle):
        if verdict.status == "fail":
            raise BadInput(f"{folder} is damaged: {verdict.detail}; get it again")
    _prepare(timing, progress)
    with native_path(folder) as place:
        return _bench(replace(bundle, folder=place), timing, progress)


def check_no_folder(source: object) -> None:
    """Raise BadInput for a folder's name in a text: texts name schemes and modules."""
    is_name = not isinstance(source, str) or ":" in source or source in SCHEMES.names()
    if not is_name and Path(str(source)).is_dir():
        raise BadInput(f"{source!r} is a folder: give a bundle as pathlib.Path({source!r})")


def progress_of_bundle(options: ValidateOptions, settings: Mapping[str, object]) -> Progress:
    """Return the display of progress; raise BadInput for any other setting: a bundle is timed as it is."""
    wrong = next((name for name in settings if name != "progress"), None)
    if wrong is not None:
        raise BadInput(f"{wrong} is for a scheme: a bundle is timed as it was written")
    return with_fields(options, settings).progress


def formats_read(timing: BenchOptions) -> tuple[str, ...]:
    """Return the formats that the runtimes read; without names, those that are quickly written."""
    read = {RUNTIMES[name].format for name in timing.runtimes}
    return tuple(f.name for f in FORMATS.values() if (f.name in read if read else not f.note))


def _prepare(timing: BenchOptions, progress: Progress) -> None:
    with bad_input():
        for name in timing.runtimes:
            if not RUNTIMES[name].runs:
                raise BadInput(f"{name} runs no graph: there is nothing to time")
    prepare(timing.runtimes, (), progress)


def _bench(bundle: Bundle, timing: BenchOptions, progress: Progress) -> BenchResult:
    manifest = bundle.manifest
    lengths = lengths_of(manifest, timing)
    ours, unrun = contenders_in(bundle, "", timing.runtimes), not_run(bundle, timing.runtimes)
    if not ours:
        raise BadInput("; ".join(["none of the runtimes reads what was exported and can run here", *unrun]))
    with _baselines(manifest, ours, max(lengths), progress) as theirs:
        contenders = [*ours, *theirs, Contender(COPY, None, bundle.folder, bundle.trusted)]
        times = tuple(_at_length(contenders, length, timing, progress) for length in lengths)
    return BenchResult(manifest.scheme, manifest.mode, manifest.method, timing.batch, times, unrun)


# ---- exported to scratch folders -------------------------------------------------------------------------------------


def _scratch_options(options: ExportOptions, formats: tuple[str, ...]) -> ExportOptions:
    """Return options that write formats and validate nothing."""
    return ExportOptions(
        formats,
        options.opset,
        options.rotary_op if "onnx" in formats else "decomposed",
        options.check_positions and "onnx" in formats,
        options.seed,
        validate=False,
        validation=ValidateOptions(progress=options.validation.progress),
    )


@contextmanager
def _exported(make: Callable[[], Target], options: ExportOptions) -> Iterator[Path]:
    """Yield a scratch folder with the bundle of a target, in the formats that it has."""
    options.validation.progress("exporting")
    with TemporaryDirectory(prefix="posenc-bench-") as folder:
        target = make()
        formats = tuple(name for name in options.formats if _can_be(target, name))
        write_bundle(target, replace(options, formats=formats), Path(folder))
        # a table need not stay in memory while it is timed
        del target
        yield Path(folder)


def _can_be(target: Target, format_: str) -> bool:
    refused = SCHEMES[target.name].unsupported.formats if target.rules.registered else {}
    return format_ not in refused and not FORMATS[format_].refuses(target.encoding)


@contextmanager
def _baselines(
    manifest: Manifest, ours: Sequence[Contender], max_length: int, progress: Progress
) -> Iterator[list[Contender]]:
    """Yield the usual module, exported, and one operator with a baked cache, where they do what the encoding does."""
    runtimes = [c.runtime for c in ours if c.runtime and RUNTIMES[c.runtime].format == "onnx"]
    baseline = baseline_of(manifest) if runtimes else None
    if baseline is None:
        yield []
        return
    options = _scratch_options(ExportOptions(validation=ValidateOptions(progress=progress)), ("onnx",))
    with _exported(lambda: _baseline_target(baseline, manifest), options) as folder, ExitStack() as stack:
        bundle = Bundle.open(folder, trusted=True)
        contenders = contenders_in(bundle, BASELINE, runtimes)
        if baseline.write_one_op is not None:
            scratch = Path(stack.enter_context(TemporaryDirectory(prefix="posenc-bench-")))
            beside = shutil.copytree(folder, scratch / "one-op")
            outputs = bundle.manifest.outputs  # the copy's manifest names them so
            baseline.write_one_op(replace(manifest, outputs=outputs), max_length, beside / FORMATS["onnx"].file)
            contenders += contenders_in(replace(bundle, folder=beside), ONE_OP, runtimes)
        yield contenders


def _baseline_target(baseline: Baseline, manifest: Manifest) -> Target:
    spec = Spec(mode="dynamic", max_len=64)
    return module_target(baseline.module, manifest.inputs, spec, baseline.parameters, 0)


# ---- timed -----------------------------------------------------------------------------------------------------------


def _at_length(contenders: Sequence[Contender], length: int, timing: BenchOptions, progress: Progress) -> LengthResult:
    """Time contenders at one length, in rounds."""
    times: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    with workers(contenders, length, timing) as rounds:
        # contenders take turns, so that a slow moment of the machine hits all of them
        for i in range(timing.rounds):
            for name, time_a_round in rounds.items():
                progress(f"length {length}, round {i + 1} of {timing.rounds}: {name}")
                times[name].append(time_a_round())
                if i + 1 == timing.rounds:
                    keep(progress, f"length {length}: {name}: {1e3 * np.median(times[name]):.3f} ms")
    return compared(length, {name: float(np.median(values)) for name, values in times.items()})


def compared(length: int, medians: Mapping[str, float]) -> LengthResult:
    """Return the times of each contender in milliseconds, and against a copy and the baselines."""
    return LengthResult(
        length,
        milliseconds={name: 1e3 * seconds for name, seconds in medians.items()},
        times_a_copy={name: seconds / medians[COPY] for name, seconds in medians.items() if name != COPY},
        faster_than_baseline=_faster_than(BASELINE, medians),
        faster_than_one_op=_faster_than(ONE_OP, medians),
    )


def _faster_than(prefix: str, medians: Mapping[str, float]) -> dict[str, float]:
    usual = {name.removeprefix(prefix): seconds for name, seconds in medians.items() if name.startswith(prefix)}
    return {name: usual[name] / seconds for name, seconds in medians.items() if name in usual}
