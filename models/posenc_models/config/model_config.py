"""A model's config.json, as Hugging Face writes it: a view that finds which encoding it describes, and where.

It needs neither transformers nor torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from posenc.paths import check_path
from posenc.strict_json import read_json
from posenc_models.config.encodings.described import spec_settings
from posenc_models.config.encodings.parts import ConfigPart, choose_part
from posenc_models.config.encodings.rows import Row
from posenc_models.config.params import as_config, is_params
from posenc_models.config.rope.by_type import ALL, SCHEME, configs_by_type
from posenc_models.config.rope.rotary import max_positions, text_part, with_class
from posenc_models.config.rope.rotary_config import RotaryConfig
from posenc_models.config.settings import Json, Setting, Settings
from posenc_models.config.unread import check_whose


@dataclass(frozen=True)
class ModelConfig:
    """A config.json as one part and one type of layers see it; `of` and `load` make it.

    Args:
        content: the whole config.json.
        path: the file that it was read from.
        part: the encoding that is read; None where the whole config is that of a rotary model.
        rotary: the part of a rotary model; None where the encoding is not rotary.
        by_type: the rotary part of each type of layers, where all are read; `rotary` is then that of the first.
    """

    content: Json
    path: Path | None = None
    part: ConfigPart | None = None
    rotary: RotaryConfig | None = None
    by_type: Mapping[str, RotaryConfig] = field(default_factory=dict)

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

        Args:
            content: the whole config.json.
            layer_type: the type of the layers that are read, or "all" for every type that rotates.
            path: the file that it was read from.
            part: which of its encodings, by the name that the message lists where there are several.
            layer: which of its layers, by its number from 0.

        Raises:
            ValueError: in one line that names the key, for an unknown encoding, for several where none was chosen, for
                malformed rope settings, and for a layer type or a part that the config does not have.
        """
        check_whose(content)
        if is_params(content):
            view = cls.of(as_config(content), layer_type, path, part, layer)
            return replace(view, content=content)
        chosen = choose_part(content, part)
        if chosen is not None and chosen.row is not None:
            if layer_type is not None or layer is not None:
                option = f"layer type {layer_type!r}" if layer is None else f"layer {layer}"
                raise ValueError(f"{option} was given, and all layers of this config are alike")
            return cls(content, path, chosen)
        text = text_part(content) if chosen is None else with_class(chosen.config.content, chosen.config.path)
        if layer_type != ALL:
            return cls(content, path, chosen, RotaryConfig.at(text, layer_type, layer))
        if layer is not None:
            raise ValueError(f"layer {layer} and layer type {ALL!r} were given: give one of the two")
        by_type = configs_by_type(text)
        return cls(content, path, chosen, next(iter(by_type.values())), by_type)

    @classmethod
    def of_rotation(cls, content: Json, layer_type: str | None = None) -> Self:
        """Return the view of a config's rope settings alone, whatever else its model type encodes positions by.

        Raises ValueError, in one line that names the key, for malformed settings and an unknown layer type.
        """
        return cls(content, rotary=RotaryConfig.at(text_part(content), layer_type, None))

    @classmethod
    def load(
        cls, path: str | Path, layer_type: str | None = None, part: str | None = None, layer: int | None = None
    ) -> Self:
        """Return the view of a config.json, or of that of a model's folder.

        Raises ValueError as `load_config` and `of` do.
        """
        return cls.of(load_config(path), layer_type, _file_of(path), part, layer)

    @property
    def scheme(self) -> str:
        """The scheme that it describes.

        Raises ValueError, in one line that names the key, where sections are missing or malformed.
        """
        if self.by_type:
            return SCHEME
        return self.row.scheme if self.row is not None else self.rotary.scheme if self.rotary else ""

    @property
    def row(self) -> Row | None:
        """What its model type has; None where it is rotary."""
        return None if self.part is None else self.part.row

    @property
    def layer_type(self) -> str | None:
        """The type of the layers that are read, if the model's layers have types; "all" where all types are."""
        if self.by_type:
            return ALL
        return self.rotary.layer_type if self.rotary else None

    @property
    def layer(self) -> int | None:
        """The layer that is read, or that stands for those of its type; None where all are alike."""
        return self.rotary.choice.index if self.rotary and not self.by_type else None

    @property
    def max_position_embeddings(self) -> int | None:
        """How many positions the model is made for, if it says so; raises ValueError for anything but an integer."""
        part = Settings(self.content) if self.part is None else self.part.config
        return max_positions(self.rotary.text if self.rotary else part)

    def spec_settings(self, positions: str | None = None) -> dict[str, Setting]:
        """Return what it says of fields of a spec, with where from: positions, position_offset, max_len.

        Args:
            positions: how positions are given, where the user says so.

        Raises ValueError, in one line, where the model takes no positions in this way.
        """
        if self.part is not None and self.part.row is not None:
            return spec_settings(self.part, self.part.row, positions)
        max_positions = self.max_position_embeddings
        return {} if max_positions is None else {"max_len": Setting(max_positions, "max_position_embeddings")}


def load_config(path: str | Path) -> dict[str, object]:
    """Return a config.json, or that of a model's folder; raise ValueError, in one line, where there is none."""
    try:
        check_path(Path(path))
        file = _file_of(path)
        is_file = file.is_file()
    except OSError as error:
        raise ValueError(f"cannot open {path}: {error.strerror}") from None
    if not is_file:
        raise ValueError(f"{file} does not exist: give a config.json, or a model's folder that has one")
    try:
        content = read_json(file)
    except (ValueError, OSError) as error:
        raise ValueError(f"{file} is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{file} holds a {type(content).__name__}: expected the object that a model's config.json is")
    return content


def _file_of(path: str | Path) -> Path:
    file = Path(path)
    return file / "config.json" if file.is_dir() else file
