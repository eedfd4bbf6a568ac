"""A model's config.json, as Hugging Face writes it: a view that finds which encoding it describes, and where.

It needs neither transformers nor torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from posenc.hf.config.settings import Json, Setting, Settings
from posenc.hf.encodings.described import spec_settings
from posenc.hf.encodings.parts import Part, choose_part
from posenc.hf.encodings.rows import Row
from posenc.hf.rope.defaults import DEFAULTS, NO_DEFAULTS, Defaults
from posenc.hf.rope.layers import NO_CHOICE, Choice, choose, layers_of, of_layer, scaled
from posenc.hf.rope.rotary import CONTEXT_KEYS, rope_settings, text_part, with_class
from posenc.strict_json import parse


@dataclass(frozen=True)
class ModelConfig:
    """A config.json, of one of its parts and layer types where those differ: `of` and `load` make it.

    text: the part that is read, of a rotary model that which describes the language model; what it leaves out is that
        of the whole config. rope: its rope settings, of the layer type.
    part: the encoding that is read; None where the whole config is that of a rotary model.
    choice: which of its layers, where they differ.
    """

    content: Json
    text: Settings
    rope: Settings
    layer_type: str | None = None
    path: Path | None = None
    part: Part | None = None
    choice: Choice = NO_CHOICE

    @classmethod
    def of(
        cls,
        content: Json,
        layer_type: str | None = None,
        path: Path | None = None,
        part: str | None = None,
        layer: int | None = None,
    ) -> Self:
        """Return the view of a config that has been read already.

        part: which of its encodings, by the name that the message lists where there are several.
        layer: which of its layers, by its number from 0; layer_type: those of a type.
        Raises ValueError, in one line that names the key, for a config whose encoding is not known, for one that has
        several where no part is given, for rope settings that are no object, and for a layer type or a part that is
        missing, or that the config has not.
        """
        chosen = choose_part(content, part)
        if chosen is not None and chosen.row is not None:
            if layer_type is not None or layer is not None:
                what = f"layer type {layer_type!r}" if layer is None else f"layer {layer}"
                raise ValueError(f"{what} was given, and all layers of this config are alike")
            return cls(content, chosen.config, Settings({}), None, path, chosen)
        text = text_part(content) if chosen is None else with_class(chosen.config.content, chosen.config.path)
        layers = layers_of(text, str(text.content.get("model_type") or "") if text.absent else "")
        choice = choose(layers, layer, layer_type)
        text = of_layer(text, choice, layers)
        rope = rope_settings(text, choice.type or choice.only, choice.layer is not None or choice.type is None)
        return cls(content, text, scaled(rope, layers, choice), choice.type or choice.only, path, chosen, choice)

    @classmethod
    def load(
        cls, path: str | Path, layer_type: str | None = None, part: str | None = None, layer: int | None = None
    ) -> Self:
        """Return the view of a config.json, or of that of a model's folder.

        Raises ValueError as `load_config` and `of` do.
        """
        return cls.of(load_config(path), layer_type, _file_of(path), part, layer)

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
        """The scheme that it describes: of a rotary one "rope", or "mrope" where tokens have several positions.

        Raises ValueError, in one line that names the key, where sections are missing or malformed.
        """
        if self.row is not None:
            return self.row.scheme
        if self.sections is not None:
            return "mrope"
        if "mrope" in (self.rope.content.get("rope_type"), self.rope.content.get("type")):
            raise ValueError(f"{self.rope.path_of('mrope_section')} is missing: rope type mrope needs it")
        return "rope"

    @property
    def row(self) -> Row | None:
        """What its model type has; None where it is rotary."""
        return None if self.part is None else self.part.row

    @property
    def max_position_embeddings(self) -> int | None:
        """How many positions the model is made for, if it says so; raises ValueError where that is no whole number."""
        context = Settings(self.text.content, "", self.text.absent, self.text.absent_path).first(*CONTEXT_KEYS)
        return None if context is None else context.whole()

    def spec_settings(self, positions: str | None = None) -> dict[str, Setting]:
        """Return what it says of fields of a spec, with where from: positions, position_offset, max_len.

        positions: how they are given, where somebody says so.
        Raises ValueError, in one line, where the model has no positions that are given so.
        """
        if self.part is not None and self.part.row is not None:
            return spec_settings(self.part, self.part.row, positions)
        max_positions = self.max_position_embeddings
        return {} if max_positions is None else {"max_len": Setting(max_positions, "max_position_embeddings")}


def load_config(path: str | Path) -> dict[str, object]:
    """Return a config.json, or that of a model's folder; raise ValueError, in one line, where it is none."""
    try:
        file = _file_of(path)
        is_file = file.is_file()
    except OSError as error:
        raise ValueError(f"cannot open {path}: {error.strerror}") from None
    if not is_file:
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
