"""From a subject to a bundle on disk, with its verdicts."""

from __future__ import annotations

import gc
import json
import platform
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from posenc.scheme import SCHEMES, Encoding, Form, Port, Tolerance, eps
from posenc_export.arrays import FLOATS, Array, to_torch
from posenc_export.bundle.folder import (
    MANIFEST,
    Artifact,
    Bundle,
    Manifest,
    TrialSpec,
    check_target,
    install,
    sha256,
    staged,
    write_golden,
    write_json,
)
from posenc_export.cpp.embed import check_embeddable, write_cpp
from posenc_export.errors import BadInput, first_line
from posenc_export.formats import DEFAULT_OPSET, FORMATS, Request
from posenc_export.formats.onnx import MAX_IR_VERSION
from posenc_export.formats.onnx.rotary_op import RotaryOp, fused_parity
from posenc_export.targets.module import Subject, run_eager
from posenc_export.validation.checks import Source, changes, fingerprint
from posenc_export.validation.compare import measure
from posenc_export.validation.plan import Case, Recorded, feeds_for, long_axis, plan, sample, sampled, trace_sizes
from posenc_export.validation.report import write_report
from posenc_export.validation.run import Options, Verdict, validate

SCRATCH = "first"
SHORTEST = 3
"""The least max_len that leaves torch.export, which takes a length to be at least 2, something to vary."""
OWN_ERRORS, OWN_EPS = 4, 16
"""A user's graph may differ from its eager module by 4 times what that is off from float64, and 16 eps of the peak."""
PACKAGES = ("posenc-export", "torch", "onnx", "onnxscript", "onnxruntime-gpu", "onnxruntime", "numpy")


@dataclass(frozen=True)
class Order:
    """What to write: formats, opset, seed of random numbers; whether to validate and how; whether for C++ too."""

    formats: tuple[str, ...] = ("onnx", "torchscript")
    opset: int = DEFAULT_OPSET
    rotary_op: RotaryOp = "decomposed"
    seed: int = 0
    validate: bool = True
    cpp: bool = False
    options: Options = field(default_factory=Options)


@dataclass(frozen=True)
class Outcome:
    """Where a bundle went, and what was found."""

    folder: Path
    manifest: Manifest
    verdicts: tuple[Verdict, ...]

    @property
    def failed(self) -> bool:
        """Whether anything that could run disagreed or failed a check."""
        return any(v.status == "fail" for v in self.verdicts)


def export(make: Callable[[], Subject], order: Order, target: Path | None = None) -> Outcome:
    """Export the subject that `make` returns to a bundle at `target`, or at its default place, and validate it.

    A bundle that fails goes to TARGET-failed, so that it can be looked at and nobody takes it for a good one; one that
    was at `target` stays. Raises ExportFailed where there is no graph to write. (A subject handed over ready would be
    kept alive by the caller: with its table, as large as everything that validation needs.)
    """
    subject = make()
    target = target or Path(subject.folder)
    check_target(target)
    with staged(target) as scratch:
        manifest, sources = write(subject, order, scratch)
        del subject  # from here on the bundle speaks for itself
        gc.collect()
        bundle = Bundle.open(scratch)
        if order.cpp:
            write_cpp(bundle)
        verdicts = validate(bundle, order.options, sources) if order.validate else []
        outcome = Outcome(target, manifest, tuple(verdicts))
        if outcome.failed:
            outcome = replace(outcome, folder=target.with_name(f"{target.name}-failed"))
        write_report(scratch, outcome.manifest, outcome.verdicts)
        order.options.progress(f"writing {outcome.folder}")
        install(scratch, outcome.folder)
    return outcome


def write(subject: Subject, order: Order, folder: Path) -> tuple[Manifest, dict[str, Source]]:
    """Write the artifacts, golden data and manifest of a subject; return the manifest and what its export showed.

    An order to validate exports again after the calls at other lengths, to see whether they changed anything: that is
    then what is validated. One that is not shows nothing.
    """
    encoding = subject.encoding
    request, trace = _request(subject, order)
    scratch = folder / SCRATCH
    first = _write_formats(subject, request, order, scratch if order.validate else folder)
    state = fingerprint(encoding.module)
    order.options.progress("recording the eager outputs and the truth")
    trials, recorded = record(subject, plan(encoding, trace, request.longest), order.seed)
    sources: dict[str, Source] = {}
    if order.validate:
        changed = changes(state, fingerprint(encoding.module))
        second = _write_formats(subject, request, order, folder)
        third = second if second == first else _write_formats(subject, request, order, scratch)
        shutil.rmtree(scratch)
        sources = {n: Source(second[n] == third[n], first[n] == second[n], changed) for n in order.formats}
    facts = metadata(subject, worst_error(recorded))
    for name in order.formats:
        FORMATS[name].stamp(folder / FORMATS[name].file, facts)
    write_golden(folder, recorded)
    manifest = _manifest(subject, order, tuple(trials), trace, folder)
    write_json(folder / MANIFEST, manifest.to_json())
    return manifest, sources


