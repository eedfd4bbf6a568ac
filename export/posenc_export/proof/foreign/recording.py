"""The bundle of a proof: the golden data of a target, and a file of another program as its graph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from posenc.spec import Method
from posenc_export.bundle.folder import MANIFEST, write_json
from posenc_export.bundle.golden import write_golden
from posenc_export.bundle.manifest import Manifest
from posenc_export.common.errors import one_line
from posenc_export.proof.exporter.asking import collect, start
from posenc_export.proof.exporter.describe import describe
from posenc_export.proof.exporter.draft import Draft
from posenc_export.proof.exporter.generating import generations_of
from posenc_export.proof.exporter.options import ExportOptions
from posenc_export.proof.exporter.record import call_in_cases
from posenc_export.proof.exporter.request import request_for
from posenc_export.proof.foreign.adapting import write_adapted
from posenc_export.proof.foreign.in_half import half_of, with_half
from posenc_export.proof.foreign.matching import Match
from posenc_export.proof.foreign.module import FileModule
from posenc_export.proof.judging.context import Capture
from posenc_export.proof.recording.record import RECORDING
from posenc_export.proof.stored.matching import digests_of
from posenc_export.write.formats.onnx.foreign import ForeignFile
from posenc_export.write.formats.onnx.memory import grouped_attentions
from posenc_export.write.formats.onnx.ordering import is_ordered
from posenc_export.write.targets import Target

IN_FLOAT32: Method = "trig"
"""How a scheme computes its angles as models do."""
ITS_OWN = "as the file has it"


def write_proof(
    file: ForeignFile, match: Match, target: Target, options: ExportOptions, folder: Path
) -> tuple[Manifest, Capture]:
    """Write the bundle of a proof; return its manifest, and what calls showed of the target.

    Args:
        file: The file.
        match: How its inputs and outputs fit the target's.
        target: What it is to be.
        options: Seed, budget and notes count.
        folder: Where the bundle is written.
    """
    if grouped_attentions(file.model):  # it refuses what that operator refuses, whoever wrote it
        options = replace(options, attention_op="microsoft")
    encoding = target.encoding
    stored = {} if target.rules.registered else digests_of(encoding.module)  # before anything is called
    draft = Draft(
        request_for(target, options),
        target.reference,
        stored,
        proof=options.proof_of(target.is_whole, target.is_large),
        is_whole=target.is_whole,
    )
    asking = start(target.question, options.ask_timeout)
    write_adapted(file, match, folder)
    options.validation.progress(RECORDING)
    draft, seen, _ = call_in_cases(encoding, draft, options, all_masked=target.answers_empty)
    if target.rules.registered and target.spec.method == IN_FLOAT32:
        # float32 angles are noise far out, in the model too: nobody says that a model is right beyond its context
        cases = tuple(golden for golden in draft.cases if golden.case.max_position < target.spec.max_len)
        words = f"angles as models compute them, in float32: held up to position {target.spec.max_len - 1:,}"
        draft = replace(draft, cases=cases, notes=(*draft.notes, words))
    dtype = half_of(file.model)
    if dtype and not target.rules.derived_tolerances:
        if isinstance(encoding.module, FileModule):
            # what half precision makes of hard rows follows from operators, which a file does not show
            draft = replace(draft, cases=tuple(golden for golden in draft.cases if not golden.case.hard))
        words = f"its weights are {dtype}: outputs may be off by what it costs the target to round at every step"
        cases = with_half(encoding, draft.cases, dtype, options.seed)
        draft = replace(draft, cases=cases, notes=(*draft.notes, words))
    draft = collect(asking, target, draft, options.seed)
    if target.generates and (dtype or target.others):
        why = f"weights of {dtype} may write others" if dtype else "they follow from graphs in other files, too"
        draft = replace(draft, notes=(*draft.notes, f"tokens are not compared: {why}"))
    else:
        draft = replace(draft, generations=generations_of(target, (), options)[0])
    write_golden(folder, draft.cases)
    # it lies in the bundle under the usual name of its format
    manifest = _of_file(describe(replace(target, file=""), options, draft, folder), file, match)
    write_json(folder / MANIFEST, manifest.to_json())
    return manifest, seen


def _of_file(manifest: Manifest, file: ForeignFile, match: Match) -> Manifest:
    """Return a manifest whose graph is a file of another program."""
    words = one_line(f"{file.path.name}, written by {file.writer}")
    unordered = () if is_ordered(file.model.graph) else ("nodes of the file come before what they take: put in order",)
    return replace(
        manifest,
        foreign=words,
        notes=(words, *match.notes, *unordered, *manifest.notes),
        opset=file.opset,
        opset_reason=ITS_OWN,
        ir_version=max(int(file.model.ir_version), 1),
        loads_on=ITS_OWN,
        # the digest of a target's facts would not be the file's
        id="",
        facts={},
    )
