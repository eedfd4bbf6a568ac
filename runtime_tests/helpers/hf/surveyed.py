"""What is read of every model type, held against the model's own code: right, wrong, refused, not decided."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import re
import resource
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from helpers.hf.asked import Asked, built_in, modes_of, own_sides, question_of, verdict
from posenc_models import ModelConfig, read_config
from posenc_models.asking import CannotAsk, model_of
from posenc_models.asking.model import Disagrees
from posenc_models.config.encodings.parts import parts_of
from posenc_models.config.settings import Settings

Found = TypeVar("Found")
WORDS = ("right", "wrong", "refused", "not decided")
SECONDS = 90
"""What asking about a model type may take."""
MEMORY = 20 * 2**30
"""Bytes of addresses that asking about a model type may take."""
LAYER_TYPES = re.compile(r"choose one of (.*) with --layer-type")
SAMPLE = 101
"""One model type in so many is asked in the quick run."""


GLM = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}}
COMPASS = {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e4}}}
HUNYUAN = {"head_dim": 128, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [16] * 4}}
QWEN4 = {
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.25},
    **{"indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 128},
    **{"indexer_budget": 2048, "indexer_compress_ratio": 4},
}
AYA = {
    **{"model_type": "siglip_vision_model", "hidden_size": 1152, "num_attention_heads": 16, "num_hidden_layers": 27},
    **{"image_size": 364, "patch_size": 14, "intermediate_size": 4304},
}
LACKS: Mapping[str, Mapping[str, Any]] = {
    **{name: {"head_dim": 128} for name in ("hunyuan_v1_dense", "hunyuan_v1_moe", "ministral", "glm4_moe")},
    **dict.fromkeys(("glm4v_text", "glm_image_text"), GLM),
    "cohere_compass_text": COMPASS,
    "cohere_compass": {"text_config": COMPASS},
    "qwen3_omni_moe_thinker": {"text_config": {"head_dim": 128}},
    "qwen3_omni_moe": {"thinker_config": {"text_config": {"head_dim": 128}}},
    **{name: {"text_config": GLM} for name in ("glm4v", "glm46v", "glmga", "glm_image")},
    "glm4v_moe_text": {**GLM, "head_dim": 128},
    "glm4v_moe": {"text_config": {**GLM, "head_dim": 128}},
    "hunyuan_vl_text": HUNYUAN,
    "hunyuan_vl": {"text_config": HUNYUAN},
    "qwen4_exp_text": QWEN4,
    "qwen4_exp": {"text_config": QWEN4},
    "qwen3_omni_moe_text": {"head_dim": 128},
    "qwen3_omni_moe_talker_text": {"shared_expert_intermediate_size": 768},
    "nemotron": {"num_key_value_heads": 8},
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1},
    "chameleon": {"vocabulary_map": {"<image>": 8711}},
    "dbrx": {"attn_config": {"rope_theta": 5e5, "kv_n_heads": 8, "clip_qkv": 8}},
    "aya_vision": {"vision_config": AYA},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 16},
    "moonshine_streaming": {"num_key_value_heads": 8},
    "deepseek_ocr2_text": {"mlp_layer_types": ["dense"] + ["sparse"] * 31},
    "zamba2": {"use_mem_rope": True},
    "granitemoehybrid": {"position_embedding_type": "rope", "layer_types": ["full_attention"], "num_hidden_layers": 1},
    "bamba": {"attn_layer_indices": [0, 1], "num_hidden_layers": 2},
    "esm": {"position_embedding_type": "rotary", "vocab_size": 33, "mask_token_id": 32, "pad_token_id": 1},
    "t5gemma2_text": {"dropout_rate": 0.0},
    "t5gemma2_decoder": {"dropout_rate": 0.0},
    "t5gemma2_encoder": {"text_config": {"dropout_rate": 0.0}},
    "beit": {"use_relative_position_bias": True},
    "data2vec-vision": {"use_relative_position_bias": True},
}
"""What default configurations lack to be those of a model that is made, or that has the encoding of its type."""


@dataclass(frozen=True)
class Finding:
    """What comes of one encoding of a model type: a word of `WORDS`, and what answered or why none did.

    read: the parameters that were read.
    """

    name: str
    part: str
    scheme: str
    word: str
    why: str
    read: str = ""


def default_config(name: str) -> dict[str, Any] | str:
    """Return a default configuration as JSON, or why there is none."""
    from transformers import AutoConfig

    try:
        content: dict[str, Any] = json.loads(
            json.dumps(AutoConfig.for_model(name, **LACKS.get(name, {})).to_dict(), default=str)
        )
    except Exception as error:
        return f"its class has no default configuration: {str(error).splitlines()[0][:100]}"
    return content


PUBLISHED: Mapping[str, Any] = {
    **{"use_cache": True, "torch_dtype": "bfloat16", "transformers_version": "4.46.0", "pretraining_tp": 1},
    **{"use_sliding_window": False, "max_window_layers": 28, "use_mrope": False},
}
"""Keys that many published files have, and that change no position."""
PASSED_OVER: Mapping[str, Any] = {
    **{"interleaved": True, "mrope_interleaved": True, "llama_4_scaling_beta": 0.1},
    **{"alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0},
}
"""Values, as published files have them, of keys that a class has its validation pass over."""
STRETCHED = ("hunyuan_v1_dense", "hunyuan_v1_moe", "hunyuan_vl_text")
"""Types whose published files stretch the base by `alpha`."""


def as_published(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a configuration with the keys that published files have: old names, and what validation passes over.

    Which keys these are is what transformers itself keeps: `ignore_keys_at_rope_validation`, `attribute_map`, and the
    conversion of `rope_scaling`, `type` and of bases and shares beside them.
    """
    from transformers import CONFIG_MAPPING

    inner = {key: as_published(v, v["model_type"]) for key, v in content.items() if _is_config(v)}
    config = {**content, **inner}
    kind: Any = CONFIG_MAPPING[name] if name in CONFIG_MAPPING else None  # noqa: SIM401  (it has no `get`)
    rope = config.get("rope_parameters")
    if kind is None or not isinstance(rope, dict) or any(isinstance(value, dict) for value in rope.values()):
        return config
    rope = {key: value for key, value in rope.items() if value is not None}
    passed_over = getattr(kind, "ignore_keys_at_rope_validation", None) or ()
    rope |= {key: PASSED_OVER[key] for key in passed_over if key in PASSED_OVER and key not in rope}
    if name in STRETCHED:
        rope |= {"rope_type": "dynamic", "factor": 1.0, "alpha": 1000.0}
    beside = {key: rope.pop(key) for key in ("rope_theta", "partial_rotary_factor") if key in rope}
    rope = {"type": rope.pop("rope_type", "default"), **rope}
    del config["rope_parameters"]
    renamed = {new: config.pop(own) for new, own in (kind.attribute_map or {}).items() if own in config}
    return {**config, **renamed, **PUBLISHED, **beside, "rope_scaling": rope if rope != {"type": "default"} else None}


