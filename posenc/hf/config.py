"""A model's config.json, as Hugging Face writes it, to a rotary scheme and its parameters. It needs no transformers.

Old and new names are read: rope_scaling or rope_parameters, type or rope_type, and what single models call their own.
Where a key is absent, what transformers does then is done; what was taken from elsewhere is said in `origin`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack

from posenc.parameters import checked
from posenc.rope_types import ROPE_TYPES, Scaling

INTERLEAVED = frozenset(
    "gptj codegen cohere cohere2 glm glm4 ernie4_5 ernie4_5_moe helium llama4 llama4_text "  # noqa: SIM905
    "deepseek_v2 deepseek_v3 axk1 longcat_flash youtu".split()
)
"""Model types whose pairs are neighbouring features."""
PARTIAL = {"gpt_neox": 0.25, "stablelm": 0.25, "qwen3_next": 0.25}
PARTIAL |= dict.fromkeys(("phi", "glm", "glm4", "glm4_moe", "persimmon", "nemotron", "fuyu", "recurrent_gemma"), 0.5)
"""The share of a head that turns, where a config of this type does not say."""
ROTARY_DIM = {"gptj": 64, "codegen": 64}
ALWAYS = frozenset(
    "llama mistral gptj codegen gpt_neox falcon phi phi3 qwen2 qwen3 stablelm gemma gemma2 olmo "  # noqa: SIM905
    "starcoder2 persimmon cohere glm qwen2_moe qwen3_moe internlm2".split()
)
"""Model types that are rotary, with a base of 10000, where a config says nothing of it."""
SECTIONS = dict.fromkeys(("qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"), (16, 24, 24))
VARIANTS = ("", "_text", "_moe", "_moe_text")
SECTIONS_BY_TURNS = dict.fromkeys([f"qwen3_vl{v}" for v in VARIANTS], (24, 20, 20))
SECTIONS_BY_TURNS |= dict.fromkeys([f"qwen3_5{v}" for v in VARIANTS], (11, 11, 10))
"""Model types whose tokens have several positions: sections where a config does not say, in runs or by turns."""
THETA_KEYS = ("rope_theta", "rotary_emb_base", "rotary_base")
PARTIAL_KEYS = ("partial_rotary_factor", "rotary_pct", "rope_pct", "rotary_percentage")
EVIDENCE = ("rope_parameters", "rope_scaling", *THETA_KEYS, *PARTIAL_KEYS, "rotary_dim", "qk_rope_head_dim")
LOCAL_THETA = {"rope_local_base_freq": "rope_theta", "local_rope_theta": "global_rope_theta"}
"""Gemma 3 and ModernBERT, as they were first written: the key of sliding layers, and that of the others."""
KNOWN = frozenset((*Scaling.__annotations__, "rope_type", "type", "rope_theta", "mrope_section", "mrope_interleaved"))
"""Keys of rope settings; any other that holds an object is a layer type."""
READ = ("rope_type", "type", "mrope_section", "mrope_interleaved", *THETA_KEYS, *PARTIAL_KEYS)
"""Keys of rope settings that are always read; what is not, and is no parameter of the rope type, is told."""
RENAMED = {"su": "longrope", "mrope": "default"}
HEAD_DIM = ("qk_rope_head_dim", "head_dim", "kv_channels", "attention_head_dim")
WIDTH, HEADS = ("hidden_size", "n_embd", "d_model"), ("num_attention_heads", "n_head", "n_heads")
TEXT = ("text_config", "language_config", "llm_config")


@dataclass(frozen=True)
class Read:
    """What a config says: the scheme, its keyword arguments, and for each the key it was read from.

    Arguments that are there from the start, given by the user, are stronger than the config.
    """

    scheme: str
    parameters: dict[str, Any] = field(default_factory=dict)
    origin: dict[str, str] = field(default_factory=dict)
    max_position_embeddings: int | None = None

    def set(self, name: str, value: Any, origin: str) -> None:
        """Note a parameter and where it is from, unless it was given."""
        if name not in self.parameters:
            self.parameters[name] = value
            self.origin[name] = origin


def load_config(path: str | Path) -> dict[str, Any]:
    """Return a config.json, or that of a model's folder; raise ValueError, in one line, where it is none."""
    file = Path(path)
    file = file / "config.json" if file.is_dir() else file
    if not file.is_file():
        raise ValueError(f"{file} does not exist: give a config.json, or a model's folder that has one")
    try:
        found = json.loads(file.read_text(encoding="utf-8-sig"))
    except (ValueError, OSError, RecursionError) as error:
        raise ValueError(f"{file} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{file} holds a {type(found).__name__}: expected the object that a model's config.json is")
    return found


