"""A model's own forward, run up to the module that gives what is asked about: the rest of the model never runs."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from posenc.ports import Array, Feeds, Mask, Port, Positions, Start, Values, carrying
from posenc_models.asking.built import refusals
from posenc_models.asking.model import Answer, CannotAsk, Question
from posenc_models.config.foreign import HfModule

Sides = tuple[int, int]
"""Height and width."""


class Reached(BaseException):
    """Ends a forward where what is asked about was given; no code that catches exceptions catches it."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


def output_of(module: HfModule, run: Callable[[], object], *, before: bool = False) -> Any:
    """Return the output of a module while something runs, or its input; raise CannotAsk where it is not called."""

    def reached(_: object, inputs: object, *outputs: Any) -> None:
        raise Reached(outputs[-1])

    def entered(_: object, inputs: Sequence[object], keywords: Mapping[str, object]) -> None:
        raise Reached(inputs[0] if inputs else next(iter(keywords.values())))

    hook = (
        module.register_forward_pre_hook(entered, with_kwargs=True) if before else module.register_forward_hook(reached)
    )
    try:
        run_(run)
    except Reached as stop:
        return stop.value
    finally:
        hook.remove()
    raise CannotAsk(f"{type(module).__name__} is not called by its model")


def run_(call: Callable[[], object]) -> Any:
    """Return the output of a model's own code, without gradients; raise CannotAsk, in one line, where it refuses."""
    with torch.no_grad(), refusals("its own code"):
        return call()


def values_of(call: Callable[[], object]) -> Array:
    """Return the tensor that a model's own code gives, as `run_` does, as an array."""
    return array(run_(call))


def around(model: nn.Module, path: str) -> Iterator[nn.Module]:
    """Yield the modules around a module: the nearest model first, then those within it, then those around it."""
    from transformers import PreTrainedModel

    names = path.split(".")
    modules = [model.get_submodule(".".join(names[:i])) for i in range(len(names) - 1, -1, -1)]
    models = [i for i, module in enumerate(modules) if isinstance(module, PreTrainedModel)]
    nearest = models[0] if models else len(modules) - 1
    yield from (modules[nearest], *modules[:nearest], *modules[nearest + 1 :])


def takes(module: HfModule, *names: str) -> bool:
    """Whether a module's forward has inputs of all these names."""
    return set(names) <= set(inspect.signature(module.forward).parameters)


def only(module: HfModule, **inputs: object) -> dict[str, object]:
    """Return the inputs that a module's forward has."""
    return {name: value for name, value in inputs.items() if takes(module, name)}


def array(values: Tensor) -> Array:
    """Return a tensor as an array of its own."""
    result: Array = values.detach().cpu().numpy()
    return result


def x_of(question: Question, feeds: Feeds) -> Array:
    """Return the values of a call."""
    return feeds[carrying(question.inputs, Values)[0].name]


def port_of(question: Question, kind: type[object]) -> Port | None:
    """Return the first input that carries something; None where no input does."""
    return next(iter(carrying(question.inputs, kind)), None)


def answer(question: Question, values: Array) -> Answer:
    """Return an answer under the name of the only output."""
    return {question.outputs[0].name: values}


def added_to_scores(question: Question, bias: Array, feeds: Feeds) -> Answer:
    """Return a bias, added to the scores of a call where it has some."""
    return answer(question, bias + feeds["scores"] if "scores" in feeds else bias)


def positions_in(question: Question, feeds: Feeds, length: int) -> Array | None:
    """Return the positions of a call, given or counted from its start; None for a call without either."""
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


def pair(size: int | Sequence[int]) -> Sides:
    """Return height and width; a single number is the side of a square."""
    return (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))