def _is_config(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("model_type"), str)


def findings_of(name: str, content: Mapping[str, Any]) -> list[Finding]:
    """Return what comes of each encoding that a config describes, of each type of its layers."""
    parts = [part.name for part in parts_of(Settings(content), name) if part.row is None or not part.row.lacks]
    wanted = list(dict.fromkeys([None, *parts]))
    found = [finding for part in wanted for finding in _of_part(name, content, part)]
    several = [finding for finding in found if "has several encodings" not in finding.why]
    return several or found


def _of_part(name: str, content: Mapping[str, Any], part: str | None) -> list[Finding]:
    try:
        ModelConfig.of(content, part=part)
    except ValueError as error:
        types = LAYER_TYPES.search(str(error))
        if types:
            return [_of_layers(name, content, part, layer_type) for layer_type in types[1].split(", ")]
    return [_of_layers(name, content, part, None)]


def _of_layers(name: str, content: Mapping[str, Any], part: str | None, layer_type: str | None) -> Finding:
    """Return what comes of one part, of the layers of one type."""
    called = ", ".join(filter(None, (part, layer_type)))
    try:
        reading = read_config(dict(content), layer_type, part=part)
        encoding = built_in(reading, modes_of(reading.scheme))
    except ValueError as error:
        return Finding(name, called, "", "refused", str(error))
    try:
        question = replace(question_of(content, part or "", reading, encoding), layer_type=layer_type or "")
        own = own_sides(content, part or "") or reading.parameters.get("window") or ()
        asked = Asked(encoding, model_of(question), (own, own) if isinstance(own, int) else tuple(own))
        word, why = verdict(asked)
    except Disagrees as error:
        word, why = "wrong", str(error)
    except CannotAsk as error:
        word, why = "not decided", str(error)
    return Finding(name, called, reading.scheme, word, why, str(sorted(reading.parameters.items())))