def scheme_of(config: Mapping[str, Any], layer_type: str | None = None) -> str:
    """Return the scheme that a config describes: "rope", or "mrope" where tokens have several positions."""
    config, prefix = _text_part(config)
    _check_rotary(config)
    rope, where = _rope_dict(config, layer_type, prefix)
    sections, _ = _sections(config, rope, where)
    if "mrope" in (rope.get("rope_type"), rope.get("type")) and not sections:
        raise ValueError(f"{where}.mrope_section is missing: rope type mrope needs it")
    return "mrope" if sections else "rope"


def _sections(config: Mapping[str, Any], rope: Mapping[str, Any], where: str) -> tuple[Any, str]:
    """Return how pairs are shared out among several positions, or None, and where that is said."""
    kind = config.get("model_type")
    if rope.get("mrope_section"):
        sections = rope["mrope_section"]
        if not isinstance(sections, list):
            raise ValueError(f"{where}.mrope_section must be a list of whole numbers, got {_short(sections)}")
        path = f"{where}.mrope_section"
        return tuple(_whole((n, f"{path}[{i}]")) for i, n in enumerate(sections)), path
    return {**SECTIONS, **SECTIONS_BY_TURNS}.get(str(kind)), f"default of model_type {kind}"


def read_config(
    config: Mapping[str, Any], layer_type: str | None = None, given: Mapping[str, Any] | None = None
) -> Read:
    """Return the rotary scheme that a config describes, of one of its layer types where those differ.

    given: parameters to take as they are, whatever the config says of them.
    Raises ValueError, in one line that names the key, for a config that is not rotary, an unknown rope type, a missing
    or malformed field, and a layer type that is missing, or that the config has not.
    """
    scheme = scheme_of(config, layer_type)
    config, prefix = _text_part(config)
    rope, where = _rope_dict(config, layer_type, prefix)
    sections, said = _sections(config, rope, where)
    read = Read(scheme, dict(given or {}), dict.fromkeys(given or {}, "given"), _maximum(config))
    _read_type(read, rope, where, config)
    _read_width(read, config, rope, where, prefix, layer_type)
    _read_theta(read, config, rope, where, prefix)
    if config.get("model_type") in INTERLEAVED:
        read.set("layout", "interleaved", f"model_type {config['model_type']}")
    if sections:
        read.set("sections", tuple(sections), said)
        if config.get("model_type") in SECTIONS_BY_TURNS:
            read.set("section_layout", "interleaved", f"model_type {config['model_type']}")
        elif rope.get("mrope_interleaved") is True:
            read.set("section_layout", "interleaved", f"{where}.mrope_interleaved")
    _read_scaling(read, config, rope, where)
    return read


def context_of(config: Mapping[str, Any]) -> int | None:
    """Return how many positions a model is made for, if its config says so."""
    return _maximum(_text_part(config)[0])


