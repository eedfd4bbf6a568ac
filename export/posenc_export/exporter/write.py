"""The files of a bundle: artifacts, golden data, manifest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from posenc.encoding import Encoding
from posenc.scheme import SCHEMES
from posenc_export.arrays import to_torch
from posenc_export.bundle.case import Case, GoldenCase
from posenc_export.bundle.folder import MANIFEST, write_json
from posenc_export.bundle.golden import write_golden
from posenc_export.bundle.identity import PREFIX, Facts, stamps
from posenc_export.bundle.manifest import Manifest
from posenc_export.cpp.embed import check_embeddable
from posenc_export.cpp.names import namespace_for
from posenc_export.errors import BadInput, ExportFailed, OpsetFailed
from posenc_export.exporter.asking import collect, start
from posenc_export.exporter.capturing import Seen, captured_again, notes_on_calls, notes_on_writes, unread_inputs
from posenc_export.exporter.describe import Tried, describe
from posenc_export.exporter.identifying import facts_for
from posenc_export.exporter.options import ExportOptions
from posenc_export.formats import FALLBACK_OPSETS, FORMATS, Digests, Format, Program, Request
from posenc_export.formats.capture import Findings, findings
from posenc_export.formats.onnx import read_onnx
from posenc_export.formats.onnx.operators import REQUIRED_OPERATORS, required_operators
from posenc_export.formats.onnx.traced import note_of
from posenc_export.targets import Target
from posenc_export.validation.checks.capture import changes, fingerprint
from posenc_export.validation.judging.context import Behaviour, Capture
from posenc_export.validation.planning.feeds import feeds_for
from posenc_export.validation.planning.plan import plan
from posenc_export.validation.planning.scope import Scope
from posenc_export.validation.planning.sizes import long_sizes, trace_sizes
from posenc_export.validation.planning.unlike_lengths import refused_by_eager
from posenc_export.validation.recording.record import record, worst_error
from posenc_export.validation.recording.unread import unread
from posenc_export.validation.stored.matching import digests_of

if TYPE_CHECKING:
    import torch

SHORTEST = 3
"""The least max_len that leaves torch.export, which takes a length to be at least 2, something to vary."""


def write_bundle(target: Target, options: ExportOptions, folder: Path) -> tuple[Manifest, dict[str, Capture]]:
    """Write the artifacts, golden data and manifest of a target; return the manifest and what its export showed.

    Where it is to be validated, it is captured again after the calls at other lengths, to see whether they changed
    anything. Otherwise nothing is shown.
    """
    encoding = target.encoding
    stored = {} if target.declared else digests_of(encoding.module)  # before anything is called
    request, trace = _request(target, options)
    asking = start(target.question)
    asked, (request, written) = request, _written(target, request, options, folder)
    facts = facts_for(target, asked, {name: one.digests for name, one in written.items()})
    options.validation.progress("recording the eager outputs and the reference")
    scope = Scope(encoding, trace, request.max_len, options.budget, _broken(written))
    planned = plan(scope)
    seen = _seen(target, planned.cases, options)
    answers = collect(asking, target, seen.cases, options.seed)
    captures = {
        name: replace(captured_again(seen, encoding, request, name, one.digests), stored=stored)
        for name, one in written.items()
        if one.digests
    }
    _stamp(facts, options, folder, answers.cases)
    _write_required_operators(folder, options)
    write_golden(folder, answers.cases)
    not_tried = (*planned.not_tried, *seen.dropped)
    of_guards = (note for one in written.values() for note in one.findings.notes)
    of_inputs = (*notes_on_writes(seen.written), *(() if target.declared else unread_inputs(seen.unread)))
    notes = tuple(dict.fromkeys((*of_guards, *notes_on_calls(seen, captures), *of_inputs)))
    cases = tuple(golden.case for golden in answers.cases)
    tried = Tried(facts, cases, trace, not_tried, seen.reference, notes, seen.unread, answers.model)
    manifest = describe(target, options, request, tried, folder)
    write_json(folder / MANIFEST, manifest.to_json())
    return manifest, captures


@dataclass(frozen=True)
class Written:
    """What a format was made of: what must be the same when the module is captured again, what capturing showed."""

    digests: Digests
    findings: Findings


def _broken(written: Mapping[str, Written]) -> tuple[Mapping[str, int], ...]:
    """Return the sizes that break what torch.export assumed."""
    return tuple(sizes for one in written.values() for sizes in one.findings.sizes)


def _seen(target: Target, cases: Sequence[Case], options: ExportOptions) -> Seen:
    """Record every case, and call a module of somebody's own in all of them, one after the other."""
    encoding = target.encoding
    called = encoding.uncalled()
    from posenc_export.targets.calling import unwrapped

    state = fingerprint(unwrapped(called.module))
    golden_cases = record(encoding, refused_by_eager(encoding, cases, options.seed), options.seed)
    golden, shown = list(golden_cases.cases), Behaviour()
    if not target.declared:
        from posenc_export.validation.recording.own_module import behaviour, of_rounding, own_case

        own = [own_case(encoding, one, options.seed) for one in golden]
        golden = [one.golden for one in own]
        if options.validate:
            shown = of_rounding(behaviour(encoding, called, golden, options.seed), encoding, own)
    changed = changes(state, fingerprint(unwrapped(called.module)))
    reference = golden_cases.reference(target.reference)
    of_shape = unread(encoding, golden, options.seed)
    return Seen(golden, golden_cases.dropped, called, changed, shown, of_shape, golden_cases.written, reference)


