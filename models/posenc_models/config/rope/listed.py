"""Bases and shares of layers in lists, one number a layer, as Step 3.5's configs have them: settings by layer type."""

from collections.abc import Mapping

from posenc_models.config.settings import Json, Settings, short

SHARES = "partial_rotary_factors"
"""The key of the shares of heads that layers rotate."""
SCALED = "full_attention"
"""The type of the layers that `rope_scaling` is of."""


def listed(text: Settings, rope: Settings) -> Mapping[str, Settings]:
    """Return the rope settings of each type of layer: those of the first layer of the type, as its class takes them.

    Args:
        text: the part that describes the language model.
        rope: the rope settings that it has.

    Raises ValueError, in one line that names the key, where the settings cannot be those of layers.
    """
    types = _types(text)
    names = list(dict.fromkeys(types))
    if rope.path == text.path_of("rope_parameters"):
        if not all(isinstance(rope.content.get(name), Mapping) for name in names):
            raise ValueError(f"{rope.path} must have an object for each of {', '.join(names)}, whose layers differ")
        return {name: Settings(_object(rope.content[name]), rope.path_of(name)) for name in names}
    layers = {}
    for name in names:
        first = types.index(name)
        theta, theta_path = _number(text, "rope_theta", first, len(types))
        share, share_path = _number(text, SHARES, first, len(types))
        own = {} if share is None else {"partial_rotary_factor": share}
        base = {"rope_theta": theta if theta is not None else _usual(text)}
        origin = ", ".join(path for path in (theta_path or text.absent_path, share_path) if path)
        scaling: Json = rope.content if name == SCALED else {}
        layers[name] = Settings(scaling, rope.path, {**base, **own}, origin)
    return layers


def _types(text: Settings) -> list[str]:
    """Return the type of each layer."""
    types = text.content.get("layer_types") or [SCALED]
    if not isinstance(types, list) or not all(isinstance(name, str) for name in types):
        raise ValueError(f"{text.path_of('layer_types')} must be a list of names, got {short(types)}")
    return types


def _object(value: object) -> Json:
    assert isinstance(value, Mapping)
    return value


def _usual(text: Settings) -> object:
    """Return the base that the class takes."""
    own = text.absent.get("rope_parameters")
    settings = own.get(SCALED) if isinstance(own, Mapping) else None
    return settings.get("rope_theta") if isinstance(settings, Mapping) else None


def _number(text: Settings, key: str, layer: int, layers: int) -> tuple[object, str]:
    """Return what a key says of a layer, and where it stands: in a list of as many as there are layers, or for all."""
    value = text.content.get(key)
    if value is None:
        return None, ""
    if not isinstance(value, list):
        if key == SHARES:
            raise ValueError(f"{text.path_of(key)} must be a list of numbers, one a layer, got {short(value)}")
        return value, text.path_of(key)
    if len(value) < layers:
        raise ValueError(f"{text.path_of(key)} must have a number for each of {layers} layers, got {len(value)}")
    return value[layer], f"{text.path_of(key)}[{layer}]"
