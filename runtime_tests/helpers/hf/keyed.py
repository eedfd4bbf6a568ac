"""One key at a time: the keys that a model's code reads are changed, and what is read of the config must follow."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from helpers.hf.changed_keys import CONTEXT, Change, changes_of, keys_of, scaling_of
from helpers.hf.surveyed import LACKS, Finding, apart, findings_of, word_of
from posenc_models.asking import CannotAsk, load

WORDS = ("followed", "the same", "refused", "wrong", "not decided", "not taken")
"""What comes of a change: the reading is another and right; it is the same, and so is the model; it is refused; it is
not that of the model; the model is not asked; the model's own class or code does not take the change."""
CODE_FAILS = (" refuses the config", "refuses: ", "rotates nothing that is seen (")
"""Reasons of a model's own code that fails where a key is changed."""
FAILS_ITSELF = "the model's own code fails for this config"
"""The same, where it is called as it is, and what is read does not come to pass."""
SECONDS = 240
"""What a model type, with all of its keys, may take."""
LAYERS = 6
"""Layers that a model has here."""
TYPES = [
    name
    for line in (
        "llama gemma3_text gemma4_text qwen2_vl_text qwen3_vl_text glm4v_text phi3 stablelm gpt_neox gptj cohere2",
        "flint gpt_oss deepseek_v3 minimax smollm3 modernbert olmo3 laguna falcon bert roberta gpt2 opt vit mpt bloom",
        "t5 deberta-v2 swin swinv2 beit whisper xlnet wav2vec2-conformer",
        "dinov3_vit pixtral gemma4_vision sam3_vit_model sam2_video efficientloftr neomme",
    )
    for name in line.split()
]
"""Types that are tried: of each way to say a rotary encoding one, and of each other scheme."""
ROPE_TYPES = ("linear", "dynamic", "yarn", "longrope", "llama3")
"""Rope types that a llama is given, each key of which is changed."""
FOLDER = Path(__file__).parents[2] / "data" / "configs"
OF_FILES = sorted(path.stem for path in FOLDER.glob("*.json"))
"""Whole files as they were published."""


@dataclass(frozen=True)
class Outcome:
    """What comes of a change of one key: a word of `WORDS`, and why."""

    name: str
    path: str
    how: str
    word: str
    why: str


