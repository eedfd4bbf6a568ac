"""The manifest of an export."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

from posenc.encoding import Tolerance
from posenc_export.bundle.folder import MANIFEST, file_of, sha256
from posenc_export.bundle.golden import GOLDEN
from posenc_export.bundle.identity import id_of
from posenc_export.bundle.manifest import SCHEMA_VERSION, Artifact, Manifest
from posenc_export.common.machine import versions
from posenc_export.proof.exporter.draft import Draft
from posenc_export.proof.exporter.options import ExportOptions
from posenc_export.write.formats import (
    ATTENTION_RUNTIMES,
    FORMATS,
    OPSETS,
    QUANTIZED_RUNTIMES,
    ROTARY_RUNTIMES,
    WriteRequest,
)
from posenc_export.write.formats.onnx.operators import REQUIRED_OPERATORS
from posenc_export.write.runtime_configs import RUNTIME_CONFIGS
from posenc_export.write.targets import Target

BESIDE = (GOLDEN, REQUIRED_OPERATORS)
"""Files of a bundle beside its graphs."""


def describe(
    target: Target, options: ExportOptions, draft: Draft, folder: Path, graphs: Path | None = None
) -> Manifest:
    """Return the manifest of what was written into a folder; its graphs may lie elsewhere."""
    spec, encoding, request = target.spec, target.encoding, draft.request
    return Manifest(
        schema_version=SCHEMA_VERSION,
        scheme=target.name,
        family=encoding.family,
        params=dict(target.params),
        mode=spec.mode,
        method=spec.method if spec.mode == "dynamic" and target.rules.registered else None,
        positions=encoding.positions,
        max_len=spec.max_len,
        dtype=spec.torch_dtype,
        **_onnx_fields(request),
        inputs=encoding.inputs,
        outputs=encoding.outputs,
        artifacts=tuple(a for name in options.formats for a in _artifacts(target, graphs or folder, name, request)),
        cases=tuple(golden.case for golden in draft.cases),
        trace=request.sizes,
        not_tried=(
            *draft.not_tried,
            *(f"{part.name} {line}" for part in draft.parts for line in part.manifest.not_tried),
        ),
        notes=_notes(target, options, draft),
        unread=draft.unread,
        reference=draft.reference,
        versions=versions(),
        rotary_op=options.rotary_op,
        attention_op=options.attention_op,
        quantize=target.quantize,
        accuracy_level=options.accuracy_level,
        check_positions=options.check_positions,
        half_safe=encoding.half_safe,
        not_on_cuda=encoding.not_on_cuda,
        added=encoding.added,
        origin=dict(target.origin),
        seed=options.seed,
        model=draft.model,
        generations=draft.generations,
        id=id_of(draft.facts),
        facts=draft.facts,
        files=tuple(
            file_of(folder, folder / name) for name in _beside(target, options, draft) if (folder / name).is_file()
        ),
        parts=tuple(part.name for part in draft.parts),
        picture_id=None if target.places is None else target.places.token,
        picture_types=target.places is not None and target.places.types,
        picture_of="image" if target.places is None else target.places.sense.modality,
    )


def _notes(target: Target, options: ExportOptions, draft: Draft) -> tuple[str, ...]:
    """Return the lines for the report: what is said of another graph, too, is said once."""
    own = (*options.notes, *target.notes, *draft.notes)
    of_parts = ((part.name, line) for part in draft.parts for line in part.manifest.notes)
    return (*own, *(f"{name}: {line}" for name, line in of_parts if line not in own))


def _beside(target: Target, options: ExportOptions, draft: Draft) -> Iterator[str]:
    """Yield the names of files that a bundle may have beside its graphs: also all of the model's other graphs."""
    yield from (*BESIDE, *target.companions)
    if options.runtime_config is not None:
        yield RUNTIME_CONFIGS[options.runtime_config].file
    for part in draft.parts:
        yield from (artifact.file for artifact in part.manifest.artifacts)
        yield from (f"{part.name}/{file}" for file in (MANIFEST, *BESIDE))


class OnnxFields(TypedDict):
    """The fields of a manifest that say which versions an ONNX file is for."""

    opset: int
    opset_reason: str
    ir_version: int
    loads_on: str


def _onnx_fields(request: WriteRequest) -> OnnxFields:
    opset = OPSETS[request.opset]
    of_operators = (
        ROTARY_RUNTIMES.get(request.rotary_op),
        ATTENTION_RUNTIMES.get(request.attention_op),
        QUANTIZED_RUNTIMES.get(request.quantize or ""),
    )
    releases = [opset.onnx_runtime, *(release for release in of_operators if release is not None)]
    newest = max(releases, key=lambda release: [int(part) for part in release.split(".")])
    return OnnxFields(
        opset=request.opset,
        opset_reason=request.opset_reason,
        ir_version=opset.ir_version,
        loads_on=f"ONNX Runtime >= {newest}",
    )


def _artifacts(target: Target, folder: Path, name: str, request: WriteRequest) -> list[Artifact]:
    """Return the files of one format: the graph, and its weights where they lie beside it."""
    file, tolerance = target.file_of(FORMATS[name].file), _operator_tolerance(name, request, target.spec.torch_dtype)
    files = [(name, folder / file), (f"{name}.data", folder / f"{file}.data")]
    return [Artifact(kind, p.name, p.stat().st_size, sha256(p), tolerance) for kind, p in files if p.is_file()]


def _operator_tolerance(name: str, request: WriteRequest, dtype: str) -> Tolerance | None:
    """Return what a rotary operator may change of a graph's last digits; None where there is none."""
    if name != "onnx" or request.rotary_op == "decomposed":
        return None
    from posenc_export.write.formats.onnx.rotary_op import operator_tolerance

    return operator_tolerance(dtype)
