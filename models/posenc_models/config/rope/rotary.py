"""Which rope settings a config has, and under which keys: of its language model, of a layer type.

Old and new names are read: rope_scaling or rope_parameters, one object for all layers or one a layer type, at the top
or in the part that describes the language model.
"""

from collections.abc import Mapping

from posenc_models.config.accounts import KeyAccount, has_no_rope, is_neutral, speaks_of_positions
from posenc_models.config.rope.defaults import DEFAULTS, NO_DEFAULTS, class_of, text_type
from posenc_models.config.rope.listed import listed
from posenc_models.config.rope.scaling import scaling_names
from posenc_models.config.settings import Json, Setting, Settings, plain, short

ROPE_KEYS = ("rope_parameters", "rope_scaling")
# rotary_emb_base: GPT-NeoX
THETA_KEYS = ("rope_theta", "rotary_emb_base", "rotary_base")
# rotary_pct: GPT-NeoX; the last two: files of remote code
PARTIAL_KEYS = ("partial_rotary_factor", "rotary_pct", "rope_pct", "rotary_percentage")
# qk_rope_head_dim: DeepSeek; kv_channels: Qwen and ChatGLM, before transformers had them; attention_head_dim: Zamba2
HEAD_DIM_KEYS = ("qk_rope_head_dim", "head_dim", "kv_channels", "attention_head_dim")
# n_embd: GPT-J; d_model: DBRX
WIDTH_KEYS = ("hidden_size", "n_embd", "d_model")
HEADS_KEYS = ("num_attention_heads", "n_head", "n_heads", "encoder_num_attention_heads")
# n_positions: GPT-J; max_seq_len: DBRX
CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len")
TEXT_KEYS = ("text_config", "language_config", "llm_config")
EVIDENCE = (*ROPE_KEYS, *THETA_KEYS, *PARTIAL_KEYS, "rotary_dim", "qk_rope_head_dim")
OTHER_KEYS = ("alibi", "position_embedding_type", "position_biased_input")
"""Keys of encodings that are not rotary."""
LOCAL_THETA = {"rope_local_base_freq": "rope_theta", "local_rope_theta": "global_rope_theta"}
"""Gemma 3 and ModernBERT, as they were first written: the key of sliding layers, and that of the others."""
_GEMMA = {"full_attention": ("rope_theta",), "sliding_attention": ("rope_local_base_freq",)}
_BERT = {"full_attention": ("global_rope_theta",), "sliding_attention": ("local_rope_theta",)}
OWN_THETA: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("gemma3_text", "gemma3n_text", "t5gemma2_decoder", "t5gemma2_text"), _GEMMA),
    **dict.fromkeys(("modernbert", "modernbert-decoder"), _BERT),
    "olmo3": {"full_attention": ("rope_theta",)},
    "deepseek_v4": {"main": ("rope_theta",), "compress": ("compress_rope_theta",)},
    "dots3_note_text": {"indexed_attention": ("rope_theta",), "sliding_attention": ("swa_rope_theta",)},
}
"""Where model types whose layers differ have the bases beside the rope settings, by layer type."""
OTHER_VALUES = frozenset(("rope_type", "type", "rope_theta", "mrope_section", "xdrope_section", "mrope_interleaved"))
"""Keys of rope settings that hold a value; any other that holds an object is a layer type."""


def text_part(content: Json) -> Settings:
    """Return the part of a config that describes the language model: the whole, where that says all that is needed.

    Where the class of a model type is known, it is the part that the class takes, with its defaults.
    """
    outer = content.get("model_type")
    if isinstance(outer, str) and class_of(outer):
        return known_part(content, outer)
    # remote code: some files have the text's keys at the top, beside a text_config of a few
    complete = all(any(content.get(k) for k in keys) for keys in (EVIDENCE, (*HEAD_DIM_KEYS, *WIDTH_KEYS)))
    for key in TEXT_KEYS if not complete else ():
        part = content.get(key)
        if isinstance(part, dict):
            return with_class({**content, **part}, key)
    return with_class(content)


def known_part(content: Json, model_type: str) -> Settings:
    """Return the part of a config that its class takes for the language model, with the class's defaults."""
    inner = text_type(model_type)
    for key in TEXT_KEYS if inner != model_type else ():
        part = content.get(key)
        if isinstance(part, dict):
            return with_class({"model_type": inner, **{k: v for k, v in part.items() if v or k != "model_type"}}, key)
    return with_class({**content, "model_type": inner})


