"""Make each bundle, run it on every runtime of the device, replay it from the C++ class, and time some."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from posenc.spec import Spec
from posenc_export.bundle.folder import Bundle
from posenc_export.common.errors import PosencError
from posenc_export.proof.benchmarks import BenchOptions
from posenc_export.proof.benchmarks.run import bench_target
from posenc_export.proof.cuda.plan import BOTH, MAX_LEN, BundlePlan, runtimes_of
from posenc_export.proof.exporter import ExportOptions, write_bundle
from posenc_export.proof.exporter.embedding import embedded
from posenc_export.proof.judging.verdict import Status, ValidateOptions, Verdict
from posenc_export.proof.running.run import validate_bundle
from posenc_export.proof.runtimes import RUNTIMES, Missing, Progress
from posenc_export.proof.runtimes.cpp import environment
from posenc_export.proof.runtimes.runner_build import BuildFailed, build
from posenc_export.write.cpp.embed import NAME
from posenc_export.write.formats import FORMATS
from posenc_export.write.targets import Target
from posenc_export.write.targets.scheme import scheme_target

BACKENDS = {"onnx": "onnx", "torchscript": "torch"}
"""Formats that the C++ class runs, and what CMake calls the library that does."""
LENGTHS = (512, 2048, 8192)
TIMED = (
    BundlePlan("sinusoidal", Spec("dynamic", max_len=max(LENGTHS)), {"d_model": 512}, ("onnx",)),
    BundlePlan("rope", Spec("dynamic", max_len=max(LENGTHS)), {"head_dim": 128}, ("onnx",)),
)
"""Encodings at a size that models have, timed on ONNX Runtime."""
EMBEDDED = (
    BundlePlan("sinusoidal", Spec("dynamic", positions="offset", max_len=MAX_LEN), {"d_model": 16}, BOTH),
    BundlePlan("rope", Spec("dynamic", max_len=MAX_LEN), {"head_dim": 16}, BOTH),
)
"""Encodings whose C++ class is built."""


@dataclass(frozen=True)
class CudaProof:
    """A verdict on a bundle; its subject names the runtime, or the class, that was tried."""

    plan: BundlePlan
    verdict: Verdict


def prove(plans: Iterable[BundlePlan], device: str, progress: Progress) -> Iterator[CudaProof]:
    """Export each bundle that is planned and run it on every runtime of a device; yield a proof for each verdict."""
    for plan in plans:
        progress(f"{plan}: exporting")
        with TemporaryDirectory(prefix="posenc-cuda-") as scratch:
            bundle = exported(plan, Path(scratch))
            options = ValidateOptions(runtimes=tuple(runtimes_of(device, plan.formats)))
            progress(f"{plan}: running")
            for verdict in validate_bundle(bundle, options):
                if verdict.subject in options.runtimes or verdict.status == "fail":
                    yield CudaProof(plan, verdict)


def exported(plan: BundlePlan, folder: Path) -> Bundle:
    """Write the bundle that is planned into a folder, unproved."""
    options = ExportOptions(plan.formats, plan.opset, plan.rotary_op, validate=False)
    write_bundle(_target(plan), options, folder)
    return Bundle.open(folder, trusted=True)


# ---- the C++ class ---------------------------------------------------------------------------------------------------


def prove_class(plan: BundlePlan, device: str, progress: Progress) -> Iterator[CudaProof]:
    """Build the C++ class of a bundle with each library, and replay its cases from host and from device memory."""
    with TemporaryDirectory(prefix="posenc-cuda-") as scratch:
        bundle = exported(plan, Path(scratch))
        embedded(bundle, plan.scheme)
        for format_, backend in BACKENDS.items():
            by = f"posenc::{plan.scheme}::Model ({backend}), Device::{device}"
            progress(f"{plan}: building {by}")
            reason = _why_not(format_, device)
            verdict = Verdict(by, "replay", "skip", reason) if reason else _replayed(bundle, by, format_, device)
            yield CudaProof(plan, verdict)


def _why_not(format_: str, device: str) -> str:
    """Return why the library that runs a format cannot use a device here; an empty text where it can."""
    # the Python runtime of a format needs the same library
    runtime = next(r for r in RUNTIMES.values() if r.format == format_ and r.device == device)
    try:
        runtime.check()
    except Missing as missing:
        return str(missing)
    return ""


def _replayed(bundle: Bundle, by: str, format_: str, device: str) -> Verdict:
    """Build the folder of the class, and replay every golden case: Memory::host, then Memory::device."""
    sources = bundle.folder / NAME
    folder = sources / f"build-{format_}"
    folder.mkdir()
    try:
        build(sources, folder, {"POSENC_BACKEND": BACKENDS[format_]})
    except BuildFailed as failed:
        return Verdict(by, "replay", "skip", f"not built: {failed}")
    words = [str(folder / "replay"), str(bundle.folder / FORMATS[format_].file), device, str(sources / "golden")]
    done = subprocess.run(
        words, capture_output=True, encoding="utf-8", errors="replace", check=False, env=environment(device)
    )
    return judged(by, done.returncode, done.stdout, done.stderr)


def judged(by: str, status: int, printed: str, errors: str) -> Verdict:
    """Return the verdict of a replay from its output; a line "not run" keeps it from passing."""
    lines = printed.splitlines()
    # the replay prints a line for each memory: FAIL ..., not run ..., or a count
    missing = next((line.removeprefix("not run").strip() for line in lines if line.startswith("not run")), "")
    wrong = next((line.removeprefix("FAIL").strip() for line in lines if line.startswith("FAIL")), errors.strip())
    outcome: Status = "fail" if status else "skip" if missing else "pass"
    last = lines[-1] if lines else ""
    return Verdict(by, "replay, host and device memory", outcome, wrong if status else missing or last)


# ---- times -----------------------------------------------------------------------------------------------------------


def timed(plan: BundlePlan, device: str, progress: Progress) -> Iterator[CudaProof]:
    """Time a bundle on ONNX Runtime, its tensors on the device, against its baseline."""
    runtime = next(r.name for r in RUNTIMES.values() if r.format == "onnx" and r.device == device)
    options = ExportOptions(validation=ValidateOptions(progress=progress))
    try:
        result = bench_target(partial(_target, plan), options, BenchOptions(LENGTHS, runtimes=(runtime,)))
    except PosencError as error:
        yield CudaProof(plan, Verdict(runtime, "time", "skip", error.message))
        return
    for times in result.lengths:
        ratio = times.faster_than_baseline.get(runtime)
        faster = f", {ratio:.2f}x as fast as the baseline" if ratio else ""
        detail = f"{times.milliseconds[runtime]:.3f} ms{faster}"
        yield CudaProof(plan, Verdict(f"{runtime}, {times.length} long", "time", "pass", detail))


def _target(plan: BundlePlan) -> Target:
    return scheme_target(plan.scheme, plan.spec, plan.params, 0)
