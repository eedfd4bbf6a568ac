"""Which task a folder is for, by what its config.json says; what is refused before weights are read.

A config whose `architectures` is `["LlamaForCausalLM"]` is for text-generation, since that task's classes end so. Each
`check_...` raises ValueError, in one line, where a model is not exported, or not for the task that somebody asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posenc_models.whole.auto_classes import has_class, types_of
from posenc_models.whole.contents import Contents
from posenc_models.whole.heads import has_headless, is_headless
from posenc_models.whole.pipeline import MODULES, STATIC, SentenceEncoder, sentence_encoder
from posenc_models.whole.tasks import (
    CONDITIONAL_GENERATION,
    PARTS,
    READS,
    SENTENCE_SIMILARITY,
    TASKS,
    Task,
    all_tasks,
    architecture_of,
    task_of,
    what_reads,
    written_of,
)

DEQUANTIZED = ("mxfp4",)
"""Ways to quantize weights that transformers undoes on a CPU, and leaves float weights."""
OF_SEVERAL = ("pairs", "scenes")
"""Kinds of models that are several in one."""
PAIR_OF_MODELS = "EncoderDecoderModel"
FEATURES = "feature-extraction"
"""The task for hidden states."""


def sentences_of(contents: Contents, task: str | None) -> SentenceEncoder | None:
    """Return what makes vectors of sentences behind a model, where its folder has that, and no other task is asked."""
    pipeline = contents.pipeline
    if task == SENTENCE_SIMILARITY and pipeline is None:
        raise ValueError(f"{contents.path} has no {MODULES}: --task {task} is for folders of sentence-transformers")
    is_asked = task == SENTENCE_SIMILARITY or (task is None and pipeline is not None and pipeline.is_of_sentences)
    if pipeline is None or not (is_asked or pipeline.first.name == STATIC):
        return None
    if task not in (None, SENTENCE_SIMILARITY):
        raise ValueError(f"{contents.path} holds {STATIC}, which gives vectors of sentences: it is no model for {task}")
    return sentence_encoder(pipeline, contents.config)


def check_unquantized(contents: Contents) -> None:
    """Raise ValueError where weights are stored in a form that is not exported."""
    said = contents.config.get("quantization_config")
    if said is None:
        return
    method = said.get("quant_method") if isinstance(said, Mapping) else said
    if method not in DEQUANTIZED:
        raise ValueError(
            f"{contents.path}: its weights are quantized by {method or 'a method without a name'} "
            "(quantization_config), which is not exported: take the folder with its float weights; --quantize rounds "
            "them to 8 or 4 bits here"
        )


def check_one_model(config: Mapping[str, Any], task: Task) -> None:
    """Raise ValueError where a config is that of several models, and the task is not for these together."""
    parts = [key for key in PARTS if isinstance(config.get(key), dict)]
    if set(parts) - {"text_config"} and not (task.kind in OF_SEVERAL and task.fits(config)):
        name = architecture_of(config)
        fitting = [one for one in all_tasks() if one.kind in OF_SEVERAL and one.ends_of(name) and one.fits(config)]
        names = dict.fromkeys(one.name for one in fitting if one.sense is None or set(one.sense.parts) & set(config))
        if names:
            raise ValueError(f"{name} is for {' or '.join(names)}, and not for {task.name}: give --task accordingly")
        several = dict.fromkeys(
            [*parts, *(key for key in config if key.endswith("_config") and _is_model(config[key]))]
        )
        raise ValueError(
            f"{architecture_of(config)} is several models in one ({', '.join(several)}): --model takes models of one, "
            "and of texts and images ...Model that compares them, and the text of ...ForConditionalGeneration"
        )


def _is_model(said: object) -> bool:
    return isinstance(said, Mapping) and "model_type" in said


def check_stacks(config: Mapping[str, Any], task: Task) -> None:
    """Raise ValueError where a model has an encoder and a decoder, and the task is for one graph, or vice versa."""
    if task.half or task.fits(config) or (config.get("is_encoder_decoder") is True) is bool(task.encoder):
        return
    have = "has an encoder and a decoder" if not task.encoder else "has no encoder with a decoder behind it"
    raise ValueError(f"{architecture_of(config)} {have}: it is no model for {task.name}")


def check_type(config: Mapping[str, Any], task: Task) -> None:
    """Raise ValueError where transformers has no model of the config's type for a task that --task names."""
    kind, types = config["model_type"], types_of(task.auto)
    if types and kind not in types and not task.ends_of(architecture_of(config)) and not config.get("auto_map"):
        raise ValueError(f"transformers has no model for {task.name} ({task.auto}) of model type {kind!r}")


def task_of_architecture(path: Path, config: Mapping[str, Any]) -> Task:
    """Return the task of a config's architecture; raise ValueError where none is known."""
    architectures = config.get("architectures")
    if not isinstance(architectures, list) or not architectures or not isinstance(architectures[0], str):
        raise ValueError(f"{path / 'config.json'} has no architectures: give --task, one of {', '.join(TASKS)}")
    name = architectures[0]
    # the longest ending says most: of Model and EncoderModel, of Model and LMHeadModel
    matches = [(max(map(len, ends)), task) for task in all_tasks() if (ends := task.ends_of(name))]
    longest = max((length for length, _ in matches), default=0)
    fitting = [task for length, task in matches if length == longest]
    chosen = next((task for task in fitting if task.fits(config)), None)
    if name.endswith(PAIR_OF_MODELS) and (chosen is None or not chosen.encoder):
        raise ValueError(f"{name} is not exported: its encoder and its decoder are models of two types")
    if chosen is None:
        if fitting:
            check_one_model(config, fitting[0])
        raise ValueError(_not_exported(name, config))
    if chosen.kind == "pairs" and (types := types_of(chosen.auto)) and config["model_type"] not in types:
        raise ValueError(
            f"{name} is not exported: of texts and images --model writes the types that {chosen.auto} has "
            f"({chosen.name}), and the text of ...{CONDITIONAL_GENERATION}"
        )
    return chosen


def _not_exported(name: str, config: Mapping[str, Any]) -> str:
    """Return a line on a class that none of the tasks is for: what is exported of models with such a config."""
    written, reads = written_of(config), what_reads(config)
    if not has_class(name):
        return f"no task is known for {name}: give --task, one of {', '.join(written or TASKS)}"
    if not reads:
        keys = ", ".join(dict.fromkeys(READS.values()))
        stacks = "is of an encoder and a decoder, and " * (config.get("is_encoder_decoder") is True)
        return f"{name} is not exported: its config.json {stacks}has no key that says what goes in ({keys})"
    if set(PARTS) & set(config):  # the text of several models is written by the name of its class
        written |= written_of({**config, "architectures": [CONDITIONAL_GENERATION]})
    listed = ", ".join(f"{task} ({ends})" for task, ends in written.items()) or "nothing"
    main = next(iter(task_of(FEATURES, config).inputs))
    alone = "" if is_headless(name, config) else " without its head"
    headless = FEATURES in written and has_headless(name, config, main)
    advice = f"; --task {FEATURES} tries it{alone}, for its hidden states" * headless
    return f"{name} is not exported: of {reads} --model writes {listed}{advice}"