def names() -> list[str]:
    """Return every model type of transformers."""
    auto = importlib.import_module("transformers.models.auto.configuration_auto")
    return list(auto.CONFIG_MAPPING_NAMES)


def sample(version: str) -> list[str]:
    """Return the model types that are asked in the quick run: others with each version."""
    turn = zlib.crc32(version.encode()) % SAMPLE
    return [name for name in names() if zlib.crc32(name.encode()) % SAMPLE == turn]


def survey(wanted: Iterable[str], published: bool = False) -> Iterator[list[Finding]]:
    """Yield what comes of each model type, each in a process of its own: a copy of this one, which has asked before.

    Args:
        wanted: the model types, and classes of diffusers.
        published: whether configurations have the keys that published files have.
    """
    for name in ("llama", "bert", "vit"):
        of_type(name)
    for name in wanted:
        found = apart(of_published if published else of_type, name, SECONDS)
        yield [Finding(name, "", "", "not decided", found)] if isinstance(found, str) else found


def of_type(name: str) -> list[Finding]:
    """Return what comes of a model type of transformers, or a class of diffusers."""
    from posenc_models.config.encodings.diffusion import DIFFUSION

    warnings.filterwarnings("ignore")
    content = {"_class_name": name} if name in DIFFUSION else default_config(name)
    if isinstance(content, str):
        return [Finding(name, "", "", "not decided", content)]
    return findings_of(name, content)


def of_published(name: str) -> list[Finding]:
    """Return what comes of a model type of transformers whose configuration has the keys of published files."""
    warnings.filterwarnings("ignore")
    content = default_config(name)
    if isinstance(content, str):
        return [Finding(name, "", "", "not decided", content)]
    return findings_of(name, as_published(content, name))


def apart(ask: Callable[[str], Found], name: str, seconds: float) -> Found | str:
    """Return what comes of a model type, in a process that may crash, hang or grow; or why nothing does."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(False)
    child = context.Process(target=_answer, args=(theirs, ask, name), daemon=True)
    child.start()
    theirs.close()
    try:
        if ours.poll(seconds):
            found: Found | str = ours.recv()
            return found
        return f"it gave no answer within {seconds} s"
    except EOFError:
        return "the process that asked it ended"
    finally:
        child.kill()
        child.join()


def _answer(pipe: Connection, ask: Callable[[str], object], name: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    try:
        pipe.send(ask(name))
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {str(error).splitlines()[0][:200]}")


def word_of(findings: Iterable[Finding]) -> str:
    """Return the one word for a model type: wrong if any of its encodings is, right if some are and none is wrong."""
    words = {finding.word for finding in findings}
    return next(word for word in ("wrong", "right", "not decided", "refused") if word in words)
