"""Which layers of a model rotate, and how: their types, the choice of one, and those that do not rotate at all."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from posenc_models.config.rope.defaults import DEFAULTS, NO_DEFAULTS
from posenc_models.config.rope.scaling import scaling_names
from posenc_models.config.settings import Json, Setting, Settings, short

UNATTENDING = frozenset(("linear_attention", "conv", "mamba", "mamba2", "recurrent", "moe"))
"""Types of layers without queries and keys."""
MAX_LAYERS = 2**16
"""Layers that a config may have."""


@dataclass(frozen=True)
class Layer:
    """A layer of a model.

    Args:
        type: its type; empty where the model has no types.
        rotates: whether it rotates queries and keys.
        theta: its base, where layers have bases of their own.
        scaled: whether its frequencies are scaled as the rope settings say.
    """

    type: str
    rotates: bool = True
    theta: float | None = None
    scaled: bool = True


@dataclass(frozen=True)
class Choice:
    """Which layers are read.

    Args:
        index: the layer that was given, or that stands for those of a type.
        type: the type of layers that was given.
        note: which other layers do not rotate, in words.
        layer: the layer of this index.
        only: the type of all layers that rotate, where no type was given.
    """

    index: int | None = None
    type: str | None = None
    note: str = ""
    layer: Layer | None = None
    only: str | None = None


NO_CHOICE = Choice()
"""All layers."""


def layers_of(text: Settings, model_type: str) -> tuple[Layer, ...]:
    """Return the layers of a model; nothing where a config does not say how many there are."""
    count = text.at("num_hidden_layers")
    if count.value is None or model_type == "":
        return ()
    total = min(count.whole(), MAX_LAYERS)
    types, rotates = _types(text, total), _no_rope(text, total)
    thetas, scaled = _thetas(text, total), _scaled(text, total)
    still = _still(text, model_type)
    rows = zip(types, rotates, thetas, scaled, strict=True)
    return tuple(Layer(t, r and t not in still and theta != 0, theta, s) for t, r, theta, s in rows)


def _types(text: Settings, total: int) -> list[str]:
    """Return the type of each layer, as the config has them or its class makes them."""
    setting = text.at("layer_types")
    types = setting.value
    if types is None:
        types = text.absent.get("layer_types") or [""]
    if not isinstance(types, list) or not all(isinstance(name, str) for name in types):
        raise ValueError(f"{setting.path} must be a list of names, got {short(types)}")
    if text.content.get("layer_types") is not None:
        if len(types) < total:
            raise ValueError(f"{setting.path} has {len(types)} names, and there are {total} layers")
        return types[:total]
    pattern = text.content.get("sliding_window_pattern")
    if "sliding_window_pattern" in text.absent and pattern is not None:
        # Gemma 3, Cohere 2: every so many layers sees all, the others a window
        period = Setting(pattern, text.path_of("sliding_window_pattern")).whole()
        types = ["sliding_attention"] * (period - 1) + ["full_attention"]
    return [types[i % len(types)] for i in range(total)]


def _still(text: Settings, model_type: str) -> frozenset[str]:
    """Return the types of layers that do not rotate."""
    defaults, rope = DEFAULTS.get(model_type, NO_DEFAULTS), text.at("rope_parameters").value
    # null for a layer type says that such layers do not rotate
    by_type = rope if isinstance(rope, Mapping) and defaults.flat == "none" else {}
    null = {name for name, value in by_type.items() if value is None}
    is_windowed = text.at("sliding_window").value is not None
    # Exaone4Attention: sliding_window is None or is_sliding rotates
    still = () if defaults.windowed and not is_windowed else defaults.still
    return UNATTENDING.union(still, () if is_windowed else defaults.still_unwindowed, null)


def _no_rope(text: Settings, total: int) -> list[bool]:
    """Return for each layer whether a list, or an interval, lets it rotate (SmolLM3, Llama 4)."""
    interval = text.at("no_rope_layer_interval")
    if "no_rope_layer_interval" not in text.absent:
        return [True] * total
    # 1 for a layer that rotates, in spite of the key's name; an empty list counts as absent
    numbers = _numbers(text, "no_rope_layers", total) if text.content.get("no_rope_layers") else None
    if numbers is not None:
        return [bool(number) for number in numbers[:total]]
    every = interval.whole()
    return [(i + 1) % every != 0 for i in range(total)]


def _thetas(text: Settings, total: int) -> list[float | None]:
    """Return the base of each layer, 0 for layers that do not rotate; None where they share a base."""
    thetas = _numbers(text, "layer_rope_theta", total)
    return [None] * total if thetas is None else [float(theta) for theta in thetas[:total]]


def _scaled(text: Settings, total: int) -> list[bool]:
    """Return for each layer whether its frequencies are scaled as the rope settings say."""
    numbers = _numbers(text, "rope_scaling_layers", 0)
    return [numbers is None or i in numbers for i in range(total)]


def _numbers(text: Settings, key: str, least: int) -> list[float] | None:
    """Return a list of at least so many numbers; None where the key is absent or null."""
    numbers = text.content.get(key)
    if numbers is None:
        return None
    is_list = isinstance(numbers, list) and all(isinstance(n, (int, float)) and n >= 0 for n in numbers)
    if not isinstance(numbers, list) or not is_list or len(numbers) < least:
        expected = f"a list of numbers, one for each of {least} layers" if least else "a list of numbers"
        raise ValueError(f"{text.path_of(key)} must be {expected}, got {short(numbers)}")
    return numbers


def choose(layers: tuple[Layer, ...], index: int | None, layer_type: str | None) -> Choice:
    """Return the layers that are read: by index or by type, else those that rotate.

    Raises ValueError, in one line, for an index that is out of range, a type that no layer has, and layers that do not
    rotate.
    """
    if index is not None:
        return _at(layers, index, layer_type)
    rotating = [i for i, layer in enumerate(layers) if layer.rotates]
    if layers and not rotating:
        raise ValueError("no layer of this config has a rotary encoding")
    types = {layers[i].type for i in rotating} - {""}
    if layer_type is None:
        return Choice(note=_note(layers, rotating), only=types.pop() if len(types) == 1 else None)
    of_type = [i for i, layer in enumerate(layers) if layer.type == layer_type]
    first = next((i for i in of_type if layers[i].rotates), None)
    if of_type and first is None:
        raise ValueError(f"layers of type {layer_type} have no rotary encoding: {listed(of_type)}")
    return Choice(first, layer_type, "", None if first is None else layers[first])


def _at(layers: tuple[Layer, ...], index: int, layer_type: str | None) -> Choice:
    """Return the choice of a layer by its number; raise ValueError where it does not exist, or does not rotate."""
    if not layers:
        raise ValueError(f"layer {index} was given, and the config does not say how many layers there are")
    if not 0 <= index < len(layers):
        raise ValueError(f"layer {index} was given, and the config has layers 0 to {len(layers) - 1}")
    layer = layers[index]
    if layer_type not in (None, layer.type):
        raise ValueError(f"layer {index} is of type {layer.type or 'none'}, not {layer_type}: give one of the two")
    if not layer.rotates:
        of_type = f" (of type {layer.type})" if layer.type else ""
        raise ValueError(f"layer {index}{of_type} has no rotary encoding")
    return Choice(index, layer.type or None, f"layer {index}", layer)


def _note(layers: tuple[Layer, ...], rotating: list[int]) -> str:
    """Return in words which layers are read, where others do not rotate."""
    still = sorted({*range(len(layers))} - {*rotating})
    return f"{listed(rotating)}; {listed(still)} {'do' if len(still) > 1 else 'does'} not rotate" if still else ""


def listed(numbers: Iterable[int], shown: int = 6) -> str:
    """Return in words which layers are meant: the first ones, and how many more."""
    numbers = list(numbers)
    some = ", ".join(map(str, numbers[:shown]))
    more = f" and {len(numbers) - shown} more" if len(numbers) > shown else ""
    return f"layer{'s' if len(numbers) > 1 else ''} {some}{more}"


def of_layer(text: Settings, choice: Choice, layers: tuple[Layer, ...]) -> Settings:
    """Return the config as a layer sees it: what `per_layer_config` says of it is stronger."""
    per_layer = _numbered(text.content.get("per_layer_config"))
    if not per_layer:
        return text
    rotating = {i for i, layer in enumerate(layers) if layer.rotates}
    # in the order of the layers, for the message
    types = list(dict.fromkeys(layers[i].type for i in sorted(rotating)))
    index = _same(per_layer, rotating, types) if choice.index is None else choice.index
    own = None if index is None else per_layer.get(index)
    return _over(text, own, f"per_layer_config.{index}") if isinstance(own, Mapping) else text


def _numbered(per_layer: object) -> dict[int, object]:
    """Return what stands under the numbers of layers, which may begin with 0, as in "05"."""
    if not isinstance(per_layer, Mapping):
        return {}
    return {int(key): value for key, value in per_layer.items() if isinstance(key, str) and key.isdigit()}


def _same(per_layer: Mapping[int, object], rotating: set[int], types: list[str]) -> int | None:
    """Return a layer that stands for all that rotate; None where no layer rotates."""
    angles = {str(_angles(per_layer.get(number))) for number in rotating}
    if len(angles) > 1:
        choices = f"one of {', '.join(types)} with --layer-type" if len(types) > 1 else "one with --layer N"
        raise ValueError(f"layers of this config differ: choose {choices}")
    return min(rotating, default=None)


def _angles(row: object) -> Json:
    """Return the settings of a layer that change its angles."""
    keys = ("head_dim", "qk_rope_head_dim", "rope_parameters", "rope_theta", "partial_rotary_factor", "hidden_size")
    return {key: row[key] for key in keys if key in row} if isinstance(row, Mapping) else {}


def _over(text: Settings, own: Json, path: str) -> Settings:
    """Return settings over which those of a layer stand; their origin is that of the layer."""
    # the text's own keys would hide the layer's, which become defaults
    content = {key: value for key, value in text.content.items() if key not in own}
    return Settings(content, text.path, {**text.absent, **own}, f"{text.path_of(path)}, {text.absent_path}")


def scaled(rope: Settings, layers: tuple[Layer, ...], choice: Choice) -> Settings:
    """Return the rope settings of the layers that are read: with their own base, unscaled where these are.

    Raises ValueError, in one line, where these layers differ.
    """
    read = [choice.layer] if choice.layer is not None else [layer for layer in layers if layer.rotates]
    is_plain = scaling_names().isdisjoint(rope.content)
    # rope settings without scaling are the same for scaled and unscaled layers
    kinds = {(layer.theta, layer.scaled or is_plain) for layer in read}
    if len(kinds) > 1:
        keys = "layer_rope_theta" if any(layer.theta for layer in read) else "rope_scaling_layers"
        raise ValueError(f"layers of this config differ ({keys}): choose one with --layer N")
    theta, is_scaled = next(iter(kinds), (None, True))
    content = rope.content if is_scaled else {k: v for k, v in rope.content.items() if k == "rope_theta"}
    base = {} if theta is None else {"rope_theta": theta}
    return Settings({**content, **base}, rope.path, rope.absent, rope.absent_path)
