"""Embeddings of pictures that a model's `forward` makes within itself: Qwen2-Audio has no `get_audio_features`.

Its own code is run up to where it puts them into places among words. Nothing is told of how many there are: two tokens
stand for all places, and the check of their number is left out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from posenc.libraries import replaced

COUNTS = "torch_compilable_check"
"""The function of transformers that refuses places and embeddings of unlike numbers."""


class _Reached(Exception):
    """What ends a call once the embeddings are there."""

    def __init__(self, rows: Tensor) -> None:
        super().__init__("embeddings of pictures go into their places")
        self.rows = rows


def inner_features(model: Any, place: int) -> Callable[..., Any]:
    """Return what gives a model's embeddings of pictures, as `get_audio_features` does where there is one.

    Args:
        model: the whole model.
        place: the id of the tokens that are places of pictures.
    """

    def features(return_dict: bool = True, **pictures: Tensor) -> Any:
        """Return an output whose `pooler_output` are the embeddings."""
        base = model.base_model
        ids = torch.full((1, 2), place)
        with ExitStack() as stack:
            stack.enter_context(replaced(torch.Tensor, "masked_scatter", _reach))
            module = sys.modules[type(base).__module__]
            if hasattr(module, COUNTS):
                stack.enter_context(replaced(module, COUNTS, lambda *_, **__: None))
            try:
                # not a call of the module: an exporter keeps account of what is entered, and left
                base.forward(input_ids=ids, attention_mask=torch.ones_like(ids), **pictures, return_dict=return_dict)
            except _Reached as reached:
                return SimpleNamespace(pooler_output=reached.rows)
        raise ValueError("its forward puts no embeddings into places")

    return features


def _reach(_: Tensor, __: Tensor, rows: Tensor) -> Tensor:
    raise _Reached(rows)
