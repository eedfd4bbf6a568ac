"""What a mask hides, found by its numbers: keys behind the query, padding, keys before a window, or more than these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from posenc_export.write.formats.onnx.fused.parts import GraphPart

if TYPE_CHECKING:
    import onnx_ir as ir

    from posenc.ports import Array
    from posenc_export.bundle.case import Padding

SHORT: Sequence[tuple[int, int, int]] = ((2, 5, 0), (2, 4, 3), (2, 1, 6), (1, 6, 1), (1, 1, 0), (3, 3, 9))
"""Texts, tokens and cached tokens of calls that show what a mask is made of."""
LONG = (1, 2)
"""Texts and tokens of a call with a long cache, which shows a window."""


class Sizes(NamedTuple):
    """How many texts, tokens and cached tokens a call has."""

    batch: int
    seq: int
    past: int


Feeds = Callable[[Sizes, "Padding"], tuple[Mapping[str, "Array"], Mapping[str, tuple[int, ...]]]]
"""Inputs by name for sizes and a side of padding, and the sizes of all of them."""


@dataclass(frozen=True)
class Hiding:
    """What a mask hides: the keys behind a query, and more.

    Args:
        window: how many keys a query sees at most; None for all before it.
        plain: whether padding is all that the mask hides beside these; else its own numbers are added to scores.
    """

    window: int | None
    plain: bool


def hiding(model: ir.Model, mask: ir.Value, padding: str, feeds: Feeds, longest: int) -> Hiding | None:
    """Return what a mask hides; None where a query sees keys behind it, or where the mask cannot be evaluated.

    Args:
        model: the graph.
        mask: what is added to scores, (batch or 1, heads or 1, tokens, keys), or which keys are seen.
        padding: the input that says which keys are padding, 0 for these.
        feeds: makes the inputs of a call.
        longest: up to which length a window is looked for.
    """
    try:
        part = GraphPart(model, mask)
    except ValueError:
        return None
    sizes = [Sizes(*each) for each in SHORT for _ in range(2)] + [Sizes(*LONG, longest - LONG[1])]
    sides: list[Padding] = [*("left", "right") * len(SHORT), "none"]
    calls = [feeds(each, side) for each, side in zip(sizes, sides, strict=True)]
    try:
        masks = part.values([named for named, _ in calls], [shapes for _, shapes in calls])
    except Exception:  # whatever a runtime says: then it stays as it is
        return None
    seen = [_is_seen(array) for array in masks]
    ahead = [each & ~_causal(size) for each, size in zip(seen, sizes, strict=True)]
    if any(each.any() for each in ahead):
        return None
    width = int(seen[-1][0, 0, -1].sum())
    window = width if width < longest else None
    for array, shown, size, (named, _) in zip(masks, seen, sizes, calls, strict=True):
        tokens = named[padding] != 0
        expected = _causal(size, window) & tokens[:, None, None, :]
        is_text = tokens[:, None, size.past :, None]
        numbers = array if array.dtype == bool else np.where(shown, array, 0)
        if (shown != expected)[np.broadcast_to(is_text, shown.shape)].any() or (array.dtype != bool and numbers.any()):
            return Hiding(None, plain=False)
    return Hiding(window, plain=True)


def _is_seen(mask: Array) -> Array:
    """Return where a mask leaves a key: it adds no number near the lowest."""
    whole = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    seen: Array = whole if mask.dtype == bool else whole.astype(np.float64) > float(np.finfo(mask.dtype).min) / 4
    return seen


def _causal(size: Sizes, window: int | None = None) -> Array:
    """Return which keys stand at a query or before it, no farther than a window: (1, 1, tokens, keys)."""
    keys = np.arange(size.seq + size.past)
    behind = (np.arange(size.seq) + size.past)[:, None] - keys
    near: Array = (behind >= 0) & (behind < (window or keys.size + 1))
    return near[None, None]
