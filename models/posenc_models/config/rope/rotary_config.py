"""The rotary part of a config: its own settings, and the rope settings of the layers that are read."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from posenc_models.config.rope.defaults import DEFAULTS, NO_DEFAULTS, Defaults
from posenc_models.config.rope.layers import (
    NO_CHOICE,
    UNATTENDING,
    Choice,
    Layer,
    choose,
    layers_of,
    listed,
    of_layer,
    scaled,
)
from posenc_models.config.rope.rotary import rope_settings
from posenc_models.config.settings import Setting, Settings

LISTED = 256
"""Layers without rotation that are named one by one."""


@dataclass(frozen=True)
class RotaryConfig:
    """A rotary model's config, of one of its layer types where those differ.

    Args:
        text: the part that describes the language model; what it leaves out is that of the whole config.
        rope: its rope settings, of the layers that are read.
        layer_type: the type of these layers, if the model's layers have types.
        choice: which of the layers are read, where they differ.
        unrotated: which layers attend without rotation, in words.
    """

    text: Settings
    rope: Settings
    layer_type: str | None = None
    choice: Choice = NO_CHOICE
    unrotated: str = ""

    @classmethod
    def at(cls, text: Settings, layer_type: str | None, layer: int | None) -> Self:
        """Return the view of a config's rotary part, at a layer or at the layers of a type.

        Raises ValueError, in one line, for a layer or a type that does not exist or does not rotate, and where
        layers differ and neither is given.
        """
        # only a type that transformers knows says which of its layers rotate
        layers = layers_of(text, str(text.content.get("model_type") or "") if text.absent else "")
        choice = choose(layers, layer, layer_type)
        text = of_layer(text, choice, layers)
        chosen_type = choice.type or choice.only
        rope = rope_settings(text, chosen_type, choice.layer is not None or choice.type is None)
        return cls(text, scaled(rope, layers, choice), chosen_type, choice, unrotated(layers))

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
        """The pairs of each position of a token that has several; None where it has one.

        Raises ValueError, with the path, where they are no list of whole numbers.
        """
        section = self.rope.nonempty("mrope_section") or self.rope.nonempty("xdrope_section")
        if section is not None:
            numbers = section.whole_numbers()
            if self.defaults.section_layout == "time_last":  # height, width, time: the scheme's come with time first
                return Setting((*numbers[2:], *numbers[:2]), f"{section.path}, the last one first")
            return Setting(numbers, section.path)
        return self.default(self.defaults.sections) if self.defaults.sections else None

    @property
    def scheme(self) -> str:
        """Its scheme: "rope", or "mrope" where tokens have several positions.

        Raises ValueError, in one line that names the key, where sections are missing or malformed.
        """
        if self.sections is not None:
            return "mrope"
        named = "mrope" in (self.rope.content.get("rope_type"), self.rope.content.get("type"))
        if self.defaults.section_layout or named:
            rope = Settings({}, self.text.path_of("rope_parameters")) if not self.rope.content else self.rope
            raise ValueError(f"{rope.path_of('mrope_section')} is missing: tokens have several positions")
        return "rope"


def unrotated(layers: Iterable[Layer]) -> str:
    """Return in words which layers have queries and keys and do not rotate them; nothing where all do."""
    still = [i for i, layer in enumerate(layers) if not layer.rotates and layer.type not in UNATTENDING]
    return listed(still, LISTED) if still else ""
