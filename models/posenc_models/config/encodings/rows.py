"""The encodings of a model type that is not rotary, or not rotary alone: a row for each, in the tables beside this."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from posenc.spec import Positions
from posenc_models.config.keys import Fixed, Key, KeyOrigin
from posenc_models.config.settings import Setting, Settings


@dataclass(frozen=True)
class If:
    """A condition on a config: the value of a source is among `values`."""

    source: KeyOrigin
    values: tuple[object, ...]

    def holds(self, config: Settings, absent: str) -> bool:
        """Return whether the condition holds."""
        return self.source.read(config, absent).value in self.values

    def failure(self, config: Settings, absent: str) -> str:
        """Return in words which value stands there instead."""
        setting = self.source.read(config, absent)
        name = self.source.name if isinstance(self.source, Key) else setting.path
        return f"{name} is {setting.value!r}"


LEARNED = "learned"
"""The scheme of a table that has a row for each position, and no other."""
LENGTH = "max_position_embeddings"
"""The usual key of how many positions a model has."""
FROM_THE_FIRST = Fixed(0)
"""The table begins with the row of position 0."""


@dataclass(frozen=True)
class Row:
    """An encoding of a model type.

    Args:
        scheme: the name of its scheme; empty where no scheme is like it.
        parameters: those of the scheme, each a constant or a `Source`.
        part: the name of the encoding, where a model type has several.
        when: the conditions under which a model has it.
        positions: how the model gives them, where that is not the scheme's own way.
        length: how many positions it has, where that is known.
        before: rows of its table before that of position 0; positions from a mask are counted from them.
        shifted: whether the scheme has a parameter `offset` for them.
        tables: how the names of its weights end. `*` stands for any number, `|` between names of which the first that
            exists counts; an ending with a dot stands for all tensors of a module.
        layers: the numbers that `*` stands for, where not all layers have it.
        lacks: why no scheme is like it, in words.
        differs: the known difference between scheme and model, and its size: a note in every report.
        returned: further parameters where cosines and sines are returned; with them nothing differs.
        cut: how many of the first rows of its table the model leaves out: that of a class token that it does not have.
        trained: the scheme where weights are given, for a table that the model's code computes before training.
    """

    scheme: str
    parameters: Mapping[str, object] = field(default_factory=dict)
    part: str = ""
    when: tuple[If, ...] = ()
    positions: Positions | None = None
    length: KeyOrigin | None = None
    before: KeyOrigin = FROM_THE_FIRST
    shifted: bool = True
    tables: tuple[str, ...] = ()
    layers: KeyOrigin | None = None
    lacks: str = ""
    differs: str = ""
    returned: Mapping[str, object] = field(default_factory=dict)
    trained: str = ""
    cut: int = 0

    def asked_for(self, overrides: Mapping[str, object]) -> "Row":
        """Return the row for what a user asks for, an output or weights; what is given counts before what it says."""
        if self.trained and overrides.get("weights") is not None:
            return replace(self, scheme=self.trained, trained="")
        if not self.returned or overrides.get("output") != "cos_sin" or not self.returned.keys().isdisjoint(overrides):
            return self
        return replace(self, parameters={**self.parameters, **self.returned}, differs="", returned={})

    def read(self, config: Settings, absent: str, constant: str) -> dict[str, Setting]:
        """Return its parameters, each with its origin, without those whose value is None."""
        sources = {name: _setting(value, config, absent, constant) for name, value in self.parameters.items()}
        return {name: setting for name, setting in sources.items() if setting.value is not None}

    def layer_numbers(self, config: Settings, absent: str) -> tuple[int, ...]:
        """Return the numbers of the layers that have it; () where all may."""
        numbers = () if self.layers is None else self.layers.read(config, absent).value
        assert isinstance(numbers, tuple)
        return numbers


def _setting(value: object, config: Settings, absent: str, constant: str) -> Setting:
    """Return a constant, or what a source reads; `constant` says in words whose constant it is."""
    return Setting(value, constant) if not hasattr(value, "read") else value.read(config, absent)


def alike(names: str, *rows: Row) -> dict[str, tuple[Row, ...]]:
    """Return several model types, by their names, that have the same encodings."""
    return dict.fromkeys(names.split(), rows)


def hidden(width: int) -> Key:
    """Return the usual key of a width."""
    return Key("hidden_size", width)
