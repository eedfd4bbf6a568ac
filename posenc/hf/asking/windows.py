"""Biases of windows: what attention adds to the scores of a window of nothing, by our table, or our network, in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc.encoding import eps
from posenc.hf.asking.built import built, put, zeros
from posenc.hf.asking.model import CannotAsk, HfConfig, HfModule, Model, Question
from posenc.hf.asking.running import array, in_order, output_name, run_, takes
from posenc.hf.asking.scores import of_attention
from posenc.ports import Array, Feeds

if TYPE_CHECKING:
    from torch import nn

NETWORK = (".0.weight", ".0.bias", ".2.weight")
Sides = tuple[int, int]


def model_of(question: Question) -> Model:
    """Return a model with our table in the attention of a window."""
    made = built(question)
    name = made.holding(made.row.tables[0])[0]
    ends = NETWORK if question.reading.scheme == "swin_cpb" else ("",)
    for end, table in zip(ends, in_order(question.tables), strict=True):
        put(made.model, name + end, table)
    owner = made.model.get_submodule(name.rpartition(".")[0])
    bias = bias_of(owner, made.config)

    def call(feeds: Feeds) -> dict[str, Array]:
        sides = sides_in(question, feeds)
        values = np.broadcast_to(bias(sides), (1, *question_shape(question, sides)))
        return {output_name(question): values + feeds["scores"] if "scores" in feeds else values}

    return Model(type(owner).__name__, made.library, call, atol=float32_error(question))


def float32_error(question: Question) -> float:
    """Return how far a baked window may be from the model's network, which runs in float32; 0 for a table's numbers."""
    computed = any(axis.kind == "grid" for port in question.inputs for axis in port.axes)
    if question.reading.scheme != "swin_cpb" or computed:  # a graph that computes it is off by as much itself
        return 0.0
    import torch

    from posenc.schemes.swin_cpb import error
    from posenc.sources.window.encode import sides_of
    from posenc.sources.window.network import Network

    network = Network(*(torch.from_numpy(table) for table in in_order(question.tables)))
    norm = sides_of("pretrained_window", question.reading.parameters.get("pretrained_window", 0), least=0)
    return error(network, sides_in(question, {}), norm, eps("float32"))


def question_shape(question: Question, sides: Sides) -> tuple[int, int, int]:
    """Return the heads and the tokens of a bias of a window: two times as many as its places, and the class token."""
    heads = next(int(axis.size or 1) for axis in question.outputs[0].axes if axis.kind == "heads")
    tokens = sides[0] * sides[1] + bool(question.reading.parameters.get("class_token", False))
    return heads, tokens, tokens


def sides_in(question: Question, feeds: Feeds) -> Sides:
    """Return the sides of the window of a call: of its x, or those of the baked one."""
    for port in question.inputs:
        grid = [i for i, axis in enumerate(port.axes) if axis.kind == "grid"]
        if len(grid) == 2:
            return int(feeds[port.name].shape[grid[0]]), int(feeds[port.name].shape[grid[1]])
    window = question.reading.parameters["window"]
    return (window, window) if isinstance(window, int) else (int(window[0]), int(window[1]))


def bias_of(owner: nn.Module, config: HfConfig) -> Callable[[Sides], Array]:
    """Return what gives the bias of a window: a module of its own, or an attention."""
    if takes(owner, "window_size"):
        return lambda sides: array(run_(lambda: owner(sides)))
    own = tuple(int(side) for side in pair(owner.window_size))

    def of_own(sides: Sides) -> Array:
        if sides != own and hasattr(owner, "continuous_position_bias_mlp"):
            return of_attention(as_large(owner, config, sides), hidden(owner, sides))
        if sides != own:
            raise CannotAsk(f"{type(owner).__name__} has a window of {own[0]} x {own[1]}, and no other")
        return array(run_(owner)) if not takes(owner, "hidden_states") else of_attention(owner, hidden(owner, own))

    return of_own


def as_large(owner: nn.Module, config: HfConfig, sides: Sides) -> nn.Module:
    """Return an attention of Swin V2, of a window of another size, whose bias is of the same network."""
    larger: Any = zeros(
        type(owner), config, owner.all_head_size, owner.num_attention_heads, sides, owner.pretrained_window_size
    )
    larger.continuous_position_bias_mlp = owner.continuous_position_bias_mlp
    module: nn.Module = larger
    return module


def hidden(owner: HfModule, sides: Any) -> Any:
    """Return a window of nothing."""
    import torch

    return torch.zeros(1, sides[0] * sides[1], owner.all_head_size)


def pair(size: object) -> Any:
    """Return two sides, of which one number may stand for both."""
    return (size, size) if isinstance(size, int) else size