def with_class(content: Json, path: str = "") -> Settings:
    """Return settings of a model whose absent keys are what its class takes."""
    model_type = content.get("model_type")
    name = model_type if isinstance(model_type, str) else ""
    return Settings(content, path, class_of(name), f"default of model_type {name}")


def max_positions(text: Settings) -> int | None:
    """Return how many positions a model is made for, if it says so; raise ValueError for anything but an integer."""
    context = Settings(text.content, "", text.absent, text.absent_path).first(*CONTEXT_KEYS)
    return None if context is None else context.whole()


def check_rotary(content: Json, more: str = "") -> None:
    """Raise ValueError where a config has no rotary encoding, saying what it has instead, and more."""
    model_type = content.get("model_type")
    if not isinstance(model_type, (str, type(None))):
        raise ValueError(f"model_type must be a name, got {short(model_type)}")
    refused = f"the config (model_type {model_type!r}) has no rotary encoding"
    defaults, of_class = DEFAULTS.get(model_type or "", NO_DEFAULTS), class_of(model_type or "")
    if defaults.needs is not None:
        key, rotary_value = defaults.needs
        value = content.get(key, of_class.get(key))
        if value != rotary_value:
            raise ValueError(f"{refused}: {key} is {value!r}{more}")
    if not of_class:
        _check_unread(content)
    others = {key: content[key] for key in OTHER_KEYS if content.get(key)}
    attention = content.get("attn_config")
    if isinstance(attention, dict) and attention.get("alibi"):  # MPT has its key one level deeper
        others["attn_config.alibi"] = True
    always = defaults.rope_theta is not None or any(key in of_class for key in EVIDENCE)
    if others.get("alibi") or not (always or any(key in content for key in (*EVIDENCE, *LOCAL_THETA))):
        instead = ", ".join(f"{key} is {value!r}" for key, value in others.items())
        if not instead and not of_class and not has_no_rope(str(model_type or "")):
            # an unknown type may rotate by constants of its code
            refused = f"the config (model_type {model_type!r}) names no rotary encoding"
        instead = instead or "none of rope_parameters, rope_scaling, rope_theta, rotary_dim, ..."
        raise ValueError(f"{refused}: {instead}{more}")


def _check_unread(content: Json) -> None:
    """Raise ValueError where all keys of an unknown type that speak of positions are not read."""
    if any(key in content for key in (*EVIDENCE, *LOCAL_THETA)):
        return
    known = {*CONTEXT_KEYS, *OTHER_KEYS}
    left = {
        plain(k): v for k, v in content.items() if k not in known and speaks_of_positions(k) and not is_neutral(k, v)
    }
    if left:
        raise ValueError(
            f"{KeyAccount(left, ()).words}: not read, and may change positions; no key that is read is there"
        )


def rope_settings(text: Settings, layer_type: str | None, is_known: bool = False) -> Settings:
    """Return the rope settings, of a layer type where they differ.

    Args:
        text: the part that describes the language model.
        layer_type: the type of the layers that are read.
        is_known: whether the config's layers have this type, or none was given.
    """
    rope, own = _written(text), text.absent.get("rope_parameters")
    if DEFAULTS.get(str(text.content.get("model_type")), NO_DEFAULTS).listed:
        return _of_layer(listed(text, rope), layer_type, text)
    # Gemma 3, ModernBERT, OLMo 3: the class itself has settings for each layer type
    if isinstance(own, Mapping) and any(isinstance(value, Mapping) for value in own.values()):
        return _of_layer(_by_class(text, rope, own), layer_type, text)
    if not rope.content and isinstance(own, Mapping):
        rope = Settings(own, text.absent_path)
    # remote code of Gemma 3 and ModernBERT: a base beside the settings
    layers = _layers(rope) or ({} if text.absent else _first_written_layers(text.content, rope.content))
    if layers:
        return _of_layer({k: _over(rope.path_of(k), v, "") for k, v in layers.items()}, layer_type, text)
    if layer_type is not None and not is_known:
        alike = "all layers of this config are alike" if text.absent else "the config names no types of layers"
        raise ValueError(f"layer type {layer_type!r} was given, and {alike}")
    return rope


def types_of_settings(text: Settings) -> list[str]:
    """Return the types of layers that rope settings name themselves, where nothing else of a config says them."""
    rope = _written(text)
    layers = _layers(rope) or ({} if text.absent else _first_written_layers(text.content, rope.content))
    return [name for name, values in layers.items() if isinstance(values, Mapping)]


