"""Which rope settings a config has, and under which keys: of its language model, of a layer type.

Old and new names are read: rope_scaling or rope_parameters, one object for all layers or one a layer type, at the top
or in the part that describes the language model.
"""

from __future__ import annotations

from collections.abc import Mapping

from posenc.hf.defaults import DEFAULTS, NO_DEFAULTS
from posenc.hf.scaling import scaling_names
from posenc.hf.settings import Json, Settings, short

ROPE_KEYS = ("rope_parameters", "rope_scaling")
THETA_KEYS = ("rope_theta", "rotary_emb_base", "rotary_base")
PARTIAL_KEYS = ("partial_rotary_factor", "rotary_pct", "rope_pct", "rotary_percentage")
HEAD_DIM_KEYS = ("qk_rope_head_dim", "head_dim", "kv_channels", "attention_head_dim")
WIDTH_KEYS, HEADS_KEYS = ("hidden_size", "n_embd", "d_model"), ("num_attention_heads", "n_head", "n_heads")
CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len")
TEXT_KEYS = ("text_config", "language_config", "llm_config")
EVIDENCE = (*ROPE_KEYS, *THETA_KEYS, *PARTIAL_KEYS, "rotary_dim", "qk_rope_head_dim")
OTHER_KEYS = ("alibi", "position_embedding_type", "position_biased_input")
"""Keys of encodings that are not rotary."""
LOCAL_THETA = {"rope_local_base_freq": "rope_theta", "local_rope_theta": "global_rope_theta"}
"""Gemma 3 and ModernBERT, as they were first written: the key of sliding layers, and that of the others."""
OTHER_VALUES = frozenset(("rope_type", "type", "rope_theta", "mrope_section", "mrope_interleaved"))
"""Keys of rope settings that hold a value; any other that holds an object is a layer type."""


def text_part(content: Json) -> Settings:
    """Return the part of a config that describes the language model: the whole, where that says all that is needed."""
    complete = all(any(content.get(k) for k in keys) for keys in (EVIDENCE, (*HEAD_DIM_KEYS, *WIDTH_KEYS)))
    for key in TEXT_KEYS if not complete else ():
        part = content.get(key)
        if isinstance(part, dict):
            return Settings({**content, **part}, key)
    return Settings(content)


def check_rotary(content: Json, more: str = "") -> None:
    """Raise ValueError where a config has no rotary encoding, saying what it has instead, and more."""
    model_type = content.get("model_type")
    if not isinstance(model_type, (str, type(None))):
        raise ValueError(f"model_type must be a name, got {short(model_type)}")
    others = {key: content[key] for key in OTHER_KEYS if content.get(key)}
    attention = content.get("attn_config")
    if isinstance(attention, dict) and attention.get("alibi"):
        others["attn_config.alibi"] = True
    always = DEFAULTS.get(model_type or "", NO_DEFAULTS).rope_theta is not None
    if others.get("alibi") or not (always or any(key in content for key in (*EVIDENCE, *LOCAL_THETA))):
        instead = ", ".join(f"{key} is {value!r}" for key, value in others.items())
        instead = instead or "none of rope_parameters, rope_scaling, rope_theta, rotary_dim, ..."
        raise ValueError(f"the config (model_type {model_type!r}) has no rotary encoding: {instead}{more}")


def rope_settings(text: Settings, layer_type: str | None) -> Settings:
    """Return the rope settings, of a layer type where they differ."""
    key = next((key for key in ROPE_KEYS if text.content.get(key)), None)
    content = text.content[key] if key else {}
    if not isinstance(content, dict):
        raise ValueError(f"{text.path_of(str(key))} must be an object, got {content!r}")
    rope = Settings(content, text.path_of(key) if key else "default")
    layers = _layers(rope) or _first_written_layers(text.content, content)
    if layers:
        return _of_layer(Settings(layers, rope.path), layer_type)
    if layer_type is not None:
        raise ValueError(f"layer type {layer_type!r} was given, and all layers of this config are alike")
    return rope


def _layers(rope: Settings) -> Json:
    """Return what rope settings hold by layer type: objects, or null; nothing, where all layers are alike."""
    values = OTHER_VALUES | scaling_names()
    objects = [key for key, value in rope.content.items() if isinstance(value, dict)]
    for key in objects:
        if key in values:
            raise ValueError(f"{rope.path_of(key)} must be a value, got {short(rope.content[key])}")
    layers = {key: value for key, value in rope.content.items() if key not in values} if objects else {}
    for key, value in layers.items():
        if not isinstance(value, (dict, type(None))):
            expected = f"{rope.path_of(key)} must be an object, as {objects[0]} is, or null"
            raise ValueError(f"{expected}, got {short(value)}")
    return layers


def _first_written_layers(content: Json, rope: Json) -> Json:
    """Return rope settings by layer type of configs that give sliding layers a base of their own."""
    local = next((key for key in LOCAL_THETA if key in content), None)
    if local is None:
        return {}
    full = {"rope_theta": content.get(LOCAL_THETA[local], 10000.0), **rope}
    return {"full_attention": full, "sliding_attention": {"rope_theta": content[local]}}


def _of_layer(layers: Settings, layer_type: str | None) -> Settings:
    names = ", ".join(layers.content)
    if layer_type is None and len(layers.content) > 1:
        raise ValueError(f"layers of this config differ: choose one of {names} with --layer-type")
    layer_type = layer_type or next(iter(layers.content))
    if layer_type not in layers.content:
        raise ValueError(f"unknown layer type {layer_type!r}: the config has {names}")
    rope = layers.content[layer_type]
    if not isinstance(rope, Mapping):
        raise ValueError(f"{layers.path_of(layer_type)} is null: layers of this type have no rotary encoding")
    return Settings(rope, layers.path_of(layer_type))
