"""Attention temperature: queries of ones go through a model's own attention, and come out as its factors.

All projections of the attention give ones, and cosines and sines turn by nothing; what the function that attends then
gets as queries is looked at, and it never runs.
"""

import inspect
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace

import numpy as np
import torch
from torch import Tensor, nn

from posenc.encoding import eps
from posenc.ports import Array, Feeds
from posenc_models.asking.built import config_of, part_of, zeros
from posenc_models.asking.load import library_of, modeling_of
from posenc_models.asking.model import Answer, CannotAsk, OwnModel, Question
from posenc_models.asking.running import Reached, array, only, positions_in, run_
from posenc_models.asking.standing import setting
from posenc_models.asking.tables import looked_up
from posenc_models.config.foreign import HfConfig, HfModule

ATTENDS = "ALL_ATTENTION_FUNCTIONS"
"""The name, in a modeling file, of the functions that attend."""
QUERIES = ("q_proj", "q_b_proj")
"""The projections that give queries."""
ROUNDINGS = 8
"""Roundings of float32 in a factor: of a logarithm, a product and a sum, of numbers near 1."""


class Ones(nn.Module):
    """A projection whose output is ones, without the memory of them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: Tensor) -> Tensor:
        """Return ones: (batch, seq, any) -> (batch, seq, width)."""
        return torch.ones(()).expand(*x.shape[:-1], self.width)


def model_of(question: Question) -> OwnModel:
    """Return the factors of the first layer whose queries have one; raise CannotAsk where no layer can be called."""
    part, _ = part_of(question)
    config = config_of(question.content, part)
    modeling = modeling_of(config)
    attention = _attention(question, config, modeling)

    def call(feeds: Feeds) -> Answer:
        positions = positions_in(question, feeds, 0)
        if positions is None:
            raise CannotAsk("the model counts tokens, not those of a mask")
        values = looked_up(lambda mask: _factors(attention, modeling, mask.shape[1])[None], positions)
        return {question.outputs[0].name: values}

    largest = 1 + float(question.reading.parameters["beta"]) * np.log1p(2.0**24)
    return OwnModel(type(attention).__name__, library_of(), call, atol=ROUNDINGS * eps("float32") * largest)


def _attention(question: Question, config: HfConfig, modeling: ModuleType) -> nn.Module:
    """Return the attention of the first layer that multiplies queries by a factor of their position, if one does."""
    length = int(question.reading.parameters["step"]) + 1
    called, refused = None, "it has no attention of layers"
    for attention in _attentions(config, modeling):
        try:
            factors = _factors(attention, modeling, length)
        except CannotAsk as error:
            refused = str(error)
            continue
        # both sides of the step that was read
        if factors[0] != factors[-1]:
            return attention
        called = called or attention
    if called is None:
        raise CannotAsk(refused)
    # no factor at all, or another step: the answer says so
    return called


def _attentions(config: HfConfig, modeling: ModuleType) -> Iterator[nn.Module]:
    """Yield the attention of each layer, of zeros, whose projections give ones."""
    named = [kind for name, kind in vars(modeling).items() if name.endswith("Attention")]
    kinds = [kind for kind in named if isinstance(kind, type) and issubclass(kind, nn.Module)]
    # an attention without a layer's number is one of images
    for kind in (kind for kind in kinds if "layer_idx" in inspect.signature(kind).parameters):
        for layer in range(config.num_hidden_layers):
            attention = zeros(kind, config, layer)
            for name, child in list(attention.named_children()):
                if isinstance(child, nn.Linear):
                    # one head is enough: the model's code counts heads by the width
                    setattr(attention, name, Ones(_width(attention) if name in QUERIES else child.out_features))
            yield attention


def _width(attention: HfModule) -> int:
    """Return the features of a head of queries."""
    return int(getattr(attention, "qk_head_dim", 0) or attention.head_dim)


def _factors(attention: HfModule, modeling: ModuleType, length: int) -> Array:
    """Return what an attention multiplies queries at positions 0..length-1 by: (length, 1)."""

    def attend(_: object, queries: Tensor, *more: object, **settings: object) -> None:
        raise Reached(queries)

    features = int(getattr(attention, "qk_rope_head_dim", 0) or attention.head_dim)
    angles = torch.ones(1, length, features), torch.zeros(1, length, features)
    inputs = only(
        attention,
        hidden_states=torch.zeros(()).expand(1, length, 1),
        position_embeddings=angles,
        attention_mask=None,
        position_ids=torch.arange(length)[None],
    )
    with setting(modeling, ATTENDS, SimpleNamespace(get_interface=lambda *_: attend)):
        try:
            run_(lambda: attention(**inputs))
        except Reached as stop:
            # (batch = 1, heads, seq, head_dim): one feature stands for all
            return array(stop.value[0, 0, :, :1])
    raise CannotAsk(f"{type(attention).__name__} attends by no function of {ATTENDS}")