def _written(text: Settings) -> Settings:
    """Return the rope settings that a file has; raise ValueError where it has two that say different things."""
    written: dict[str, Json] = {}
    for key in ROPE_KEYS:
        content = text.content.get(key)
        if not isinstance(content, dict) and content:
            raise ValueError(f"{text.path_of(key)} must be an object, got {content!r}")
        if isinstance(content, dict) and content:
            written[key] = content
    if len(written) == 2 and _angles(written["rope_parameters"]) != _angles(written["rope_scaling"]):
        paths = " and ".join(text.path_of(key) for key in ROPE_KEYS)
        raise ValueError(f"{paths} say different things: leave one of them out")
    return next((Settings(content, text.path_of(key)) for key, content in written.items()), Settings({}, "default"))


def _angles(rope: Json) -> dict[str, object]:
    """Return rope settings with one name of the rope type, without the base and null values."""
    angles = {key: value for key, value in rope.items() if value is not None and key not in ("type", "rope_theta")}
    return {**angles, "rope_type": rope.get("rope_type", rope.get("type", "default"))}


def _by_class(text: Settings, rope: Settings, own: Json) -> Mapping[str, Settings | str]:
    """Return the rope settings by layer type of a model whose class has them so."""
    name = str(text.content.get("model_type"))
    thetas = {layer: text.first(*keys) for layer, keys in OWN_THETA.get(name, {}).items()}
    usual = {layer: _usual(text, values, thetas.get(layer)) for layer, values in own.items()}
    flat = DEFAULTS.get(name, NO_DEFAULTS).flat
    by_layer = {layer: values for layer, values in _layers(rope).items() if flat == "none" or values is not None}
    if by_layer:
        # convert_rope_params_to_dict keeps the class's own settings for types that the file leaves out
        unsaid = {layer: values for layer, values in usual.items() if layer not in by_layer}
        return {k: _over(rope.path_of(k), v, usual.get(k, "")) for k, v in by_layer.items()} | unsaid
    if rope.content and (flat == "none" or rope.path == text.path_of("rope_parameters")):
        raise ValueError(f"{rope.path} must have an object for each of {', '.join(own)}, whose layers differ")
    # Gemma 3 scales full attention alone by flat settings; ModernBERT all its layers
    takers = [layer for layer in own if rope.content and (flat == "all" or layer == "full_attention")]
    return {k: _over(rope.path, rope.content, v) if k in takers else v for k, v in usual.items()}


def _usual(text: Settings, values: object, theta: Setting | None) -> Settings | str:
    """Return the rope settings that a class takes for a layer type, with the base that stands beside them."""
    if not isinstance(values, Mapping):
        return f"{text.absent_path} is null"
    if theta is None:
        return Settings(values, text.absent_path)
    without_theta = {key: value for key, value in values.items() if key != "rope_theta"}
    return Settings(without_theta, text.absent_path, {"rope_theta": theta.number()}, theta.path)


def _over(path: str, values: object, usual: Settings | str) -> Settings | str:
    """Return rope settings of a file, whose base is that of the class where they have none."""
    if not isinstance(values, Mapping):
        return f"{path} is null"
    if isinstance(usual, str):
        return Settings(values, path)
    theta = usual.at("rope_theta")
    return Settings(values, path, {} if theta.value is None else {"rope_theta": theta.value}, theta.path)


def _layers(rope: Settings) -> Json:
    """Return the objects that rope settings hold by layer type, or null; nothing where all layers are alike."""
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


def _of_layer(layers: Mapping[str, Settings | str], layer_type: str | None, text: Settings) -> Settings:
    """Return the rope settings of a layer type; raise ValueError where it has none, or was not chosen."""
    # DeepSeek V4 names its rope settings "main" and "compress", its layers otherwise
    of_layers = DEFAULTS.get(str(text.content.get("model_type")), NO_DEFAULTS).of_layers
    types = text.at("layer_types").value
    if isinstance(types, list):
        of_layers = {name: values for name, values in of_layers.items() if name in types}
    # a config may lack layers of a type
    names = ", ".join(of_layers or layers)
    if layer_type is None and len(layers) > 1:
        raise ValueError(f"layers of this config differ: choose one of {names} with --layer-type")
    layer_type = layer_type or next(iter(layers))
    named = of_layers.get(layer_type, layer_type)
    if named not in layers:
        raise ValueError(f"unknown layer type {layer_type!r}: the config has {names}")
    rope = layers[named]
    if isinstance(rope, str):
        raise ValueError(f"{rope}: layers of this type have no rotary encoding")
    return rope