def _request(target: Target, options: ExportOptions) -> tuple[Request, Mapping[str, int]]:
    """Return what formats are given, and the sizes to trace with; refuse what cannot be written."""
    encoding, max_len = target.encoding, target.spec.max_len
    for name in options.formats:
        _refuse_unsupported(target, name)
    if options.rotary_op != "decomposed" and target.spec.dtype == "fp64":
        raise BadInput(f"--rotary-op {options.rotary_op} has no fp64: expected fp32, fp16 or bf16")
    if options.cpp:
        check_embeddable(encoding.inputs, encoding.outputs)
    if encoding.end is not None and max_len > encoding.end:
        raise BadInput(f"max_len must be at most the {encoding.end} positions of {target.name}, got {max_len}")
    if target.spec.positions == "mask" and max_len - target.spec.position_offset < SHORTEST:
        raise BadInput(
            f"max_len {max_len} leaves no length to vary behind position_offset {target.spec.position_offset}"
        )
    end = (encoding.end or max(max_len, 64)) if target.declared else max_len
    trace = trace_sizes(encoding, dims_of(encoding), end)
    if trace and end < SHORTEST:
        raise BadInput(f"max_len {max_len} leaves no length to vary: give --max-len {SHORTEST} or more")

    def at(sizes: Mapping[str, int]) -> tuple[torch.Tensor, ...]:
        feeds = feeds_for(encoding.inputs, Case("trace", sizes), options.seed)
        return tuple(to_torch(feeds[port.name]) for port in encoding.inputs)

    other = trace_sizes(encoding, dims_of(encoding) | set(trace.values()), end)
    long = long_sizes(encoding.inputs, trace, max_len)
    how = (options.onnx_opset, options.opset_reason, options.rotary_op, options.namespace or namespace_for(target.name))
    return Request(at(trace), max_len, *how, at, other, long, cpu_isa=options.cpu_isa), trace


def _written(
    target: Target, request: Request, options: ExportOptions, folder: Path
) -> tuple[Request, dict[str, Written]]:
    """Capture and write every format; return the request that could be written, and what capturing each showed.

    A format that cannot be written at the opset of the request raises that opset, for the formats after it too.
    """
    written: dict[str, Written] = {}
    for format_ in map(FORMATS.__getitem__, options.formats):
        options.validation.progress(f"exporting {format_.name}" + (f": {format_.note}" if format_.note else ""))
        program = format_.capture(target.encoding.uncalled(), request)
        digests = format_.digests(program) if options.validate else {}
        written[format_.name] = Written(digests, findings(program))
        write = partial(_write, format_, program, target, folder)
        by = _first_that_writes(write, request, _others(request, target, options))
        if by.why_traced:
            written[format_.name] = Written(digests, _also_noted(findings(program), note_of(by.why_traced)))
        request = replace(by, why_traced="")
    return request, written


def _also_noted(known: Findings, note: str) -> Findings:
    return replace(known, notes=(note, *known.notes))


def _write(format_: Format, program: Program, target: Target, folder: Path, request: Request) -> None:
    format_.write(program, target.encoding, request, folder / format_.file)


def _others(request: Request, target: Target, options: ExportOptions) -> list[Callable[[str], Request]]:
    """Return how else a module of somebody's own is written, by why it cannot be: at newer opsets, then traced."""
    if target.declared:
        return []
    newer = [opset for opset in FALLBACK_OPSETS if opset > request.opset and options.opset is None]
    reason = f"it cannot be written at opset {request.opset}: "
    at = [lambda why, opset=opset: replace(request, opset=opset, opset_reason=reason + why) for opset in newer]
    return [*at, lambda why: replace(request, why_traced=why)]


def _first_that_writes(
    write: Callable[[Request], None], request: Request, others: Sequence[Callable[[str], Request]]
) -> Request:
    """Write by a request or, where its opset cannot say it, by the first other that can; return that one.

    others: make a request of the reason. Raises OpsetFailed, with the reason of the first, where none can.
    """
    try:
        write(request)
        return request
    except OpsetFailed as error:
        for again in (other(error.message) for other in others):
            with suppress(ExportFailed):
                write(again)
                return again
        raise


def dims_of(encoding: Encoding) -> set[int]:
    """Return every size that a parameter or a buffer has: no traced length may be taken for one of them."""
    tensors = [*encoding.module.parameters(), *encoding.module.buffers()]
    return {int(n) for tensor in tensors for n in tensor.shape}


def _refuse_unsupported(target: Target, format_: str) -> None:
    reasons = SCHEMES[target.name].unsupported.formats if target.declared else {}
    reason = reasons.get(format_) or FORMATS[format_].refuses(target.encoding)
    if reason:
        raise BadInput(f"{target.name} cannot be exported to {format_}: {reason}")


def _write_required_operators(folder: Path, options: ExportOptions) -> None:
    """Write, beside an ONNX file, which operators a reduced build of ONNX Runtime has to keep for it."""
    if "onnx" in options.formats:
        text = required_operators(read_onnx(folder / FORMATS["onnx"].file))
        (folder / REQUIRED_OPERATORS).write_text(text, encoding="utf-8")


def _stamp(facts: Facts, options: ExportOptions, folder: Path, cases: list[GoldenCase]) -> None:
    """Write into each file which graph it is, and how far off it is at worst."""
    error = worst_error(cases)
    worst = {f"{PREFIX}worst_error": "unknown" if error is None else f"{error:.3g}"}
    for name in options.formats:
        FORMATS[name].stamp(folder / FORMATS[name].file, {**stamps(facts), **worst})
