"""Configs that a runtime wants beside a whole model: onnxruntime-genai's genai_config.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from posenc.strict_json import read_json
from posenc_export.bundle.decoders import states_in
from posenc_export.common.errors import bad_input

if TYPE_CHECKING:  # the command line loads this file for its options, and no models
    from posenc_export.write.targets import Target

RuntimeConfigName = Literal["genai"]
ONNX_FILE = "model.onnx"
HEADS = ("num_attention_heads", "n_head", "n_heads")
WIDTH = ("hidden_size", "n_embd", "d_model")
"""Keys of configs that say how many heads queries have, and how wide a token is."""


@dataclass(frozen=True)
class RuntimeConfig:
    """The config of a runtime.

    Attributes:
        file: Its name in the bundle.
        refuses: Returns why a target has none, or nothing.
        made: Returns what is in it, for a graph that lengthens its caches in place or one that does not.
    """

    file: str
    refuses: Callable[[Target], str]
    made: Callable[[Target, bool], dict[str, object]]


def _genai_refuses(target: Target) -> str:
    if states := states_in(target.encoding.inputs):
        return f"its config names keys and values alone, and layers of this model remember states ({states[0]})"
    shapes = _cached(target)
    if not shapes:
        return "onnxruntime-genai runs text-generation with a cache (--model)"
    if len(shapes) > 1:
        sizes = " and ".join(f"{heads} x {width}" for heads, width in sorted(shapes))
        return f"onnxruntime-genai takes one size of heads for all keys and values, and these have {sizes}"
    return ""


def _cached(target: Target) -> set[tuple[int, int]]:
    """Return the heads and features that keys and values of a target's cache have; none where it has no cache."""
    from posenc_models.whole import KEY_VALUES

    head = KEY_VALUES[0].partition("{")[0]
    return {
        (port.axes[1].size or 0, port.axes[3].size or 0)
        for port in target.encoding.inputs
        if port.name.startswith(head)
    }


def _genai(target: Target, in_place: bool) -> dict[str, object]:
    """Return genai_config.json of a causal language model.

    Its type is `decoder`, the one of which onnxruntime-genai assumes nothing beside what the file says.
    """
    from posenc_models.whole import GENERATION, KEY_VALUES

    config: Mapping[str, Any] = target.config
    ((heads, width),) = _cached(target)
    before, after = (text.format(layer="%d", part="{part}") for text in KEY_VALUES)
    cached = [port.name for port in target.encoding.inputs if port.name.startswith(before.partition("%")[0])]
    inputs = {port.name: port.name for port in target.encoding.inputs if port.name not in cached}
    (logits,) = (port.name for port in target.encoding.outputs if not port.name.startswith(after.partition("%")[0]))
    decoder = {
        "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
        "filename": ONNX_FILE,
        "head_size": width,
        "hidden_size": _first(config, WIDTH),
        "inputs": {**inputs, **{f"past_{part}_names": before.format(part=part) for part in ("key", "value")}},
        "outputs": {
            logits: logits,
            **{f"present_{part}_names": after.format(part=part) for part in ("key", "value")},
        },
        "num_attention_heads": _first(config, HEADS) or heads,
        "num_hidden_layers": len(cached) // 2,
        "num_key_value_heads": heads,
    }
    generation = target.companions.get(GENERATION)
    with bad_input():
        said: Any = read_json(generation) if generation is not None else {}
    tokens = {**config, **{key: value for key, value in said.items() if value is not None}}
    ends = tokens.get("eos_token_id")
    length = _first(config, ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx")) or target.spec.max_len
    model = {
        "type": "decoder",
        "bos_token_id": tokens.get("bos_token_id"),
        "eos_token_id": ends,
        "pad_token_id": tokens.get("pad_token_id"),
        "context_length": length,
        "vocab_size": config["vocab_size"],
        "decoder": decoder,
    }
    search = {"do_sample": False, "max_length": length, "num_beams": 1, "past_present_share_buffer": in_place}
    return {"model": {key: value for key, value in model.items() if value is not None}, "search": search}


def _first(config: Mapping[str, Any], keys: tuple[str, ...]) -> int | None:
    return next((config[key] for key in keys if isinstance(config.get(key), int)), None)


RUNTIME_CONFIGS: Mapping[str, RuntimeConfig] = {"genai": RuntimeConfig("genai_config.json", _genai_refuses, _genai)}
"""The configs that an export writes, by the names of their runtimes."""
