"""All types of layers that rotate, read at once: what `--layer-type all` asks for."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from posenc_models.config.rope.layers import layers_of
from posenc_models.config.rope.reader import UNROTATED, RotaryReader
from posenc_models.config.rope.rotary import types_of_settings
from posenc_models.config.rope.rotary_config import RotaryConfig
from posenc_models.config.settings import Settings

ALL = "all"
"""What chooses every type of layers that rotates."""
SCHEME = "rope_layers"
"""The scheme of several types of layers."""
SHARED = ("layout", "width")
"""Its parameters that all types of layers share."""


def configs_by_type(text: Settings) -> Mapping[str, RotaryConfig]:
    """Return the rotary config of each type of layers that rotates, in the order of the layers.

    Raises ValueError, in one line, where layers have no types, and where those of one type alone rotate.
    """
    layers = layers_of(text, str(text.content.get("model_type") or "") if text.absent else "")
    # a layer that does not rotate has no cosines, whatever the settings of its type say
    rotating = [layer.type for layer in layers if layer.rotates and layer.type]
    types = list(dict.fromkeys(rotating)) if layers else types_of_settings(text)
    if not types:
        raise ValueError(f"layer type {ALL!r} was given, and layers of this config have no types: leave it out")
    if len(types) == 1:
        raise ValueError(f"layer type {ALL!r} was given, and layers of type {types[0]} alone rotate: leave it out")
    return {name: RotaryConfig.at(text, name, None) for name in types}


@dataclass(frozen=True)
class TypesReader:
    """One pass over each type of layers of a config.

    Args:
        configs: the rotary config of each type.
        overrides: parameters of the scheme that are taken as they are.
        length: how many positions the model is made for, if the config says so.
        notes: what a user should know of the settings, once they were read.
    """

    configs: Mapping[str, RotaryConfig]
    overrides: Mapping[str, object]
    length: int | None
    notes: list[str] = field(default_factory=list)

    def read(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the parameters of the scheme, and the origin of each.

        Raises ValueError, in one line, where all types rotate alike, and where a token has several positions.
        """
        parameters, origin = dict(self.overrides), dict.fromkeys(self.overrides, "given")
        by_type: dict[str, dict[str, Any]] = {}
        for name, config in self.configs.items():
            values, where = self._of_type(name, config)
            # the scheme gives all types one layout, as a model's code does
            for key in [key for key in values if key in SHARED]:
                parameters.setdefault(key, values.pop(key))
                origin.setdefault(key, where.pop(key))
            # layers without rotation are those of the model, whatever type is read
            origin |= {UNROTATED: where.pop(UNROTATED)} if UNROTATED in where else {}
            by_type[name] = values
            origin |= {f"{name}.{key}": words for key, words in where.items()}
        # equal tables side by side would be computed twice
        if all(values == next(iter(by_type.values())) for values in by_type.values()):
            raise ValueError(f"layers of types {', '.join(by_type)} rotate alike: leave --layer-type out")
        parameters.setdefault("layer_types", json.dumps(by_type))
        origin.setdefault("layer_types", _summary(origin, by_type))
        return parameters, origin

    def _of_type(self, name: str, config: RotaryConfig) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the parameters of "rope" of a type of layers, and the origin of each."""
        if config.scheme != "rope":
            raise ValueError(f"tokens have several positions in layers of type {name}: choose it with --layer-type")
        shared = {key: self.overrides[key] for key in SHARED if key in self.overrides}
        reader = RotaryReader(config, shared, self.length, False)
        parameters = reader.read()
        self.notes.extend(f"{name}: {note}" for note in reader.notes)
        return parameters


def _summary(origin: Mapping[str, str], types: Mapping[str, object]) -> str:
    """Return in words which keys each type was read from."""
    keys = {name: [where for key, where in origin.items() if key.startswith(f"{name}.")] for name in types}
    return "; ".join(f"{name}: {', '.join(dict.fromkeys(paths))}" for name, paths in keys.items())
