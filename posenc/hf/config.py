"""A model's config.json, as Hugging Face writes it: a view that finds the rope settings of a layer, and their path.

Old and new names are read: rope_scaling or rope_parameters, one object for all layers or one a layer type, at the top
or in the part that describes the language model. It needs neither transformers nor torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from posenc.hf.defaults import DEFAULTS, NO_DEFAULTS, Defaults
from posenc.hf.scaling import scaling_names
from posenc.hf.settings import Json, Setting, Settings, short
from posenc.strict_json import parse

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


@dataclass(frozen=True)
class ModelConfig:
    """A config.json, of one of its layer types where those differ: `ModelConfig.of` and `ModelConfig.load` make it.

    text: the part that describes the language model; what it leaves out is that of the whole config.
    rope: the rope settings of the layer type.
    """

    content: Json
    text: Settings
    rope: Settings
    layer_type: str | None = None
    path: Path | None = None

    @classmethod
    def of(cls, content: Json, layer_type: str | None = None, path: Path | None = None) -> Self:
        """Return the view of a config that has been read already.

        Raises ValueError, in one line that names the key, for a config that is not rotary, for rope settings that are
        no object, and for a layer type that is missing, or that the config has not.
        """
        text = _text_part(content)
        _check_rotary(text.content)
        return cls(content, text, _rope_settings(text, layer_type), layer_type, path)

    @classmethod
    def load(cls, path: str | Path, layer_type: str | None = None) -> Self:
        """Return the view of a config.json, or of that of a model's folder.

        Raises ValueError as `load_config` and `of` do.
        """
        return cls.of(load_config(path), layer_type, _file_of(path))

    @property
    def model_type(self) -> str:
        """The name of the architecture; empty where the config has none."""
        return str(self.text.content.get("model_type") or "")

    @property
    def defaults(self) -> Defaults:
        """What its model type does where it does not say."""
        return DEFAULTS.get(self.model_type, NO_DEFAULTS)

    def default(self, value: object) -> Setting:
        """Return a value of `defaults` with its origin."""
        return Setting(value, f"default of model_type {self.model_type}")

    @property
    def sections(self) -> Setting | None:
        """The pairs of each of several positions that a token has; None where it has one.

        Raises ValueError, with the path, where they are no list of whole numbers.
        """
        section = self.rope.nonempty("mrope_section")
        if section is not None:
            return Setting(section.whole_numbers(), section.path)
        return self.default(self.defaults.sections) if self.defaults.sections else None

    @property
    def scheme(self) -> str:
        """The scheme that it describes: "rope", or "mrope" where tokens have several positions.

        Raises ValueError, in one line that names the key, where sections are missing or malformed.
        """
        if self.sections is not None:
            return "mrope"
        if "mrope" in (self.rope.content.get("rope_type"), self.rope.content.get("type")):
            raise ValueError(f"{self.rope.path_of('mrope_section')} is missing: rope type mrope needs it")
        return "rope"

    @property
    def max_position_embeddings(self) -> int | None:
        """How many positions the model is made for, if it says so; raises ValueError where that is no whole number."""
        context = Settings(self.text.content).first(*CONTEXT_KEYS)
        return None if context is None else context.whole()


def load_config(path: str | Path) -> dict[str, object]:
    """Return a config.json, or that of a model's folder; raise ValueError, in one line, where it is none."""
    file = _file_of(path)
    if not file.is_file():
        raise ValueError(f"{file} does not exist: give a config.json, or a model's folder that has one")
    try:
        content = parse(file.read_text(encoding="utf-8-sig"))
    except (ValueError, OSError) as error:
        raise ValueError(f"{file} is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{file} holds a {type(content).__name__}: expected the object that a model's config.json is")
    return content


def _file_of(path: str | Path) -> Path:
    file = Path(path)
    return file / "config.json" if file.is_dir() else file


def _text_part(content: Json) -> Settings:
    """Return the part of a config that describes the language model: the whole, where that says all that is needed."""
    complete = all(any(content.get(k) for k in keys) for keys in (EVIDENCE, (*HEAD_DIM_KEYS, *WIDTH_KEYS)))
    for key in TEXT_KEYS if not complete else ():
        part = content.get(key)
        if isinstance(part, dict):
            return Settings({**content, **part}, key)
    return Settings(content)


def _check_rotary(content: Json) -> None:
    """Raise ValueError where a config has no rotary encoding, saying what it has instead."""
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
        raise ValueError(f"the config (model_type {model_type!r}) has no rotary encoding: {instead}")


def _rope_settings(text: Settings, layer_type: str | None) -> Settings:
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
