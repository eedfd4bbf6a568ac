"""The manifest of an export."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from posenc.encoding import Tolerance
from posenc.spec import Spec
from posenc_export.bundle.case import Case
from posenc_export.bundle.folder import file_of, sha256
from posenc_export.bundle.golden import GOLDEN
from posenc_export.bundle.identity import Facts, id_of
from posenc_export.bundle.manifest import Artifact, AskedModel, Manifest
from posenc_export.exporter.options import ExportOptions
from posenc_export.formats import FORMATS, OPSETS, ROTARY_RUNTIMES, Request
from posenc_export.formats.onnx.operators import REQUIRED_OPERATORS
from posenc_export.machine import versions
from posenc_export.targets import Target

BESIDE = (GOLDEN, REQUIRED_OPERATORS)
"""Files of a bundle that are no graphs."""


@dataclass(frozen=True)
class Tried:
    """What was tried: the cases, the sizes that were traced with, and what was not, with the reasons; notes on it.

    facts: of the graph. reference: what the cases are held against, in words.
    unread: inputs whose values the module does not read. model: the model that was asked, of a config.
    """

    facts: Facts
    cases: tuple[Case, ...]
    trace: Mapping[str, int]
    not_tried: tuple[str, ...]
    reference: str
    notes: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    model: AskedModel | None = None


def describe(target: Target, options: ExportOptions, request: Request, tried: Tried, folder: Path) -> Manifest:
    """Return the manifest of what was written into a folder."""
    spec, encoding = target.spec, target.encoding
    return Manifest(
        scheme=target.name,
        family=encoding.family,
        params=dict(target.params),
        mode=spec.mode,
        method=spec.method if spec.mode == "dynamic" and target.rules.registered else None,
        positions=encoding.positions,
        max_len=spec.max_len,
        dtype=spec.torch_dtype,
        opset=request.opset,
        opset_reason=request.opset_reason,
        ir_version=OPSETS[request.opset].ir_version,
        loads_on=f"ONNX Runtime >= {ROTARY_RUNTIMES.get(request.rotary_op, OPSETS[request.opset].onnx_runtime)}",
        inputs=encoding.inputs,
        outputs=encoding.outputs,
        artifacts=tuple(a for name in options.formats for a in _artifacts(folder, name, options, spec)),
        cases=tried.cases,
        trace=tried.trace,
        not_tried=tried.not_tried,
        notes=(*options.notes, *target.notes, *tried.notes),
        unread=tried.unread,
        reference=tried.reference,
        versions=versions(),
        rotary_op=options.rotary_op,
        half_safe=encoding.half_safe,
        added=encoding.added,
        origin=dict(target.origin),
        seed=options.seed if options.seed >= 0 else None,
        model=tried.model,
        id=id_of(tried.facts),
        facts=tried.facts,
        files=tuple(file_of(folder, folder / name) for name in BESIDE if (folder / name).is_file()),
    )


def _artifacts(folder: Path, name: str, options: ExportOptions, spec: Spec) -> list[Artifact]:
    """Return the files of one format: the graph, and its weights where they lie beside it."""
    file, tolerance = FORMATS[name].file, _operator_tolerance(options, name, spec)
    files = [(name, folder / file), (f"{name}.data", folder / f"{file}.data")]
    return [Artifact(kind, p.name, p.stat().st_size, sha256(p), tolerance) for kind, p in files if p.is_file()]


def _operator_tolerance(options: ExportOptions, name: str, spec: Spec) -> Tolerance | None:
    """Return what a rotary operator may change of a graph's last digits; None where there is none."""
    if name != "onnx" or options.rotary_op == "decomposed":
        return None
    from posenc_export.formats.onnx.rotary_op import operator_tolerance

    return operator_tolerance(spec.torch_dtype)
