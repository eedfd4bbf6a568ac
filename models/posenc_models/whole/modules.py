"""Modules that call a model of transformers with tensors by position, as exporters do, and give tensors in a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn


class Encoder(nn.Module):
    """A model without a cache.

    Args:
        model: the model.
        inputs: the names of its arguments, in the order in which tensors come.
        outputs: the attributes of its output.
    """

    def __init__(self, model: nn.Module, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        super().__init__()
        self.model, self.inputs, self.outputs = model, tuple(inputs), tuple(outputs)

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs of a call."""
        output = self.model(**dict(zip(self.inputs, tensors, strict=True)), return_dict=True)
        return tuple(getattr(output, name) for name in self.outputs)


class Decoder(nn.Module):
    """A causal language model with its cache: keys and values of earlier tokens come last, a pair a layer.

    Args:
        model: the model.
        inputs: the names of its other arguments, in the order in which tensors come.
    """

    def __init__(self, model: nn.Module, inputs: Sequence[str]) -> None:
        super().__init__()
        self.model, self.inputs = model, tuple(inputs)

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return logits (batch, seq, vocabulary), then keys and values (batch, heads, past + seq, features)."""
        named = dict(zip(self.inputs, tensors, strict=False))
        past = tensors[len(self.inputs) :]
        output = self.model(**named, past_key_values=cache_of(past), use_cache=True, return_dict=True)
        return (output.logits, *key_values(output.past_key_values))


def cache_of(past: Sequence[Tensor]) -> Any:
    """Return a cache that holds keys and values, a pair a layer."""
    from transformers import DynamicCache

    cache = DynamicCache()
    for layer in range(len(past) // 2):
        cache.update(past[2 * layer], past[2 * layer + 1], layer)
    return cache


def key_values(cache: Any) -> list[Tensor]:
    """Return the keys and values of a cache, a pair a layer."""
    return [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]
