"""Options that take words: suggestions for unknown words, several words in one option, the command as typed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from posenc.registry import did_you_mean
from posenc_export.common.errors import BadInput

SAME_MEANING = {
    **dict.fromkeys(("ort-gpu", "gpu", "cuda", "onnxruntime-gpu", "cudaexecutionprovider"), "ort-cuda"),
    **dict.fromkeys(("ort", "cpu", "onnxruntime", "cpuexecutionprovider"), "ort-cpu"),
    **dict.fromkeys(("libtorch", "libtorch-cpu"), "libtorch-cpp"),
    **dict.fromkeys(("web", "wasm", "ort-web"), "onnxruntime-web"),
    **dict.fromkeys(("webgpu", "ort-webgpu"), "browser-webgpu"),
    **dict.fromkeys(("float16", "half", "f16"), "fp16"),
    "bfloat16": "bf16",
    **dict.fromkeys(("float32", "float", "single", "f32"), "fp32"),
    **dict.fromkeys(("jit", "script", "pt"), "torchscript"),
    **dict.fromkeys(("torch.export", "exported-program", "exportedprogram"), "pt2"),
    **dict.fromkeys(("aotinductor", "inductor"), "aoti"),
    **dict.fromkeys(("q4", "4bit", "4", "uint4"), "int4"),
    **dict.fromkeys(("q8", "8bit", "8", "uint8"), "int8"),
    **dict.fromkeys(("causal-lm", "chat", "llm"), "text-generation"),
    **dict.fromkeys(("summarization", "translation", "seq2seq-lm", "seq2seq"), "text2text-generation"),
    "masked-lm": "fill-mask",
    "ner": "token-classification",
    **dict.fromkeys(("sentence-similarity", "embedding", "embeddings", "default"), "feature-extraction"),
    **dict.fromkeys(
        ("sentiment-analysis", "sequence-classification", "zero-shot-classification"), "text-classification"
    ),
}
"""Words that other tools, or everyday speech, have for one of ours."""


class WordChoice(click.Choice[str]):
    """A choice of words; the error for an unknown word names the nearest one first."""

    def get_invalid_choice_message(self, value: object, ctx: click.Context | None) -> str:
        """Return the error for an unknown word."""
        known = [str(choice) for choice in self.choices]
        meant = SAME_MEANING.get(str(value).lower())
        near = f"did you mean {meant!r}? " if meant in known else did_you_mean(str(value), known)
        return f"unknown {str(value)!r}: {near}known: {', '.join(known)}"


class SeveralWords(click.Option):
    """An option that may be given several times, and takes several words with commas between."""

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Return all words, in the option's type."""
        if isinstance(value, list | tuple):
            # 'onnx, pt2' is two words
            value = tuple(word.strip() for text in value for word in str(text).split(","))
        return super().type_cast_value(ctx, value)


def check_file(file: Path | None) -> None:
    """Raise BadInput, before any work, for a file in a folder that does not exist."""
    if file is not None and not file.parent.is_dir():
        raise BadInput(f"cannot write {file}: there is no folder {file.parent}")


def typed(context: click.Context) -> Iterator[click.Parameter]:
    """Yield the parameters that were typed on the command line."""
    for parameter in context.command.params:
        if context.get_parameter_source(parameter.name or "") is click.core.ParameterSource.COMMANDLINE:
            yield parameter


def spelled(parameter: click.Parameter, value: object) -> str:
    """Return the long name of an option; for a switch with two names, the name that stands for this value."""
    names = parameter.opts if value or not parameter.secondary_opts else parameter.secondary_opts
    return max(names, key=len)


def command_line(context: click.Context, without: str) -> str:
    """Return the command that was typed, one option left out."""
    words = ["posenc", context.info_name or ""]
    for parameter in typed(context):
        if parameter.name == without:
            continue
        value = context.params[parameter.name or ""]
        for word in value if parameter.multiple else [value]:
            if isinstance(parameter, click.Argument):
                words.append(str(word))
            elif getattr(parameter, "is_flag", False):
                words.append(parameter.opts[0] if word else parameter.secondary_opts[0])
            else:
                words += [parameter.opts[0], str(word)]
    return shlex.join(words)
