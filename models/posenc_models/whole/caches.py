"""Caches of transformers that hold what a decoder remembers: filled before a call, and read after it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import (
    DummyLayer,
    DynamicCache,
    DynamicLayer,
    LinearAttentionAndFullAttentionLayer,
    LinearAttentionLayer,
)

from posenc_models.whole.kernels import each_token_masked, length_free
from posenc_models.whole.memories import KeyValues, Memory
from posenc_models.whole.tasks import EMBEDDINGS, TYPES


class StateOfGraph:
    """How a layer takes new states while a graph is captured: nothing is written in place, and no call is the first."""

    conv_states: Any
    recurrent_states: Any

    def update_conv_state(
        self, conv_states: Tensor, state_idx: int = 0, conv_kernel_size: int | None = None, **_: object
    ) -> Tensor:
        """Return the columns before those of a call, and these; keep the last: (batch, channels, columns + seq)."""
        before: Tensor = self.conv_states[state_idx]
        columns = torch.cat([before, conv_states.to(before.dtype)], -1)
        self.conv_states[state_idx] = columns[..., -before.shape[-1] :]
        return columns

    def update_recurrent_state(self, recurrent_states: Tensor, state_idx: int = 0, **_: object) -> Tensor:
        """Keep a state in the place of the last one, in its dtype."""
        state: Tensor = recurrent_states.to(self.recurrent_states[state_idx].dtype)
        self.recurrent_states[state_idx] = state
        return state


class LayerOfGraph(StateOfGraph, LinearAttentionLayer):
    """A layer of states, while a graph is captured."""


class HybridOfGraph(StateOfGraph, LinearAttentionAndFullAttentionLayer):  # type: ignore[misc, override]
    """A layer of keys, values and states, while a graph is captured."""


class CacheOfGraph(DynamicCache):
    """A cache while a graph is captured: it says which state a layer asked for last, also where the layer drops it."""

    asked: Tensor
    taken = 0

    def get_recurrent_state(self, layer_idx: int, state_idx: int = 0) -> Tensor | None:
        """Return the state of a layer."""
        state: Tensor | None = super().get_recurrent_state(layer_idx, state_idx)
        if state is not None:
            self.asked, self.taken = state, 0
        return state

    def next_state(self) -> Tensor:
        """Return the state that was asked for, (batch, channels, size); of several heads, one after the other."""
        if self.asked.dim() == 3:
            return self.asked
        self.taken += 1
        return self.asked[:, self.taken - 1]


def cache_of_layers(layers: Sequence[Sequence[Memory]], past: Sequence[Tensor]) -> DynamicCache:
    """Return a cache that holds what layers remember.

    Args:
        layers: the memories of each layer.
        past: their tensors, one after the other.
    """
    rest, is_captured = iter(past), torch.compiler.is_exporting()
    cache = CacheOfGraph() if is_captured else DynamicCache()
    cache.layers = [_layer(memories, rest, is_captured=is_captured) for memories in layers]
    cache.layer_class_to_replicate = None
    return cache


def held_by(layers: Sequence[Sequence[Memory]], cache: Any) -> list[Tensor]:
    """Return the tensors that a cache holds, one after the other, as `cache_of_layers` takes them."""
    pairs = zip(layers, cache.layers, strict=True)
    return [tensor for memories, layer in pairs for memory in memories for tensor in memory.held(layer)]


def _layer(memories: Sequence[Memory], past: Iterator[Tensor], *, is_captured: bool) -> Any:
    """Return a layer with its memories; where states are zeros, it knows of none, as in the first call of a text."""
    attends = any(isinstance(memory, KeyValues) for memory in memories)
    states = [memory for memory in memories if not isinstance(memory, KeyValues)]
    if not memories:
        return DummyLayer()
    layer: Any
    if not states:
        layer = DynamicLayer()
        layer.update(next(past), next(past))
        return layer
    of_graph, plain = (HybridOfGraph, LayerOfGraph), (LinearAttentionAndFullAttentionLayer, LinearAttentionLayer)
    hybrid, alone = of_graph if is_captured else plain
    layer = (hybrid if attends else alone)(number_of_states=1 + max(state.index for state in states))
    if attends:
        DynamicLayer.update(layer, next(past), next(past))
    given = [(state, next(past)) for state in states]
    if not is_captured and not any(bool(tensor.any()) for _, tensor in given):
        return layer
    for state, tensor in given:
        # a model may write into its state
        getattr(layer, state.kept_in)[state.index] = tensor if is_captured else tensor.clone()
        getattr(layer, f"is_{state.kept_in}_initialized")[state.index] = True
        layer.has_previous_state[state.index] = True
        if state.kept_in == "conv_states":
            layer.conv_kernel_size[state.index] = tensor.shape[-1]
        layer.dtype, layer.device = tensor.dtype, tensor.device
    return layer


@dataclass(frozen=True)
class CallWithStates:
    """How a model is called that remembers states.

    Args:
        layers: what each of its layers remembers.
        cache: the name under which it takes a cache, and gives it.
        by_token: whether it forgets its states where several tokens come behind them: then these go in one by one.
    """

    layers: tuple[tuple[Memory, ...], ...]
    cache: str
    by_token: bool = False

    @property
    def attends(self) -> bool:
        """Whether any layer remembers keys and values."""
        return any(memory.grows for memories in self.layers for memory in memories)

    def call(
        self, model: nn.Module, named: Mapping[str, Tensor], past: Sequence[Tensor], keywords: Mapping[str, Any]
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the logits of a call, (batch, seq, vocabulary), and what its layers remember.

        Args:
            model: the model.
            named: its inputs; a mask is that of all tokens, cached and new.
            past: what layers remember, one tensor after the other.
            keywords: what else it takes.
        """
        if torch.compiler.is_exporting():
            cache = cache_of_layers(self.layers, past)
            with length_free(model, cache):
                return self._call(model, named, cache, keywords)
        cache = cache_of_layers(self.layers, past)
        tokens = tokens_of(named)
        if not self.by_token or tokens == 1 or not any(_has_state(layer) for layer in cache.layers):
            return self._call(model, named, cache, keywords)
        logits: list[Tensor] = []
        with each_token_masked(model):
            for token in range(tokens):
                part, past = self._call(model, _of_token(named, token), cache_of_layers(self.layers, past), keywords)
                logits.append(part)
        return torch.cat(logits, 1), list(past)

    def _call(
        self, model: nn.Module, named: Mapping[str, Tensor], cache: Any, keywords: Mapping[str, Any]
    ) -> tuple[Tensor, list[Tensor]]:
        given = dict(named)
        if "attention_mask" in given and not self.attends:
            # nothing of it is read but what it says of the new tokens, and some models take no more
            given["attention_mask"] = given["attention_mask"][:, -tokens_of(given) :]
        output = model(**given, **{self.cache: cache}, use_cache=True, return_dict=True, **keywords)
        return output.logits, held_by(self.layers, getattr(output, self.cache))


