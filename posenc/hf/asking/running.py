"""A model's own forward, run up to the module that gives what is asked about: the rest of the model never runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc.hf.asking.built import refusals
from posenc.hf.asking.model import CannotAsk, Question
from posenc.ports import Array, Feeds, Mask, Port, Positions, Start, Values, carrying

if TYPE_CHECKING:
    from torch import Tensor, nn


class Reached(BaseException):
    """Ends a forward where what is asked about was given; no code that catches exceptions catches it."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


def output_of(module: nn.Module, run: Callable[[], object], *, before: bool = False) -> Any:
    """Return what a module gives while something runs, or what goes into it; raise CannotAsk where it is not called."""

    def reached(_: object, inputs: object, *outputs: Any) -> None:
        raise Reached(outputs[-1])

    def entered(_: object, inputs: Sequence[object], keywords: Mapping[str, object]) -> None:
        raise Reached(inputs[0] if inputs else next(iter(keywords.values())))

    hooks = (module.register_forward_hook(reached), module.register_forward_pre_hook(entered, with_kwargs=True))
    hooks[not before].remove()
    try:
        run_(run)
    except Reached as stop:
        return stop.value
    finally:
        hooks[before].remove()
    raise CannotAsk(f"{type(module).__name__} is not called by its model")


def run_(call: Callable[[], object]) -> Any:
    """Return what a model's own code gives, without gradients; raise CannotAsk, in one line, where it refuses."""
    import torch

    with torch.no_grad(), refusals("its own code"):
        return call()


def around(model: nn.Module, path: str) -> Iterator[tuple[str, nn.Module]]:
    """Yield the modules that a module stands in, the nearest model first, then those within it, then those around."""
    from transformers import PreTrainedModel

    names = path.split(".")
    inside = [".".join(names[:i]) for i in range(len(names) - 1, -1, -1)]
    modules = [(name, model.get_submodule(name)) for name in inside]
    nearest = next(
        (i for i, (_, module) in enumerate(modules) if isinstance(module, PreTrainedModel)), len(modules) - 1
    )
    yield from (modules[nearest], *modules[:nearest], *modules[nearest + 1 :])


def takes(module: nn.Module, *names: str) -> bool:
    """Whether a module's forward has inputs of all these names."""
    return set(names) <= set(inspect.signature(module.forward).parameters)


def only(module: nn.Module, **inputs: object) -> dict[str, object]:
    """Return the inputs that a module's forward has."""
    return {name: value for name, value in inputs.items() if takes(module, name)}


def tensor(array: Array) -> Tensor:
    """Return an array as a tensor."""
    import torch

    return torch.from_numpy(np.ascontiguousarray(array))


def array(values: Tensor) -> Array:
    """Return a tensor as an array of its own."""
    result: Array = values.detach().cpu().numpy()
    return result


def x_of(question: Question, feeds: Feeds) -> Array:
    """Return the values of a call."""
    return feeds[carrying(question.inputs, Values)[0].name]


def port_of(question: Question, kind: type[object]) -> Port | None:
    """Return the input that carries something, if one does."""
    return next(iter(carrying(question.inputs, kind)), None)


def output_name(question: Question) -> str:
    """Return the name of the one output."""
    return question.outputs[0].name


def positions_in(question: Question, feeds: Feeds, length: int) -> Array | None:
    """Return the positions that a call gives, or counts from its start; None where it gives none."""
    explicit, start = port_of(question, Positions), port_of(question, Start)
    if explicit is not None:
        return feeds[explicit.name]
    return None if start is None else feeds[start.name] + np.arange(length)[None]


def mask_in(question: Question, feeds: Feeds) -> Array | None:
    """Return the mask of a call, if it has one."""
    port = port_of(question, Mask)
    return None if port is None else feeds[port.name]


def in_order(tables: Mapping[str, Array]) -> Sequence[Array]:
    """Return learned tables as a scheme took them in."""
    return list(tables.values())
