"""Modules that call a model of transformers with tensors by position, as exporters do, and give tensors in a row."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from posenc.libraries import replaced
from posenc.lookup import inside
from posenc_models.whole.kernels import masks_as_given
from posenc_models.whole.tasks import TYPES

if TYPE_CHECKING:
    from posenc_models.whole.caches import CallWithStates

FIRST = "original_inv_freq"
"""What rotary modules of transformers call their first frequencies, behind the kind of layer if there are several."""


BEYOND = 2**31
"""A position that no table has."""


class EncoderCall(nn.Module):
    """A model without a cache.

    Args:
        model: the model.
        inputs: the names of its arguments, in the order in which tensors come.
        outputs: the attributes of its output.
        keywords: what it is called with beside tensors.
    """

    def __init__(
        self,
        model: nn.Module,
        inputs: Sequence[str],
        outputs: Sequence[str],
        keywords: Mapping[str, bool] | None = None,
    ) -> None:
        super().__init__()
        self.model, self.inputs, self.outputs = model, tuple(inputs), tuple(outputs)
        self.keywords = dict(keywords or {})

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs of a call."""
        forget_lengths(self.model)
        output = self.model(**dict(zip(self.inputs, tensors, strict=True)), return_dict=True, **self.keywords)
        return tuple(getattr(output, name) for name in self.outputs)


class DecoderCall(nn.Module):
    """A causal language model with its cache: keys and values of earlier tokens come last, a pair a layer.

    Where layers remember states, these come there, too, layer by layer.

    Args:
        model: the model.
        inputs: the names of its other arguments, in the order in which tensors come.
        counts: whether positions count the tokens that the mask leaves in: without any, it would count the cache's.
        last: whether it gives the logits of the last token alone.
        memory: how a model with states is called; None where each layer remembers keys and values alone.
        first: the position of a text's first token, as the model counts them; they come counted from 0.
    """

    def __init__(
        self,
        model: nn.Module,
        inputs: Sequence[str],
        counts: bool = False,
        last: bool = False,
        memory: CallWithStates | None = None,
        *,
        first: int = 0,
    ) -> None:
        super().__init__()
        self.model, self.inputs, self.counts, self.last = model, tuple(inputs), counts, last
        self.memory, self.first = memory, first
        # then the head is not computed for the others
        can_skip = "logits_to_keep" in inspect.signature(model.forward).parameters
        self.skipping = {"logits_to_keep": 1} if last and can_skip else {}

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return logits (batch, seq, vocabulary), then keys and values (batch, heads, past + seq, features).

        Of the last token alone, logits are (batch, 1, vocabulary). States come out as they came in, (batch, ...).
        """
        named = dict(zip(self.inputs, tensors, strict=False))
        if self.counts:
            every = (named["attention_mask"].cumsum(-1) - 1).clamp(min=0)
            named["position_ids"] = every[:, -named["input_ids"].shape[1] :]
        if self.first and "position_ids" in named:
            # none below 0 may become one of the table's
            named["position_ids"] = inside(named["position_ids"], BEYOND) + self.first
        past = tensors[len(self.inputs) :]
        forget_lengths(self.model)
        with heads_shared():
            if self.memory is not None:
                logits, remembered = self.memory.call(self.model, named, past, self.skipping)
            else:
                cache = cache_of(past)
                if TYPES in named:
                    # which tokens see each other is looked up by places in the whole text: those before are words
                    before = past[0].shape[2] if past else 0
                    named[TYPES] = nn.functional.pad(named[TYPES], (before, 0))
                    cache = _first_call_cache(cache)
                output = self.model(**named, past_key_values=cache, use_cache=True, return_dict=True, **self.skipping)
                logits, remembered = output.logits, key_values(output.past_key_values)
        logits = logits[:, -1:] if self.last and not self.skipping else logits
        return (logits, *remembered)


class DecoderOfEncoder(nn.Module):
    """The decoder of a model with an encoder, with both of its caches: of its own tokens, and of what was encoded.

    The keys and values of the first states of the encoder come with the cache; those of the others are computed, and
    come out behind them. So one graph serves the first call, with an empty cache, and each call after it.

    Args:
        model: the whole model, of which the encoder is not called.
        inputs: the names of its inputs but the cache, in the order in which tensors come.
    """

    def __init__(self, model: nn.Module, inputs: Sequence[str]) -> None:
        super().__init__()
        self.model, self.inputs = model, tuple(inputs)

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return logits (batch, seq, vocabulary), then for each layer keys and values of tokens, and of states."""
        named = dict(zip(self.inputs, tensors, strict=False))
        past = tensors[len(self.inputs) :]
        states, mask = named["encoder_hidden_states"], named.get("encoder_attention_mask")
        if mask is not None:
            # with four axes, and to be added, the model takes it as it is: of two it would look at the new states alone
            hidden = torch.finfo(states.dtype).min * (1 - mask[:, None, None, :].to(states.dtype))
            mask = hidden.expand(-1, 1, named["input_ids"].shape[1], -1)
        with masks_as_given(self.model):
            output = self.model(
                encoder_outputs=states_of_encoder(_uncached(states, past[2].shape[2])),
                decoder_input_ids=named["input_ids"],
                past_key_values=_two_caches(past),
                use_cache=True,
                return_dict=True,
                **({} if mask is None else {"attention_mask": mask}),
            )
        return (output.logits, *key_values(output.past_key_values))


