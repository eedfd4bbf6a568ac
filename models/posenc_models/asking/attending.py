"""Attentions that rotate by a method of their own, at the places that they are given: V-JEPA 2's, and its predictor's.

They return no cosines and sines: these are what comes of features that are 1 and 0.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from posenc.call import positions_of
from posenc.ports import Array, Feeds, Integers, Values, carrying
from posenc_models.asking.built import Built
from posenc_models.asking.model import Answer, Disagrees, OwnModel, Question
from posenc_models.asking.running import array, run_
from posenc_models.config.foreign import HfModule

ATTENTIONS = "RopeAttention$"
"""How the names of their classes end."""


@dataclass(frozen=True)
class Attention:
    """An attention, and what is asked of it."""

    question: Question
    module: HfModule

    def call(self, feeds: Feeds) -> Answer:
        """Return queries and keys rotated at the places of a call, or the cosines and sines there."""
        question, names = self.question, [port.name for port in self.question.outputs]
        places = positions_of(0, question.inputs, feeds)  # (axes, batch or 1, ...)
        if question.reading.parameters.get("output") == "cos_sin":
            return dict(zip(names, self.cos_sin(places), strict=True))
        values = [feeds[port.name] for port in carrying(question.inputs, Values)]
        return {name: self.heads(x, places) for name, x in zip(names, values, strict=True)}

    def heads(self, x: Array, places: Integers) -> Array:
        """Return heads as the attention rotates them, with the axes of ours."""
        by_place = self.question.reading.parameters.get("tensor_layout") == "bshd"
        swapped = np.moveaxis(x, -2, 1) if by_place else x  # (batch, heads, places..., head_dim)
        flat = swapped.reshape(*swapped.shape[:2], -1, swapped.shape[-1])
        out = self.rotated(flat, places.reshape(*places.shape[:2], -1)).reshape(swapped.shape)
        return np.moveaxis(out, 1, -2) if by_place else out

    def cos_sin(self, places: Integers) -> tuple[Array, Array]:
        """Return the cosines and sines at places, a column a feature: (batch, ..., features)."""
        flat = places.reshape(*places.shape[:2], -1)
        heads = np.zeros((2, flat.shape[1], 1, flat.shape[2], self.module.attention_head_size))
        heads[0, ..., 0::2], heads[1, ..., 1::2] = 1, 1
        # of (1, 0) come cos x and sin y, of (0, 1) come -sin x and cos y
        ones, others = (self.rotated(values, flat)[:, 0] for values in heads)
        is_first = np.arange(heads.shape[-1]) % 2 == 0
        count = self.module.d_dim + self.module.h_dim + self.module.w_dim
        cos, sin = np.where(is_first, ones, others), np.where(is_first, -others, ones)
        shape = (*places.shape[1:], count)
        return cos[..., :count].reshape(shape), sin[..., :count].reshape(shape)

    def rotated(self, heads: Array, places: Integers) -> Array:
        """Return (batch, heads, tokens, head_dim) rotated at places (axes, batch or 1, tokens)."""
        features = self.module.attention_head_size
        if heads.shape[-1] != features:
            raise Disagrees(f"its heads have {features} features, ours {heads.shape[-1]}")
        x: Tensor = torch.from_numpy(np.array(heads, np.float32))
        # an axis at a time, with a place for each head: (batch, heads, tokens)
        at = [torch.from_numpy(np.array(axis)).unsqueeze(1).expand(x.shape[:3]) for axis in places]
        return array(run_(lambda: self.module.apply_rotary_embeddings(x, at)))


def model_in(question: Question, made: Built) -> OwnModel:
    """Return the rotations of a model's attentions: those of its predictor, or of its encoder."""
    within = f"{made.row.part or 'encoder'}."
    path = next(path for path in made.paths(ATTENTIONS) if path.startswith(within) or f".{within}" in path)
    module: HfModule = made.model.get_submodule(path)
    words = f"{type(module).__name__}.apply_rotary_embeddings"
    return OwnModel(words, made.library, Attention(question, module).call, amplitude=1.0)
