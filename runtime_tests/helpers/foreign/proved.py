"""Files of other exporters held against their models, made again, and optimized files against those before them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import posenc_export
from helpers.foreign.dequantised import dequantised
from helpers.foreign.models import ROWS
from helpers.foreign.rebuilt import Rebuilt
from helpers.foreign.towers import TINY
from helpers.foreign.truth import Truth
from posenc_export.common.errors import BadInput
from posenc_export.proof.foreign.derived import identifiers
from posenc_export.proof.judging.verdict import Verdict
from posenc_export.proof.report.result import ValidateResult
from posenc_export.write.formats.onnx.foreign import FileValue, read_foreign

# 0, 1 and 2 are padding, begin and end in the configs
IDS = "in 3..63"
TAKEN: Mapping[str, str] = {
    "input_ids": f"int64[batch, seq] {IDS}",
    "attention_mask": "int64[batch, seq]",
    "position_ids": "int64[batch, seq] positions",
    "token_type_ids": "int64[batch, seq] < 2",
    "decoder_input_ids": f"int64[batch, decoded] {IDS}",
    "padding_mask": "float32[batch, seq, 1] in 0..1",
    "input_features": "float32[batch, 8, 48]",
    "input_values": "float32[batch, samples >= 7]",
    "pixel_values": "float32[batch, 3, 32, 32]",
    "sample": "float32[batch, 3, 8, 8]",
    "timestep": "int64[batch] in 0..1000",
}
"""What an input of a model is, as `-i` says it."""
OF_KIND: dict[str, Mapping[str, str]] = {
    "grid": {"pixel_values": "float32[batch, 3, height % 8, width % 8]"},
    "masked_pixels": {
        "pixel_values": "float32[batch, 3, height % 16, width % 16]",
        "pixel_mask": "int64[batch, height % 16, width % 16]",
    },
}
LONGEST: Mapping[str, int] = {
    "llama-yarn": 72,
    "llama-llama3": 72,
    "llama-dynamic": 64,
    # ids of RoBERTa start at 2
    "roberta": ROWS - 2,
    "conformer": 2 * (2 * (ROWS + 1) + 1) + 1,
}
"""The longest calls, where they are not as long as most models have positions."""


OTHER_WEIGHTS = (("optimum", "roberta"), ("optimum", "roformer"), ("optimum", "vit"))
"""Files whose weights transformers 4 drew otherwise than 5 does."""

ROUNDED = ("MatMulNBits", "rows int8")
"""Quantizers of weights alone: their files give what the file before gives with the weights that they made."""
QUANTIZED = 2.0
"""What quantize_dynamic may be off by, which rounds activations, too: half of the largest numbers, where rows at wrong
places are off by more than that."""

CAUSES: Mapping[str, str] = {
    "gemma3.mobius.onnx": "embeddings times 5.65625, which is the root of 32 in bfloat16, and 5.65685 in the model",
    "detr.plain-new.onnx": "a mask that hides all of an image: see below",
    **dict.fromkeys(
        ("conformer.transformers.exporters.onnx", "conformer.transformers.exporters-ort_fusions.onnx"),
        "it ends at 48 frames, and the model makes rows for longer calls",
    ),
    **dict.fromkeys(
        ("t5.plain-old.ORT-float16.onnx", "t5.plain-old.ORT-bert-float16.onnx"),
        "logarithms in half precision: a key 16 tokens away gets the row of 15, on this processor",
    ),
    **dict.fromkeys(
        ("unet.plain-new.ORT-float16.onnx", "unet.plain-new.ORT-bert-float16.onnx"),
        "angles of steps in half precision: noise from step 681 on",
    ),
}
"""What was found of files that do not pass, beside the faults of the table of files."""


@dataclass(frozen=True)
class Call:
    """How a file is held against its model.

    Args:
        inputs: what goes in, as `-i` has it.
        parameters: of the model that is made again.
        max_len: the longest call.
    """

    inputs: tuple[str, ...]
    parameters: Mapping[str, object]
    max_len: int


def call_of(path: Path, truth: Truth) -> Call:
    """Return how a file is held against its model."""
    values = read_foreign(path).inputs
    names = identifiers([value.name for value in values])
    kind = {**TAKEN, **OF_KIND.get(TINY[truth.model].kind, {})}
    if any(name.startswith("past") for name in names):
        kind |= {"attention_mask": "int64[batch, past+seq]"}
    # whoever exported it may have fixed the batch of an input, which then all have
    fixed = next((value.axes[0] for value in values if value.axes and isinstance(value.axes[0], int)), "batch")
    if truth.exporter == "onnxruntime-genai":
        # its attention takes several tokens behind a cache of a batch of 1 alone, and counts tokens by the mask
        kind |= {"attention_mask": "int64[batch, past+seq] in 1..1"}
        fixed = 1
    stated = (kind[name] if name in kind else cache(value, truth) for name, value in zip(names, values, strict=True))
    texts = (f"{name}: {text.replace('[batch', f'[{fixed}')}" for name, text in zip(names, stated, strict=True))
    parameters: dict[str, object] = {"model": truth.model, "takes": " ".join(names)}
    given = [value.name for value in read_foreign(path).outputs]
    caches = any("past" in name or "present" in name for name in given)
    if len(given) > 1 and not caches:
        parameters |= {"gives": " ".join(given)}
    if truth.exporter == "onnxruntime-genai":
        parameters |= {"vocabulary": 96}
    if (truth.exporter, truth.model) in OTHER_WEIGHTS:
        parameters |= {"weights": str(path)}
    # a cache that comes out of a call without one is left aside
    first = (f"{given[0]}=y",) if caches and not any(name.startswith("past") for name in names) else ()
    return Call((*texts, *first), parameters, LONGEST.get(truth.model, ROWS))


def cache(value: FileValue, truth: Truth) -> str:
    """Return what keys or values of a layer are."""
    assert value.axes is not None
    heads, width = value.axes[1], value.axes[3]
    held = next(iter(truth.held)).parameters
    return f"float32[batch, {heads}, past, {width if isinstance(width, int) else held['head_dim']}]"


def held_against_model(path: Path, truth: Truth, max_len: int = 0) -> ValidateResult:
    """Hold a file against its model, in calls as long as the table says, or up to another length."""
    how = call_of(path, truth)
    return posenc_export.prove(
        path, Rebuilt, inputs=how.inputs, parameters=how.parameters, max_len=max_len or how.max_len, runtimes="ort-cpu"
    )


@dataclass(frozen=True)
class Proved:
    """What came of a file.

    Args:
        file: its name.
        model: a name of the table of models.
        exporter: which.
        optimizer: what changed the file after that, "" for nothing: it is held against the file before.
        verdict: "pass", "fail" or "refused".
        cases: the calls that were compared.
        error: the largest difference from eager, or from the file before, as a share of the largest value.
        why: of a file that does not pass, the first line on it.
        fault: what the table of files says is wrong with it, "" for a right one.
    """

    file: str
    model: str
    exporter: str
    optimizer: str
    verdict: str
    cases: int = 0
    error: float | None = None
    why: str = ""
    fault: str = ""


def measured(path: Path, truth: Truth, before: Path | None) -> Proved:
    """Hold a file against its model, or an optimized one against the file before it."""
    row = Proved(
        truth.file,
        truth.model,
        truth.exporter,
        truth.optimizer,
        "refused",
        fault=CAUSES.get(truth.file, truth.must_find),
    )
    try:
        result = held_against_model(path, truth) if before is None else held_against_file(path, before, truth)
    except BadInput as refusal:
        return replace(row, why=refusal.message)
    # the largest value of an output stands beside each error
    compared = [c for verdict in result.verdicts for c in verdict.comparisons if c.against == "eager" and c.peak]
    errors = [c.max_abs / c.peak for c in compared if c.peak and np.isfinite(c.max_abs)]
    failed = [verdict for verdict in result.verdicts if verdict.status == "fail"]
    why = f"{failed[0].check}: {first_reason(failed[0])}" if failed else ""
    verdict = "fail" if failed else "pass"
    return replace(
        row, verdict=verdict, cases=len({c.case for c in compared}), error=max(errors, default=None), why=why
    )


def first_reason(verdict: Verdict) -> str:
    """Return the first line on what is wrong."""
    wrong = next((c for c in verdict.comparisons if not c.passed), None)
    return verdict.detail if wrong is None else f"{wrong.case}: {wrong.reason}"


def held_against_file(path: Path, before: Path, truth: Truth, max_len: int = 0) -> ValidateResult:
    """Hold an optimized file against the one before it, a quantized one against that with the rounded weights."""
    how = call_of(before, truth)
    atol = QUANTIZED if truth.optimizer == "quantize_dynamic" else None
    if truth.optimizer in ROUNDED:
        before = dequantised(before, path, path.with_name("rounded.onnx"))
    return posenc_export.prove(
        path, before, inputs=how.inputs, max_len=max_len or how.max_len, runtimes="ort-cpu", atol=atol
    )
