"""What each layer of a model was seen to do with its queries and keys, and which layers do the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from posenc.hf.asking.rotation import calls_of

if TYPE_CHECKING:
    from posenc.hf.asking.tracing import RotaryCall, Traced


@dataclass(frozen=True)
class LayerSeen:
    """What a layer does with queries and keys.

    like: the first layer that does the same, itself if none before it does; None for one that does not rotate.
    words: the functions that rotate. error: why the call did not come to the end of this layer, or nothing.
    """

    like: int | None
    words: str
    layer_type: str
    error: str = ""


def differing(layers: Sequence[LayerSeen]) -> str:
    """Return in words which layers do not do what the first that rotates does; nothing where all do, or none does."""
    first = next((layer.like for layer in layers if layer.like is not None), None)
    still = [i for i, layer in enumerate(layers) if layer.like is None and not layer.error]
    others = [i for i, layer in enumerate(layers) if layer.like not in (None, first)]
    parts = [
        f"layers {_listed(some)} {does}"
        for some, does in ((still, "do not rotate"), (others, "rotate otherwise"))
        if some
    ]
    return f"this is layer {first}; {' and '.join(parts)}" if parts and first is not None else ""


def _listed(numbers: Sequence[int]) -> str:
    """Return the first of some numbers in words, and how many more there are."""
    more = f" and {len(numbers) - 8} more" if len(numbers) > 8 else ""
    return ", ".join(map(str, numbers[:8])) + more


def layers_seen(trace: Traced) -> list[LayerSeen]:
    """Return what each layer did in the last call."""
    seen: list[list[RotaryCall]] = []
    types = getattr(trace.model.config, "layer_types", None) or []
    layers = []
    for i, layer in enumerate(trace.layers):
        calls = calls_of(layer)
        like = next((j for j, other in enumerate(seen) if calls and _alike(calls, other)), i) if calls else None
        seen.append(calls)
        layers.append(LayerSeen(like, words_of(trace, calls), str(types[i]) if i < len(types) else "", layer.error))
    return layers


def words_of(trace: Traced, calls: Sequence[RotaryCall]) -> str:
    """Return the classes and functions that answer."""
    functions = [call.function.__name__ for call in calls]
    return ", ".join(dict.fromkeys((*(trace.makers or [call.owner for call in calls]), *functions)))


def _alike(calls: Sequence[RotaryCall], others: Sequence[RotaryCall]) -> bool:
    """Return whether two layers rotate by the same functions of the same numbers."""
    if len(calls) != len(others):
        return False
    return all(
        a.function is b.function and a.places == b.places and _same(_constants(a), _constants(b))
        for a, b in zip(calls, others, strict=True)
    )


def _constants(call: RotaryCall) -> list[object]:
    from posenc.hf.asking.tracing import Rotated

    return [value for value in (*call.arguments, *call.keywords.values()) if not isinstance(value, Rotated)]


def _same(some: Sequence[object], others: Sequence[object]) -> bool:
    import torch

    def same(a: object, b: object) -> bool:
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            return a.shape == b.shape and bool(torch.equal(a, b))
        if isinstance(a, tuple) and isinstance(b, tuple):
            return _same(a, b)
        return type(a) is type(b) and (isinstance(a, torch.nn.Module) or bool(a == b))

    return len(some) == len(others) and all(map(same, some, others))