def _request(subject: Subject, order: Order) -> tuple[Request, Mapping[str, int]]:
    """Return what formats are asked for, and the sizes to trace with; refuse what cannot be written."""
    encoding = subject.encoding
    for name in order.formats:
        _refuse_unsupported(subject, name)
    if order.rotary_op != "decomposed" and subject.form.dtype == "fp64":
        raise BadInput(f"--rotary-op {order.rotary_op} has no fp64: expected fp32, fp16 or bf16")
    if order.cpp:
        check_embeddable(encoding.inputs, encoding.outputs)
    longest = subject.form.max_len
    if encoding.limit is not None and longest > encoding.limit:
        raise BadInput(
            f"max_len must be at most the {encoding.limit} positions that {subject.name} reaches, got {longest}"
        )
    reach = (encoding.limit or max(longest, 64)) if subject.declared else longest
    trace = trace_sizes(encoding, dims_of(encoding), reach)
    if trace and reach < SHORTEST:
        raise BadInput(f"max_len {longest} leaves no length to vary: give --max-len {SHORTEST} or more")
    tracing = feeds_for(encoding.inputs, Case("trace", trace), order.seed)
    tensors = tuple(to_torch(tracing[p.name]) for p in encoding.inputs)
    return Request(tensors, longest, order.opset, order.rotary_op), trace


def _write_formats(subject: Subject, request: Request, order: Order, folder: Path) -> dict[str, Mapping[str, bytes]]:
    """Write every format into a folder; return what must be the same each time."""
    folder.mkdir(exist_ok=True)
    contents = {}
    for name in order.formats:
        order.options.progress(f"exporting {name}" + (f": {FORMATS[name].note}" if FORMATS[name].note else ""))
        FORMATS[name].write(subject.encoding, request, folder / FORMATS[name].file)
        contents[name] = FORMATS[name].content(folder / FORMATS[name].file)
    return contents


def dims_of(encoding: Encoding) -> set[int]:
    """Return every size that a parameter or a buffer has: no traced length may be taken for one of them."""
    tensors = [*encoding.module.parameters(), *encoding.module.buffers()]
    return {int(n) for tensor in tensors for n in tensor.shape}


def _refuse_unsupported(subject: Subject, format_: str) -> None:
    reasons = SCHEMES[subject.name].unsupported if subject.declared else {}
    reason = reasons.get(format_) or FORMATS[format_].refuses(subject.encoding)
    if reason:
        raise BadInput(f"{subject.name} cannot be exported to {format_}: {reason}")


def record(subject: Subject, cases: list[Case], seed: int) -> tuple[list[TrialSpec], list[Recorded]]:
    """Run the eager module and the truth in every case; large outputs are kept at some rows only."""
    trials, kept = [], []
    for case in cases:
        feeds = feeds_for(subject.encoding.inputs, case, seed)
        if case.refused:
            trials.append(TrialSpec(case))
            kept.append(Recorded(case, _without_floats(feeds)))
            continue
        one = _record(subject.encoding, case, feeds)
        trials.append(_spec(subject, one))
        kept.append(one)
    return trials, kept


