"""The rotations of each layer that were seen in a call, and which layers rotate alike."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from posenc_models.asking.rotation import calls_of
from posenc_models.asking.tracing import MetaModel, RotaryCall, RotatedArgument

LISTED = 8
"""Layers that a note lists."""


@dataclass(frozen=True)
class LayerSeen:
    """What a layer does with queries and keys.

    Args:
        like: the first layer that does the same, which may be itself; None for a layer that does not rotate.
        words: the classes and functions that rotate.
        layer_type: the type of the layer; "" where layers have no types.
        error: why the call did not come to the end of this layer; "" where it did.
    """

    like: int | None
    words: str
    layer_type: str
    error: str = ""


def differing(layers: Sequence[LayerSeen]) -> str:
    """Return in words which layers differ from the first that rotates; "" where none does."""
    first = next((layer.like for layer in layers if layer.like is not None), None)
    still = [i for i, layer in enumerate(layers) if layer.like is None and not layer.error]
    others = [i for i, layer in enumerate(layers) if layer.like not in (None, first)]
    groups = ((still, "do not rotate"), (others, "rotate otherwise"))
    parts = [f"layers {_listed(numbers)} {words}" for numbers, words in groups if numbers]
    return f"this is layer {first}; {' and '.join(parts)}" if parts and first is not None else ""


def _listed(numbers: Sequence[int]) -> str:
    """Return the first numbers in words, and how many more there are."""
    more = f" and {len(numbers) - LISTED} more" if len(numbers) > LISTED else ""
    return ", ".join(map(str, numbers[:LISTED])) + more


def layers_seen(trace: MetaModel) -> list[LayerSeen]:
    """Return what each layer did in the last call."""
    seen: list[list[RotaryCall]] = []
    types = getattr(trace.model.config, "layer_types", None) or []
    layers = []
    for i, layer in enumerate(trace.layers):
        calls = calls_of(layer)
        like = next((j for j, before in enumerate(seen) if _alike(calls, before)), i) if calls else None
        seen.append(calls)
        layers.append(LayerSeen(like, words_of(trace, calls), str(types[i]) if i < len(types) else "", layer.error))
    return layers


def words_of(trace: MetaModel, calls: Sequence[RotaryCall]) -> str:
    """Return the classes and functions that answer."""
    functions = [call.function.__name__ for call in calls]
    return ", ".join(dict.fromkeys((*(trace.makers or [call.owner for call in calls]), *functions)))


def _alike(calls: Sequence[RotaryCall], others: Sequence[RotaryCall]) -> bool:
    """Return whether two layers rotate by the same functions of the same numbers."""
    return len(calls) == len(others) and all(
        a.function is b.function and a.places == b.places and _is_same(_constants(a), _constants(b))
        for a, b in zip(calls, others, strict=True)
    )


def _constants(call: RotaryCall) -> tuple[object, ...]:
    """Return the arguments of a call beside queries and keys: cosines and sines, axes."""
    return tuple(
        value for value in (*call.arguments, *call.keywords.values()) if not isinstance(value, RotatedArgument)
    )


def _is_same(a: object, b: object) -> bool:
    """Return whether two arguments are the same: tensors of the same numbers, modules of the same class."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.shape == b.shape and bool(torch.equal(a, b))
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_is_same, a, b))
    return type(a) is type(b) and (isinstance(a, torch.nn.Module) or bool(a == b))