class Placeholder(nn.Module):
    """In the place of a part that is not called: it has no weights, and says where they would be."""

    device = torch.device("cpu")


def forget_lengths(model: nn.Module) -> None:
    """Let rotary modules with dynamic NTK forget the longest call so far: a graph remembers none."""
    if torch.compiler.is_exporting():
        return
    for module in model.modules():
        # one set of frequencies, or one for each kind of layer, whose names begin with the kind
        for name in [name for name in vars(module).get("_buffers", ()) if name.endswith(FIRST)]:
            before = name.removesuffix(FIRST)
            if hasattr(module, f"{before}max_seq_len_cached"):
                setattr(module, f"{before}max_seq_len_cached", module.original_max_seq_len)
            # a copy: longrope writes the frequencies of a call into this tensor
            setattr(module, f"{before}inv_freq", getattr(module, name).clone())


@contextmanager
def heads_shared() -> Iterator[None]:
    """Have transformers leave keys and values as they are, while a graph is captured, where several queries share them.

    Otherwise it repeats them for each query, which takes a third of the time of a capture, and which the graph does not
    keep. transformers itself has this second way to call PyTorch's attention.
    """
    if torch.compiler.is_exporting():
        from transformers.integrations import sdpa_attention

        if hasattr(sdpa_attention, "use_gqa_in_sdpa"):  # transformers 5.0 has it elsewhere, and is merely slow
            with replaced(sdpa_attention, "use_gqa_in_sdpa", lambda *_: True):
                yield
            return
    yield


def states_of_encoder(states: Tensor) -> Any:
    """Return states as an encoder gives them: some decoders take them by name, and not as the first of a tuple.

    Models of experts also ask which experts the encoder chose, by `router_logits`: nobody has these.
    """
    from transformers.modeling_outputs import MoeModelOutputWithPast

    return MoeModelOutputWithPast(last_hidden_state=states)


def _uncached(states: Tensor, cached: int) -> Tensor:
    """Return the states behind so many, and one before them: an axis of no size would fail in the model's views."""
    places = torch.arange(states.shape[1] - cached + 1) + (cached - 1)
    return states.index_select(1, places.clamp(min=0))


def _two_caches(past: Sequence[Tensor]) -> Any:
    """Return a cache of tokens and of states, whose keys and values come in turn for each layer."""
    from transformers import DynamicCache, EncoderDecoderCache

    class OfStates(DynamicCache):
        """A cache that takes new states without the first, which it has."""

        def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any) -> Any:
            """Return the keys and values of all states."""
            return super().update(key_states[:, :, 1:], value_states[:, :, 1:], layer_idx, *args, **kwargs)

    tokens, states = DynamicCache(), OfStates()
    for layer in range(len(past) // 4):
        tokens.update(past[4 * layer], past[4 * layer + 1], layer)
        DynamicCache.update(states, past[4 * layer + 2], past[4 * layer + 3], layer)
    cache = EncoderDecoderCache(tokens, states)
    cache.is_updated = dict.fromkeys(range(len(past) // 4), False)  # there are states that it has not seen
    return cache


def cache_of(past: Sequence[Tensor]) -> Any:
    """Return a cache that holds keys and values, a pair a layer."""
    from transformers import DynamicCache

    cache = DynamicCache()
    for layer in range(len(past) // 2):
        cache.update(past[2 * layer], past[2 * layer + 1], layer)
    return cache


def _first_call_cache(cache: Any) -> Any:
    """Return a cache that a model takes for that of a first call: in later calls, some look at no types of tokens."""

    class FirstCallCache(type(cache)):  # type: ignore[misc]
        """A cache that has keys and values, and does not say so."""

        is_initialized = False

    cache.__class__ = FirstCallCache
    return cache


def key_values(cache: Any) -> list[Tensor]:
    """Return the keys and values of a cache, a pair a layer; of two caches, a pair of each in turn."""
    return [tensor for layer in layers_of(cache) for tensor in (layer.keys, layer.values)]


def layers_of(cache: Any) -> list[Any]:
    """Return the layers of a cache; of one of tokens and of states, a layer of each in turn; none of anything else."""
    tokens, states = (
        list(getattr(getattr(cache, name, None), "layers", None) or [])
        for name in ("self_attention_cache", "cross_attention_cache")
    )
    if tokens and states:
        return [layer for pair in zip(tokens, states, strict=True) for layer in pair]
    return list(getattr(cache, "layers", None) or [])
