"""Biases of windows: what attention adds to the scores of an empty window, with our table or our network in it."""

from collections.abc import Callable
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from posenc.encoding import eps
from posenc.ports import Array, Feeds
from posenc_models.asking.built import built, parent_of, put, zeros
from posenc_models.asking.model import Answer, CannotAsk, OwnModel, Question
from posenc_models.asking.running import Sides, added_to_scores, in_order, pair, takes, values_of
from posenc_models.asking.scores import of_attention
from posenc_models.config.foreign import HfConfig, HfModule

NETWORK = (".0.weight", ".0.bias", ".2.weight")
"""Weights of Swin V2's continuous_position_bias_mlp: its second layer has no bias."""


def model_of(question: Question) -> OwnModel:
    """Return a model with our table in the attention of a window."""
    made = built(question)
    ends = NETWORK if question.reading.scheme == "swin_cpb" else ("",)
    for end, table in zip(ends, in_order(question.tables), strict=True):
        put(made.model, made.table + end, table)
    owner = parent_of(made.model, made.table)
    bias = bias_of(owner, made.config)

    def call(feeds: Feeds) -> Answer:
        sides = sides_in(question, feeds)
        values = np.broadcast_to(bias(sides), (1, *question_shape(question, sides)))
        return added_to_scores(question, values, feeds)

    return OwnModel(type(owner).__name__, made.library, call, atol=float32_error(question))


def float32_error(question: Question) -> float:
    """Return how far a baked window may be from the model's network, which runs in float32; 0 for a table's numbers."""
    computed = any(axis.kind == "grid" for port in question.inputs for axis in port.axes)
    if question.reading.scheme != "swin_cpb" or computed:  # a graph that computes it is off by as much itself
        return 0.0
    from posenc.schemes.swin_cpb import error
    from posenc.sources.window.encode import sides_of
    from posenc.sources.window.network import Network

    network = Network(*map(torch.from_numpy, in_order(question.tables)))
    norm = sides_of("pretrained_window", question.reading.parameters.get("pretrained_window", 0), least=0)
    return error(network, sides_in(question, {}), norm, eps("float32"))


def question_shape(question: Question, sides: Sides) -> tuple[int, int, int]:
    """Return the shape of a window's bias, (heads, tokens, tokens): its places, and the class token if it has one."""
    heads = next(int(axis.size or 1) for axis in question.outputs[0].axes if axis.kind == "heads")
    tokens = sides[0] * sides[1] + bool(question.reading.parameters.get("class_token", False))
    return heads, tokens, tokens


def sides_in(question: Question, feeds: Feeds) -> Sides:
    """Return the sides of the window of a call: those of its x, or of the baked window."""
    for port in question.inputs:
        grid = [i for i, axis in enumerate(port.axes) if axis.kind == "grid"]
        if len(grid) == 2:
            return int(feeds[port.name].shape[grid[0]]), int(feeds[port.name].shape[grid[1]])
    return pair(question.reading.parameters["window"])


def bias_of(owner: HfModule, config: HfConfig) -> Callable[[Sides], Array]:
    """Return the function from the sides of a window to its bias: of a module of its own, or of an attention."""
    if takes(owner, "window_size"):
        return lambda sides: values_of(lambda: owner(sides))
    own = pair(owner.window_size)

    def of_own(sides: Sides) -> Array:
        if sides != own and hasattr(owner, "continuous_position_bias_mlp"):
            return of_attention(as_large(owner, config, sides), hidden(owner, sides))
        if sides != own:
            raise CannotAsk(f"{type(owner).__name__} has a window of {own[0]} x {own[1]}, and no other")
        return of_attention(owner, hidden(owner, own)) if takes(owner, "hidden_states") else values_of(owner)

    return of_own


def as_large(owner: HfModule, config: HfConfig, sides: Sides) -> nn.Module:
    """Return an attention of Swin V2 for a window of another size, with the same network."""
    kind, sizes = cast("type[nn.Module]", type(owner)), (owner.all_head_size, owner.num_attention_heads)
    larger = zeros(kind, config, *sizes, sides, owner.pretrained_window_size)
    larger.continuous_position_bias_mlp = owner.continuous_position_bias_mlp
    return larger


def hidden(owner: HfModule, sides: Sides) -> Tensor:
    """Return the tokens of an empty window: (1, places, features)."""
    return torch.zeros(1, sides[0] * sides[1], owner.all_head_size)
