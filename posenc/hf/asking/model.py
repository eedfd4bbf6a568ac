"""What a model is asked, and what it answers: arrays and words; neither torch nor transformers is needed here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from posenc.hf.config.settings import Json
from posenc.hf.read import Reading
from posenc.ports import Array, Feeds, Port

Function = Callable[..., Any]
Arguments = Sequence[object]
Keywords = Mapping[str, object] | None
"""A function of torch, and what it is called with, where something else runs in its place."""
Instead = Callable[[Function, Arguments, Mapping[str, object]], object]
"""What runs in its place."""


class HfConfig(Protocol):
    """A config of another library: it has what its class has."""

    def __getattr__(self, name: str, /) -> Any: ...

    def __setattr__(self, name: str, value: object, /) -> None: ...


class HfModule(Protocol):
    """A module of another library, or a class of one: it has what its class has, and takes what its forward takes."""

    def __getattr__(self, name: str, /) -> Any: ...

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Return what it gives."""


class CannotAsk(ValueError):
    """A model cannot be asked: its library is missing, has no such type, or refuses the config; one line says why."""


class Disagrees(CannotAsk):
    """A model has no place for what was read, as its own tables have another shape: a failure; one line says which."""


@dataclass(frozen=True)
class Question:
    """A config, which of its encodings is meant, and how it was read.

    content: the whole config.json. part: "" for the config itself. layer: None where all layers are alike.
    inputs, outputs: the ports of our encoding.
    tables: learned tables in the order that the scheme takes them in (`Encoding.learned`), "0", "1", ..., to be put
        into the model's module.
    """

    content: Json
    part: str
    layer: int | None
    reading: Reading
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    tables: Mapping[str, Array] = field(default_factory=dict)
    layer_type: str = ""


@dataclass(frozen=True)
class Model:
    """A model's own code, ready to be called.

    words: the classes and functions that answer. library: its name and version.
    call: our feeds by port name -> what the model's code gives, by the names of our outputs; NaN where it says nothing.
        Raises CannotAsk where it has no answer to a call.
    permutation: feature i of our outputs is feature permutation[i] of the model's; () where they stand alike.
    note: what is known to differ without being wrong, such as layers that rotate otherwise.
    amplitude: what cosines and sines of angles that grow with the position are multiplied by; 0 where there are none.
    atol: what else the model's own float32 may be off by.
    """

    words: str
    library: str
    call: Callable[[Feeds], Mapping[str, Array]]
    permutation: tuple[int, ...] = ()
    note: str = ""
    amplitude: float = 0.0
    atol: float = 0.0
