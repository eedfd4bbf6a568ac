"""The files of a bundle: graphs, golden data, manifest."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from posenc_export.bundle.case import GoldenCase
from posenc_export.bundle.decoders import is_cache, is_in_place
from posenc_export.bundle.folder import MANIFEST, write_json
from posenc_export.bundle.golden import write_golden
from posenc_export.bundle.identity import PREFIX, Facts, stamps
from posenc_export.bundle.manifest import Manifest
from posenc_export.bundle.rules import rules_of
from posenc_export.common.errors import ExportFailed, OpsetFailed
from posenc_export.proof.exporter.asking import collect, start
from posenc_export.proof.exporter.describe import describe
from posenc_export.proof.exporter.draft import Draft, OtherGraph, Written
from posenc_export.proof.exporter.generating import generations_of
from posenc_export.proof.exporter.identifying import facts_for
from posenc_export.proof.exporter.options import ExportOptions
from posenc_export.proof.exporter.record import check_budget, record_cases
from posenc_export.proof.exporter.request import request_for
from posenc_export.proof.judging.context import Capture
from posenc_export.proof.recording.record import RECORDING, worst_error
from posenc_export.proof.stored.matching import digests_of
from posenc_export.write.formats import FALLBACK_OPSETS, FORMATS, Format, Program, WriteRequest
from posenc_export.write.formats.capture import Findings, findings
from posenc_export.write.formats.onnx import read_onnx
from posenc_export.write.formats.onnx.memory import caches_in_place
from posenc_export.write.formats.onnx.operators import REQUIRED_OPERATORS, required_operators
from posenc_export.write.formats.onnx.quantized import note_of_blocks
from posenc_export.write.formats.onnx.traced import note_of
from posenc_export.write.formats.ways import WAYS
from posenc_export.write.runtime_configs import RUNTIME_CONFIGS
from posenc_export.write.targets import Target


def write_parts(target: Target, options: ExportOptions, folder: Path) -> tuple[OtherGraph, ...]:
    """Write the other graphs of a model into a folder, and the rest of their bundles into folders of their names."""
    return tuple(_write_part(make(), options, folder) for make in target.others)


def _write_part(target: Target, options: ExportOptions, graphs: Path) -> OtherGraph:
    """Write another graph of a model; the operator of decoders is for those with a cache."""
    if options.attention_op == "microsoft" and not any(map(is_cache, target.encoding.inputs)):
        options = replace(options, attention_op="decomposed")
    folder = graphs / target.file
    folder.mkdir()
    manifest, captures = write_bundle(target, options, folder, graphs=graphs)
    return OtherGraph(target.encoding, manifest, captures)


def write_bundle(
    target: Target,
    options: ExportOptions,
    folder: Path,
    parts: tuple[OtherGraph, ...] = (),
    graphs: Path | None = None,
) -> tuple[Manifest, dict[str, Capture]]:
    """Write the graphs, golden data and manifest of a target; return the manifest and, by format, what captures showed.

    Where it is to be validated, the module is captured again after calls at other lengths, to see whether they changed
    anything. Otherwise there are no captures to return.

    Args:
        target: What is exported.
        options: What is written.
        folder: Where it is written.
        parts: The model's other graphs, which were written before.
        graphs: Where the graph is written, if that is elsewhere.
    """
    graphs = graphs or folder
    encoding = target.encoding
    proof = options.proof_of(target.is_whole, target.is_large)
    # before anything is called
    stored = {} if target.rules.registered or not options.validate else digests_of(encoding.module)
    draft = Draft(
        request_for(target, options), target.reference, stored, parts=parts, proof=proof, is_whole=target.is_whole
    )
    check_budget(encoding, draft.request, options)
    asking = start(target.question, options.ask_timeout)  # beside the export, in a process of its own
    # an opset raised by a format changes nothing of what the graph is
    first_request = draft.request
    draft = write_formats(target, draft, options, graphs)
    draft = replace(draft, facts=facts_for(target, first_request, draft.digests))
    options.validation.progress(RECORDING)
    draft, captures = record_cases(encoding, draft, options)
    draft = collect(asking, target, draft, options.seed)
    if proof != "one":
        generations, lines = generations_of(target, [part.encoding for part in parts], options)
        draft = replace(draft, generations=generations, notes=(*draft.notes, *lines))
    _stamp(target, draft.facts, options, graphs, draft.cases)
    _write_required_operators(target, graphs, folder, options)
    _write_companions(target, options, folder, graphs)
    write_golden(folder, draft.cases)
    manifest = describe(target, options, draft, folder, graphs)
    write_json(folder / MANIFEST, manifest.to_json())
    return manifest, captures


def write_formats(target: Target, draft: Draft, options: ExportOptions, folder: Path) -> Draft:
    """Capture and write every format; return the draft with what that showed, and the request that could be written.

    A format that cannot be written at the opset of the request raises that opset, for the formats after it too.
    """
    encoding, request, written = target.encoding, draft.request, dict(draft.written)
    tries_others = rules_of(encoding.family).tries_other_ways
    for format_ in map(FORMATS.__getitem__, options.formats):
        options.validation.progress(f"exporting {format_.name}" + (f": {format_.note}" if format_.note else ""))
        capture = partial(format_.capture, encoding.uncalled())
        program = capture(request)
        showed, digests = findings(program), format_.digests(program)
        path = folder / target.file_of(format_.file)
        others = partial(_others, request, showed, options.opset is None) if tries_others else lambda why: ()
        by = _first_that_writes(partial(_write, format_, capture, program, path), request, others)
        showed = findings(program)  # with what writing it has found
        if by.why_traced:
            showed = replace(showed, notes=(note_of(by.why_traced), *showed.notes))
        if by.quantize:
            showed = replace(showed, notes=(*showed.notes, note_of_blocks(read_onnx(path))))
        written[format_.name] = Written(digests, showed)
        request = replace(by, why_traced="", branches=False)
    return replace(draft, request=request, written=written)


def _write(
    format_: Format, capture: Callable[[WriteRequest], Program], program: Program, path: Path, request: WriteRequest
) -> None:
    """Write a program or, where the request is to trace the module, what comes of that."""
    made = capture(request) if request.why_traced else program
    format_.write(made, request, path)


def _others(request: WriteRequest, showed: Findings, any_opset: bool, why: str) -> Iterator[WriteRequest]:
    """Yield how else a user's module is written, which cannot be by this request: at newer opsets, then traced."""
    reason = f"it cannot be written at opset {request.opset}: {why}"
    for opset in FALLBACK_OPSETS if any_opset else ():
        if opset > request.opset:
            yield replace(request, opset=opset, opset_reason=reason)
    yield replace(request, why_traced=why, branches=showed.way == WAYS[0].name)