def _without_floats(feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Leave out what no refusal depends on: absent floats are read back as zeros."""
    return {k: v for k, v in feeds.items() if v.dtype.name not in FLOATS}


def _record(encoding: Encoding, case: Case, feeds: Mapping[str, Array]) -> Recorded:
    try:
        outputs = run_eager(encoding.module, [feeds[p.name] for p in encoding.inputs])
    except Exception as error:
        told = f"the module itself fails at {case.name}: {type(error).__name__}: {first_line(error)}"
        raise BadInput(f"{told}; lower --max-len if it has no more positions") from error
    eager: dict[str, Array] = {}
    rows: dict[str, Array] = {}
    for port, output in zip(encoding.outputs, outputs, strict=True):
        if output.dtype.name in FLOATS and np.isnan(output).any():
            raise BadInput(
                f"the module itself gives NaN in {port.name} at {case.name}: nothing can be compared with it"
            )
        at = sampled(port, output.shape)
        eager[port.name] = sample(output, at, long_axis(port, output.shape))
        rows |= {} if at is None else {port.name: at}
    del outputs
    truth = _truth(encoding, feeds, eager, rows)
    fed = {p.name: feeds[p.name] for p in encoding.inputs}
    rows |= {p.name: at for p in encoding.inputs if (at := _sparse(p, fed[p.name])) is not None}
    kept = {p.name: sample(fed[p.name], rows.get(p.name), long_axis(p, fed[p.name].shape)) for p in encoding.inputs}
    return Recorded(case, kept, eager, truth, rows)


def _truth(
    encoding: Encoding, feeds: Mapping[str, Array], eager: Mapping[str, Array], rows: Mapping[str, Array]
) -> dict[str, Array]:
    """Return the truth of each output at the rows that are kept; none of a module that cannot run in float64."""
    try:
        whole = encoding.truth(feeds, rows.get(encoding.outputs[0].name))
    except TypeError:
        return {}
    truth = {}
    for port in encoding.outputs:
        value = np.asarray(whole[port.name], np.float64)
        if value.shape != eager[port.name].shape:  # an oracle may give every row
            value = sample(value, rows.get(port.name), long_axis(port, value.shape))
        if eager[port.name].dtype.kind != "b":
            truth[port.name] = value
    return truth


def _sparse(port: Port, feed: Array) -> Array | None:
    """Return the rows of an input that are not zeros by construction."""
    return sampled(port, feed.shape) if feed.dtype.name in FLOATS else None


def _spec(subject: Subject, one: Recorded) -> TrialSpec:
    """Return a case with its tolerances: those the scheme declares, or those the eager module's own error suggests."""
    if subject.declared:
        return TrialSpec(one.case, subject.encoding.parity(one.case.last), subject.encoding.error(one.case.last))
    floats = {k: v for k, v in one.eager.items() if v.dtype.name in FLOATS}
    peak = max((float(np.max(np.abs(v.astype(np.float64)), initial=0.0)) for v in floats.values()), default=0.0)
    own = max((measure(v, one.truth[k]).max_abs for k, v in floats.items() if k in one.truth), default=0.0)
    grain = max((eps(v.dtype.name) for v in floats.values()), default=0.0)
    parity = Tolerance(atol=OWN_ERRORS * own + OWN_EPS * grain * peak)
    return TrialSpec(one.case, parity, Tolerance(atol=parity.atol + own))


def worst_error(recorded: list[Recorded]) -> float | None:
    """Return how far the eager outputs, which a graph must equal, are from the truth; None without a truth."""
    found = [measure(one.eager[k], truth).max_abs for one in recorded for k, truth in one.truth.items()]
    return max(found, default=None)


def _manifest(
    subject: Subject, order: Order, trials: tuple[TrialSpec, ...], trace: Mapping[str, int], folder: Path
) -> Manifest:
    form, encoding = subject.form, subject.encoding
    return Manifest(
        scheme=subject.name,
        params=dict(subject.params),
        mode=form.mode,
        method=form.method if form.mode == "dynamic" and subject.declared else None,
        positions=encoding.positions,
        max_len=form.max_len,
        dtype=form.torch_dtype,
        opset=order.opset,
        ir_version=MAX_IR_VERSION,
        inputs=encoding.inputs,
        outputs=encoding.outputs,
        artifacts=tuple(a for name in order.formats for a in _artifacts(folder, name, _own_parity(order, name, form))),
        trials=trials,
        trace=trace,
        truth=subject.truth,
        versions=versions(),
        rotary_op=order.rotary_op,
        origin=dict(subject.origin),
    )


def metadata(subject: Subject, error: float | None) -> dict[str, str]:
    """Return what a file says of itself, where its format has a place for that."""
    told = "unknown" if error is None else f"{error:.3g}"
    facts = {"scheme": subject.name, "params": json.dumps(dict(subject.params)), "mode": subject.form.mode}
    return {f"posenc.{key}": value for key, value in {**facts, "worst_error": told}.items()}


def _own_parity(order: Order, name: str, form: Form) -> Tolerance | None:
    """Return what a fused operator may change of a graph's last digits; None where there is none."""
    return fused_parity(form.torch_dtype) if name == "onnx" and order.rotary_op != "decomposed" else None


def _artifacts(folder: Path, name: str, parity: Tolerance | None) -> list[Artifact]:
    """Return the files of one format: the graph, and its weights where they lie beside it."""
    file = FORMATS[name].file
    found = [(name, folder / file), (f"{name}.data", folder / f"{file}.data")]
    return [Artifact(kind, p.name, p.stat().st_size, sha256(p), parity) for kind, p in found if p.is_file()]


def versions() -> dict[str, str]:
    """Return the versions of what makes a bundle."""
    found = {"python": platform.python_version(), "platform": f"{sys.platform} {platform.machine()}"}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
