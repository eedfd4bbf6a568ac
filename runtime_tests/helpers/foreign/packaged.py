"""Exporters that live in environments of their own: genai's builder, mobius, optimum."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from helpers.foreign.built import KINDS, Made
from helpers.foreign.exporters import Exporter


def saved(made: Made, folder: Path) -> Path:
    """Write a model as its folder on a hub would be, with a tokenizer of numbers, which exporters want to copy."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    place = folder / "saved"
    made.bare.save_pretrained(place)  # type: ignore[operator]
    # a builder that finds no tokenizer looks for one on the network
    words = Tokenizer(WordLevel({str(number): number for number in range(64)}, unk_token="0"))
    PreTrainedTokenizerFast(tokenizer_object=words, pad_token="0", bos_token="1", eos_token="2").save_pretrained(place)
    return place


def genai(made: Made, folder: Path) -> Path:
    """Build with the builder of onnxruntime-genai, in float32 for the processor."""
    builder = import_module("onnxruntime_genai.models.builder")
    source, written = saved(made, folder), folder / "genai"
    place = (None, str(source), str(written), "fp32", "cpu", str(folder / "cache"))
    builder.create_model(*place, **builder.parse_extra_options(*place, []))
    return written / "model.onnx"


def mobius(made: Made, folder: Path) -> Path:
    """Build with mobius."""
    written = folder / "mobius"
    import_module("mobius").build(str(saved(made, folder)), dtype="f32").save(str(written))
    return next(iter(sorted(written.rglob("*.onnx"))))


def optimum(made: Made, folder: Path) -> Path:
    """Export with optimum, for the task of the model's class and without a cache."""
    export = import_module("optimum.exporters.onnx").onnx_export_from_model
    tasks = {"decoder": "text-generation", "tokens": "feature-extraction", "pixels": "feature-extraction"}
    names = {row.auto: tasks[name] for name, row in KINDS.items() if name in tasks}
    written = folder / "optimum"
    export(made.bare, written, task=names[made.kind.auto], monolith=True, do_validation=False)
    return written / "model.onnx"


PACKAGED: Mapping[str, Exporter] = {"onnxruntime-genai": genai, "mobius": mobius, "optimum": optimum}