def config_of(name: str) -> dict[str, Any]:
    """Return the config that is changed: a file's, a llama's of a rope type ("llama:yarn"), or a type's default one."""
    if name in OF_FILES:
        return file_of(name)
    model_type, _, rope_type = name.partition(":")
    content = default_of(model_type)
    if rope_type:
        theta = {"rope_type": rope_type, "rope_theta": 1e4}
        content["rope_parameters"] = {**theta, **scaling_of(rope_type, content["head_dim"] // 2)}
        content["max_position_embeddings"] = CONTEXT if rope_type == "dynamic" else 4 * CONTEXT
    return content


def file_of(name: str) -> dict[str, Any]:
    """Return a published file, of few layers, its contexts as short as the calls that compare."""
    content: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    scaling = content.get("rope_scaling") or {}
    by_length = "dynamic" in scaling.values()
    content["max_position_embeddings"] = CONTEXT if by_length else 4 * CONTEXT
    for inner in (content, scaling):
        if "original_max_position_embeddings" in inner:
            inner["original_max_position_embeddings"] = CONTEXT
    return {**content, "num_hidden_layers": 2}


def default_of(name: str) -> dict[str, Any]:
    """Return the default configuration of a type, of few layers where its class takes that."""
    from transformers import AutoConfig

    for layers in ({"num_hidden_layers": LAYERS}, {}):
        try:
            config = AutoConfig.for_model(name, **{**LACKS.get(name, {}), **layers})
        except Exception:
            if not layers:
                raise
        else:
            content: dict[str, Any] = json.loads(json.dumps(config.to_dict(), default=str))
            return content
    raise AssertionError(name)


@contextmanager
def noted_reads(names: set[str]) -> Iterator[None]:
    """Note which attributes of configs are read while a part is built and called, not while the config is made."""
    from transformers import PreTrainedConfig

    making, make = [False], load.config_of
    read: Callable[[Any, str], Any] = PreTrainedConfig.__getattribute__

    def note(self: Any, name: str) -> Any:
        if not making[0] and not name.startswith("_"):
            names.add(read(self, "attribute_map").get(name, name))
        return read(self, name)

    def made(content: Mapping[str, Any], library: str) -> Any:
        making[0] = True
        try:
            return make(content, library)
        finally:
            making[0] = False

    with patch.object(PreTrainedConfig, "__getattribute__", note), patch.object(load, "config_of", made):
        yield


def keys_read(name: str, content: Mapping[str, Any]) -> tuple[list[Finding], list[tuple[str, Any]]]:
    """Return what comes of a config, and the keys that are read of it; of rope settings, and of files, all."""
    names: set[str] = set()
    model_type = str(content["model_type"])
    with noted_reads(names):
        findings = findings_of(model_type, content)
    keys = [(path, value) for path, value in keys_of(content) if path != "model_type"]
    return findings, [key for key in keys if name in OF_FILES or _is_read(key[0].split("."), names)]


def _is_read(path: list[str], names: set[str]) -> bool:
    """Return whether a key is read: one at the top, of a text or an image, or any of rope settings."""
    outer = path[:-1]
    is_rope = any(part.startswith("rope_") for part in outer)
    return is_rope or (path[-1] in names and set(outer) <= {"text_config", "vision_config", "attn_config"})


def outcomes_of(name: str, only: str = "") -> list[Outcome]:
    """Return what comes of each change of each key of a config; only: of the keys that have this in their path."""
    warnings.filterwarnings("ignore")
    content = config_of(name)
    before, keys = keys_read(name, content)
    found = [Outcome(name, "", "as it is", word_of(before), "; ".join(f.why for f in before))]
    if word_of(before) != "right":
        return found
    for path, value in keys:
        for choices in changes_of(content, path, value) if only in path else ():
            found.extend(_first_taken(name, choices, before))
    return found


def _first_taken(name: str, choices: list[Change], before: list[Finding]) -> list[Outcome]:
    """Return what comes of the first of several changes that the model takes, or of the last."""
    outcome = None
    for change in choices:
        outcome = judged(name, change, before)
        if outcome.word != "not taken":
            break
    return [] if outcome is None else [outcome]


def judged(name: str, change: Change, before: list[Finding]) -> Outcome:
    """Return what comes of one change."""
    to_outcome = partial(Outcome, name, change.path, change.how)
    try:
        load.config_of(change.content, "transformers")
    except CannotAsk as error:
        return to_outcome("not taken", str(error))
    try:
        after = findings_of(str(change.content["model_type"]), change.content)
    except Exception as error:  # a crash of the reading is a finding
        return to_outcome("wrong", f"{type(error).__name__}: {error}")
    parts = {finding.part for finding in before if finding.word == "right"}
    after = [finding for finding in after if finding.part in parts] or after
    words = {finding.word for finding in after}
    word = next(word for word in ("wrong", "not decided", "refused", "right") if word in words)
    reasons = [finding.why for finding in after if finding.word == word]
    why = "; ".join(reasons)
    if word == "right":
        read = [{(f.part, f.scheme, f.read) for f in found if f.word == "right"} for found in (before, after)]
        return to_outcome("the same" if read[0] == read[1] else "followed", why)
    texts = (FAILS_ITSELF,) if word == "wrong" else CODE_FAILS if word == "not decided" else ()
    fails = all(any(text in reason for text in texts) for reason in reasons)
    return to_outcome("not taken" if fails else word, why)


def tried(names: list[str]) -> Iterator[tuple[str, list[Outcome] | str]]:
    """Yield what comes of each config, each in a process of its own; or why nothing does."""
    findings_of("llama", default_of("llama"))
    for name in names:
        yield name, apart(outcomes_of, name, SECONDS)
