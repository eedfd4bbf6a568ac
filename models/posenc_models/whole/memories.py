"""What a layer of a decoder remembers between calls, as the cache of its own model says: each kind is one class.

A layer of Llama remembers `past_key_values.0.key` and `.value`, which grow by each token. A layer of LFM2 remembers
`past_key_values.0.conv_state`, a few columns that each call replaces; one of Mamba-2 also `.recurrent_state`. The names
of keys and values are those of optimum, those of states are onnxruntime-genai's.

Whatever is remembered begins as zeros, or as no token: a state of zeros is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

KEY_VALUES = ("past_key_values.{layer}.{part}", "present.{layer}.{part}")
"""The names of what a layer remembers: as it goes in, and as it comes out."""
STACKS = {"decoder": "past", "encoder": "cached"}
"""Whose keys and values a layer has behind an encoder: those of tokens, and of states, with the axis of each."""
HALVES = ("key", "value")
"""What attention remembers of a token."""
STATES = {"conv_states": "conv_state", "recurrent_states": "recurrent_state"}
"""What layers of transformers' caches call states, and what their ports are called."""


@dataclass(frozen=True)
class KeyValues:
    """Keys and values of all tokens: a call appends those of its own; hidden tokens are masked where they are read.

    Args:
        widths: of keys, and of values: heads, and features of each.
        dtype: their dtype, by torch's name.
    """

    widths: tuple[tuple[int, int], tuple[int, int]]
    dtype: str
    grows = True

    def ports(self, past: str = "past") -> dict[str, str]:
        """Return the rest of the text of each port, by its part: (batch, heads, past, features)."""
        return {
            half: f"{self.dtype}[batch_size, {heads}, {past}, {features}]"
            for half, (heads, features) in zip(HALVES, self.widths, strict=True)
        }

    def first_shapes(self, batch: int) -> list[tuple[int, ...]]:
        """Return the shapes before the first token: (batch, heads, 0, features)."""
        return [(batch, heads, 0, features) for heads, features in self.widths]

    def held(self, layer: Any) -> list[Tensor]:
        """Return keys and values that a layer of a cache holds."""
        return [layer.keys, layer.values]


@dataclass(frozen=True)
class State:
    """What a convolution or a recurrence keeps of all tokens: a call replaces it, and a hidden token adds zeros.

    A convolution keeps the columns that it may read again, (batch, channels, columns); a recurrence keeps numbers of
    the same size however long the text, (batch, heads, ...). A length to go back to is in neither.

    Args:
        kept_in: the attribute of the layer that holds it: conv_states or recurrent_states.
        index: its key there: some layers keep several.
        shape: its sizes without the batch.
        dtype: by torch's name: some models keep float32 beside half precision.
    """

    kept_in: str
    index: int
    shape: tuple[int, ...]
    dtype: str
    grows = False

    def ports(self, _: str = "past") -> dict[str, str]:
        """Return the rest of the text of its port, by its part: (batch, ...)."""
        part = STATES[self.kept_in] + f"_{self.index}" * (self.index > 0)
        return {part: f"{self.dtype}[batch_size, {', '.join(map(str, self.shape))}] values"}

    def first_shapes(self, batch: int) -> list[tuple[int, ...]]:
        """Return the shape before the first token, which is that of each call: (batch, ...)."""
        return [(batch, *self.shape)]

    def held(self, layer: Any) -> list[Tensor]:
        """Return the state that a layer of a cache holds."""
        return [getattr(layer, self.kept_in)[self.index]]


Memory = KeyValues | State


def memories_of(layer: Any, tokens: int) -> tuple[Memory, ...]:
    """Return what a layer of a cache remembers, in the order of its ports; nothing where it uses what another one has.

    Args:
        layer: of the cache that a call of a text gave.
        tokens: how many that text had.

    Raises ValueError, in words, where it holds what is neither keys and values nor a state.
    """
    found: list[Memory] = []
    held = _tensors(vars(layer))
    if "keys" in held and "values" in held:
        keys, values = held.pop("keys"), held.pop("values")
        if any(one.dim() != 4 or one.shape[2] != tokens for one in (keys, values)):
            raise ValueError(
                f"keys and values of the shapes {tuple(keys.shape)} and {tuple(values.shape)} for {tokens} tokens, "
                "expected (batch, heads, tokens, features)"
            )
        widths = ((keys.shape[1], keys.shape[3]), (values.shape[1], values.shape[3]))
        found.append(KeyValues(widths, _name(keys)))
    for kept_in in STATES:
        states = getattr(layer, kept_in, None)
        if isinstance(states, Mapping):
            held.pop(kept_in, None)
            found += [State(kept_in, index, tuple(state.shape[1:]), _name(state)) for index, state in _filled(states)]
    if held:
        raise ValueError(f"{', '.join(sorted(held))} beside keys and values")
    return tuple(found)


def ports_of(layers: Sequence[Sequence[Memory]]) -> dict[tuple[int, str], str]:
    """Return the rest of the text of each port, by the number of its layer and its part, layer by layer."""
    return {
        (number, part): text
        for number, memories in enumerate(layers)
        for memory in memories
        for part, text in memory.ports().items()
    }


def ports_of_stacks(layers: Sequence[Sequence[Memory]]) -> dict[tuple[int, str], str]:
    """Return the same of a decoder behind an encoder, whose layers are by turns of tokens and of states."""
    both = list(STACKS.items())
    return {
        (number // 2, f"{both[number % 2][0]}.{part}"): text
        for number, memories in enumerate(layers)
        for memory in memories
        for part, text in memory.ports(both[number % 2][1]).items()
    }


def _filled(states: Mapping[int, Any]) -> list[tuple[int, Tensor]]:
    return [(index, state) for index, state in states.items() if state is not None]


def _name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _tensors(held: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return what an object holds that has axes, by name: also what lies in lists and mappings."""
    import torch

    found: dict[str, Tensor] = {}
    for name, value in held.items():
        many = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else [value]
        found.update((name, one) for one in many if isinstance(one, torch.Tensor) and one.dim())
    return found