def _first_that_writes(
    write: Callable[[WriteRequest], None], request: WriteRequest, others: Callable[[str], Iterable[WriteRequest]]
) -> WriteRequest:
    """Write by a request or, where its opset cannot say it, by the first other that can; return that one.

    Args:
        write: Writes by a request.
        request: The usual request.
        others: Makes other requests, of the reason why the first failed.

    Raises OpsetFailed, with the reason of the first, where none can.
    """
    try:
        write(request)
        return request
    except OpsetFailed as error:
        for again in others(error.message):
            with suppress(ExportFailed):
                write(again)
                return again
        raise


def _write_required_operators(target: Target, graphs: Path, folder: Path, options: ExportOptions) -> None:
    """Write, beside an ONNX file, which operators a reduced build of ONNX Runtime has to keep for it."""
    if "onnx" in options.formats:
        text = required_operators(read_onnx(graphs / target.file_of(FORMATS["onnx"].file)))
        (folder / REQUIRED_OPERATORS).write_text(text, encoding="utf-8")


def _write_companions(target: Target, options: ExportOptions, folder: Path, graphs: Path) -> None:
    """Copy what goes with a whole model, and write the config of the runtime that is asked for."""
    for name, path in target.companions.items():
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(path, folder / name)
    if options.runtime_config is not None:
        config = RUNTIME_CONFIGS[options.runtime_config]
        write_json(folder / config.file, config.made(target, _is_in_place(target, graphs)))


def _is_in_place(target: Target, graphs: Path) -> bool:
    """Return whether the ONNX file of a decoder writes all keys and values behind those that are cached."""
    path = graphs / target.file_of(FORMATS["onnx"].file)
    shared = caches_in_place(read_onnx(path)) if path.is_file() else {}
    return is_in_place(target.encoding.outputs, shared)


def _stamp(target: Target, facts: Facts, options: ExportOptions, folder: Path, cases: Sequence[GoldenCase]) -> None:
    """Write into each file which graph it is, and how far off it is at worst."""
    error = worst_error(cases)
    worst = {f"{PREFIX}worst_error": "unknown" if error is None else f"{error:.3g}"}
    for name in options.formats:
        FORMATS[name].stamp(folder / target.file_of(FORMATS[name].file), {**stamps(facts), **worst})