def _has_state(layer: Any) -> bool:
    return any(getattr(layer, "has_previous_state", {}).values())


def _of_token(named: Mapping[str, Tensor], token: int) -> dict[str, Tensor]:
    """Return the inputs of one of the tokens of a call: of the mask, all up to it."""
    behind = tokens_of(named) - 1 - token
    one = slice(token, token + 1)
    return {
        name: value[:, : value.shape[1] - behind]
        if name == "attention_mask"
        else value[:, one]
        if name == EMBEDDINGS
        else value[..., one]
        for name, value in named.items()
    }


def tokens_of(named: Mapping[str, Tensor]) -> int:
    """Return how many tokens a call has, by their ids or their embeddings."""
    first = named["input_ids"] if "input_ids" in named else named[EMBEDDINGS]
    return first.shape[1]


BY_TOKEN = (
    "behind a state transformers forgets it where a call has several tokens: such a call of the graph gives what as "
    "many calls of one token give in eager"
)
"""What is said of a model whose calls of several tokens begin without a state."""
READ = 3
"""Tokens of a text behind which it is tried whether a model forgets its states."""
ROUNDINGS = 256
"""How far two calls of the same tokens may be apart, in eps of the largest logit: another order of sums, no more."""


def call_with_states(
    model: Any, inputs: Collection[str], layers: tuple[tuple[Memory, ...], ...], cache: str
) -> tuple[CallWithStates, list[str]]:
    """Return how a model with states is called, and lines on what its own code does otherwise.

    Args:
        model: the model.
        inputs: the names of its inputs but the cache.
        layers: what each of its layers remembers.
        cache: the name under which it takes a cache.
    """
    plain = CallWithStates(layers, cache)
    places = torch.arange(READ + 2)[None]
    ids = places % model.config.get_text_config().vocab_size
    whole = {"input_ids": ids, "position_ids": places, TYPES: torch.zeros_like(ids)}
    whole |= {EMBEDDINGS: model.get_input_embeddings()(ids).detach()} if EMBEDDINGS in inputs else {}
    first, behind = (
        {name: value[:, part] for name, value in whole.items() if name in inputs}
        for part in (slice(None, READ), slice(READ, None))
    )
    if "attention_mask" in inputs:
        first["attention_mask"], behind["attention_mask"] = torch.ones_like(places[:, :READ]), torch.ones_like(places)
    with torch.no_grad():
        _, past = plain.call(model, first, first_values(layers), {})
        at_once, _ = plain.call(model, behind, past, {})
        by_token, _ = replace(plain, by_token=True).call(model, behind, past, {})
    apart = (at_once - by_token).abs().max() > ROUNDINGS * torch.finfo(at_once.dtype).eps * by_token.abs().max()
    return (replace(plain, by_token=True), [BY_TOKEN]) if apart else (plain, [])


def first_values(layers: Sequence[Sequence[Memory]]) -> list[Tensor]:
    """Return what layers remember before the first token of one text: no keys and values, and states of zeros."""
    return [
        torch.zeros(shape, dtype=getattr(torch, memory.dtype))
        for memories in layers
        for memory in memories
        for shape in memory.first_shapes(1)
    ]