def _text_part(config: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """Return the part of a config that describes the language model, and its path."""
    for key in TEXT:
        said = [any(config.get(k) for k in keys) for keys in (EVIDENCE, (*HEAD_DIM, *WIDTH))]
        if isinstance(config.get(key), dict) and not all(said):
            return {**config, **config[key]}, f"{key}."
    return config, ""


def _check_rotary(config: Mapping[str, Any]) -> None:
    """Raise ValueError where a config has no rotary encoding, saying what it has instead."""
    kind = config.get("model_type")
    if not isinstance(kind, (str, type(None))):
        raise ValueError(f"model_type must be a name, got {_short(kind)}")
    other = {k: config[k] for k in ("alibi", "position_embedding_type", "position_biased_input") if config.get(k)}
    if isinstance(config.get("attn_config"), dict) and config["attn_config"].get("alibi"):
        other["attn_config.alibi"] = True
    told = ", ".join(f"{k} is {v!r}" for k, v in other.items())
    if other.get("alibi") or not (any(key in config for key in (*EVIDENCE, *LOCAL_THETA)) or kind in ALWAYS):
        raise ValueError(
            f"the config (model_type {kind!r}) has no rotary encoding"
            + (f": {told}" if told else ": none of rope_parameters, rope_scaling, rope_theta, rotary_dim, ...")
        )


def _rope_dict(config: Mapping[str, Any], layer_type: str | None, prefix: str) -> tuple[dict[str, Any], str]:
    """Return the dict of rope settings, of a layer type where they differ, and its path."""
    key = next((k for k in ("rope_parameters", "rope_scaling") if config.get(k)), None)
    rope = config[key] if key else {}
    if not isinstance(rope, dict):
        raise ValueError(f"{prefix}{key} must be an object, got {rope!r}")
    where = f"{prefix}{key}" if key else "default"
    objects = [name for name, one in rope.items() if isinstance(one, dict)]
    for name in objects:
        if name in KNOWN:
            raise ValueError(f"{where}.{name} must be a value, got {_short(rope[name])}")
    nested = {name: one for name, one in rope.items() if name not in KNOWN} if objects else {}
    for name, one in nested.items():
        if not isinstance(one, (dict, type(None))):
            raise ValueError(f"{where}.{name} must be an object, as {objects[0]} is, or null, got {_short(one)}")
    local = next((k for k in LOCAL_THETA if k in config), None)
    if local is not None and not nested:
        globally = {"rope_theta": config.get(LOCAL_THETA[local], 10000.0), **rope}
        nested = {"full_attention": globally, "sliding_attention": {"rope_theta": config[local]}}
    if nested:
        return _of_layer(nested, layer_type, where)
    if layer_type is not None:
        raise ValueError(f"layer type {layer_type!r} was given, and all layers of this config are alike")
    return rope, where


def _of_layer(nested: Mapping[str, Any], layer_type: str | None, where: str) -> tuple[dict[str, Any], str]:
    known = ", ".join(nested)
    if layer_type is None and len(nested) > 1:
        raise ValueError(f"layers of this config differ: choose one of {known} with --layer-type")
    layer_type = layer_type or next(iter(nested))
    if layer_type not in nested:
        raise ValueError(f"unknown layer type {layer_type!r}: the config has {known}")
    if nested[layer_type] is None:
        raise ValueError(f"{where}.{layer_type} is null: layers of this type have no rotary encoding")
    return nested[layer_type], f"{where}.{layer_type}"


def _read_type(read: Read, rope: Mapping[str, Any], where: str, config: Mapping[str, Any]) -> None:
    key = "rope_type" if "rope_type" in rope else "type"
    told = rope.get(key, "default")
    if config.get("model_type") == "phi3" and told == "yarn":
        told = "longrope"  # Phi-3's own name for it
    name = RENAMED.get(told, told) if isinstance(told, str) else ""
    if name not in ROPE_TYPES:
        raise ValueError(f"{where}.{key} is {_short(told)}: expected one of {', '.join(ROPE_TYPES)}, su or mrope")
    read.set("rope_type", name, f"{where}.{key}" if key in rope else "default")


def _read_width(  # noqa: PLR0917
    read: Read, config: Mapping[str, Any], rope: Mapping[str, Any], where: str, prefix: str, layer_type: str | None
) -> None:
    """Read head_dim, and how many features of a head turn."""
    head_dim = _head_dim(read, config, prefix, layer_type)
    if config.get("qk_rope_head_dim"):
        return
    if config.get("rotary_dim") or config.get("model_type") in ROTARY_DIM:
        key = "rotary_dim" if config.get("rotary_dim") else f"default of model_type {config['model_type']}"
        value = config.get("rotary_dim") or ROTARY_DIM[config["model_type"]]
        read.set("rotary_dim", _whole((value, f"{prefix}{key}")), f"{prefix}{key}")
        return
    found = _first(PARTIAL_KEYS, (rope, f"{where}."), (config, prefix))
    if found is None and config.get("model_type") in PARTIAL:
        found = PARTIAL[config["model_type"]], f"default of model_type {config['model_type']}"
    if found is None:
        return
    share = _number(found)
    if read.parameters["rope_type"] == "proportional":
        read.set("partial_rotary_factor", share, found[1])
    elif int(head_dim * share) != head_dim:
        read.set("rotary_dim", int(head_dim * share), f"{found[1]} {share:g} of head_dim {head_dim}")


def _head_dim(read: Read, config: Mapping[str, Any], prefix: str, layer_type: str | None) -> int:
    if "head_dim" in read.parameters:
        return int(read.parameters["head_dim"])
    keys: tuple[str, ...] = HEAD_DIM
    if layer_type == "full_attention" and config.get("global_head_dim"):
        keys = ("global_head_dim",)
    found = _first(keys, (config, prefix))
    if found is not None:
        head_dim, origin = _whole(found), found[1]
    else:
        width, heads = _first(WIDTH, (config, prefix)), _first(HEADS, (config, prefix))
        if width is None or heads is None:
            missing = "hidden_size" if width is None else "num_attention_heads"
            raise ValueError(f"the config has neither {prefix}head_dim nor {prefix}{missing}: give -p head_dim=VALUE")
        head_dim, rest = divmod(_whole(width), _whole(heads))
        if rest:
            raise ValueError(f"{width[1]} ({width[0]}) must be a multiple of {heads[1]} ({heads[0]}): give -p head_dim")
        origin = f"{width[1]} / {heads[1]}"
    read.set("head_dim", head_dim, origin)
    return head_dim


def _read_theta(read: Read, config: Mapping[str, Any], rope: Mapping[str, Any], where: str, prefix: str) -> None:
    found = _first(THETA_KEYS, (rope, f"{where}."), (config, prefix))
    if "rope_theta" in read.parameters:
        return
    if found is not None:
        read.set("rope_theta", _number(found), found[1])
    elif config.get("model_type") in ALWAYS:
        read.set("rope_theta", 10000.0, f"default of model_type {config['model_type']}")
    else:
        raise ValueError(f"the config has no {prefix}rope_theta, in which models differ: give -p rope_theta=VALUE")


def _read_scaling(read: Read, config: Mapping[str, Any], rope: Mapping[str, Any], where: str) -> None:
    """Read what the rope type takes, from the rope settings, or where transformers falls back to."""
    for name, parameter in ROPE_TYPES[read.parameters["rope_type"]].parameters.items():
        if name in read.parameters:
            continue
        value, origin = rope.get(name), f"{where}.{name}"
        if name == "original_max_position_embeddings":
            value, origin = _original(config, value, origin)
        elif name == "max_position_embeddings":
            value, origin = _maximum(config), "max_position_embeddings"
        if value is None or (name in ("mscale", "mscale_all_dim") and not value):
            if parameter.default is parameter.empty:
                raise ValueError(f"{origin} is missing: rope type {read.parameters['rope_type']} needs it")
            continue
        read.set(name, _checked(name, value, origin), origin)
    said = [key for key, value in rope.items() if value is not None]
    unread = [key for key in said if f"{where}.{key}" not in read.origin.values() and key not in READ]
    if unread:
        read.origin["not used"] = ", ".join(f"{where}.{key}" for key in unread)


def _original(config: Mapping[str, Any], value: Any, origin: str) -> tuple[Any, str]:
    """Return the original context: a model's own key is stronger than its rope settings, as in transformers."""
    if config.get("original_max_position_embeddings"):
        return config["original_max_position_embeddings"], "original_max_position_embeddings"
    return (value, origin) if value is not None else (_maximum(config), "max_position_embeddings")


def _maximum(config: Mapping[str, Any]) -> int | None:
    found = _first(("max_position_embeddings", "n_positions", "max_seq_len"), (config, ""))
    return None if found is None else _whole(found)


def _first(keys: tuple[str, ...], *places: tuple[Mapping[str, Any], str]) -> tuple[Any, str] | None:
    """Return the first value that is set under one of the keys, and its path."""
    for place, path in places:
        for key in keys:
            if place.get(key) is not None:
                return place[key], f"{path}{key}"
    return None


def _number(found: tuple[Any, str]) -> float:
    value, path = found
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 2**63:
        raise ValueError(f"{path} must be a number above 0, got {_short(value)}")
    return value


def _whole(found: tuple[Any, str]) -> int:
    value, path = _number(found), found[1]
    if value != int(value) or value > 2**31:
        raise ValueError(f"{path} must be a whole number, got {_short(value)}")
    return int(value)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 40 else f"{text[:36]}..."


def _checked(name: str, value: Any, path: str) -> Any:
    """Return a scaling parameter as schemes take it; raise ValueError, with its path, where it is of another type."""
    try:
        return checked(_scaling, {name: value})[name]
    except ValueError as error:
        raise ValueError(str(error).replace(name, path, 1)) from None


def _scaling(**scaling: Unpack[Scaling]) -> None:
    """Stand for what takes every scaling parameter."""
