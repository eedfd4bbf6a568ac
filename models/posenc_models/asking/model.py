"""What a model is asked, and what it answers: arrays and words; neither torch nor transformers is needed here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from posenc.ports import Array, Feeds, Port
from posenc_models.config.read import Reading
from posenc_models.config.settings import Json

Function = Callable[..., Any]
Instead = Callable[[Function, Sequence[object], Mapping[str, object]], object]
"""A function that runs in the place of torch's functions: it gets the function, its arguments and its keywords."""
Answer = Mapping[str, Array]
"""Outputs by the names of our ports."""
Call = Callable[[Feeds], Answer]
"""Inputs by the names of our ports, to outputs."""


class CannotAsk(ValueError):
    """A model cannot be asked: its library is missing, has no such type, or refuses the config; one line says why."""


class Disagrees(CannotAsk):
    """A model has no place for what was read, as its own tables have another shape: one line says which."""


@dataclass(frozen=True)
class Question:
    """A config, which of its encodings is meant, and how it was read.

    Args:
        content: the whole config.json.
        part: the name of the encoding; "" for the config itself.
        layer: the number of the layer; None where all layers are alike.
        reading: the scheme and its parameters.
        inputs: the input ports of our encoding.
        outputs: its output ports.
        tables: learned tables in the order of `Encoding.learned`, "0", "1", ..., to be put into the model's module.
        layer_type: the type of the layers that are read; "" where they have none.
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
class OwnModel:
    """A model's own code, ready to be called.

    Args:
        words: the classes and functions that answer.
        library: the library's name and version.
        call: our feeds by port name -> the model's outputs by the names of ours; NaN where it says nothing. Raises
            CannotAsk where it has no answer to a call.
        permutation: feature i of our outputs is feature permutation[i] of the model's; () where the order is the same.
        note: a known difference that is not wrong, such as layers that rotate otherwise.
        amplitude: the factor of cosines and sines of angles that grow with the position; 0 for other encodings.
        atol: the error of the model's own float32 beside that of its angles.
    """

    words: str
    library: str
    call: Call
    permutation: tuple[int, ...] = ()
    note: str = ""
    amplitude: float = 0.0
    atol: float = 0.0
