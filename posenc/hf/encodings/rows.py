"""What a model type has where it is not rotary, or not rotary alone: a row an encoding, of `encodings`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from posenc.hf.config.keys import Fixed, Key, Source
from posenc.hf.config.settings import Setting, Settings
from posenc.spec import Positions

Value = object
"""A constant, or a Source."""


@dataclass(frozen=True)
class If:
    """A condition on a config: a value is one of these."""

    source: Source
    values: tuple[object, ...]

    def holds(self, config: Settings, absent: str) -> bool:
        """Return whether it is so."""
        return self.source.read(config, absent).value in self.values

    def failure(self, config: Settings, absent: str) -> str:
        """Return what is there instead."""
        setting = self.source.read(config, absent)
        name = self.source.name if isinstance(self.source, Key) else setting.path
        return f"{name} is {setting.value!r}"


LENGTH = "max_position_embeddings"
"""The usual key of how many positions a model has."""
FROM_THE_FIRST = Fixed(0)
"""No row is before that of position 0."""


@dataclass(frozen=True)
class Row:
    """An encoding of a model type.

    parameters: of the scheme, each a constant or where it is from.
    part: its name, where a model type has several.
    when: what must hold, that a model has it.
    positions: how the model gives them, where that is not the scheme's own way.
    length: how many positions it has, where that is known.
    before: rows of its table before that of position 0, which positions from a mask are counted from.
    shifted: whether the scheme has a parameter `offset` for them.
    tables: how the names of its weights end; of a name that differs in a number, `*` stands for that, and `|` stands
        between two names of which the first that is there counts; with a dot at its end it is what several begin with.
    layers: the numbers that `*` stands for, where not all layers have it.
    lacks: why no scheme is like it, in words; there is none then.
    differs: in what the scheme is known to be other than the model, and by how much: a note in every report.
    """

    scheme: str
    parameters: Mapping[str, Value] = field(default_factory=dict)
    part: str = ""
    when: tuple[If, ...] = ()
    positions: Positions | None = None
    length: Source | None = None
    before: Source = FROM_THE_FIRST
    shifted: bool = True
    tables: tuple[str, ...] = ()
    layers: Source | None = None
    lacks: str = ""
    differs: str = ""

    def read(self, config: Settings, absent: str, constant: str) -> dict[str, Setting]:
        """Return its parameters, each with its origin, but for those whose value is None."""
        sources = {name: _setting(value, config, absent, constant) for name, value in self.parameters.items()}
        return {name: setting for name, setting in sources.items() if setting.value is not None}


def _setting(value: Value, config: Settings, absent: str, constant: str) -> Setting:
    return Setting(value, constant) if not hasattr(value, "read") else value.read(config, absent)


def alike(names: str, *rows: Row) -> dict[str, tuple[Row, ...]]:
    """Return several model types that have the same."""
    return dict.fromkeys(names.split(), rows)


def hidden(width: int) -> Key:
    """Return the usual key of a width."""
    return Key("hidden_size", width)
