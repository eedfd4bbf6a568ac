"""Masks: which tokens are valid, as 1 and 0, or as 0 and minus infinity if they are added to scores."""

from dataclasses import replace
from functools import partial

import numpy as np

from posenc.ports import Array, Axis, Mask, Port
from posenc_export.bundle.carries import Limits, PlannedCall, PortKind, Random, Shape, Word
from posenc_export.common.arrays import DTYPES, FLOATS

MASKED = -1e9
"""Added to a masked score: finite, so that a softmax over masked keys alone stays a number."""
LOWEST = {"float16": -65504.0}
"""The lowest number of dtypes that cannot hold -1e9."""
HOLES = 3
"""One in so many places is padding, if padding is holes."""
ADDITIVE = partial(Mask, additive=True, causal=True)


def _feed(mask: Mask, port: Port, shape: Shape, call: PlannedCall, rng: Random) -> Array:
    """Return which tokens are valid: sequence b of a batch has b fewer than the first, but at least one.

    The valid places of a grid are a rectangle, in the corner opposite to the padding.
    """
    if mask.causal:
        return np.where(_seen(shape, call), 0.0, -np.inf)
    grid = [i for i in port.lengths if port.axes[i].kind == "grid"]
    tokens = _counting(shape, grid if len(grid) > 1 else [len(shape) - 1], call)
    return np.where(tokens, 0.0, max(MASKED, LOWEST.get(port.dtype, MASKED))) if mask.additive else tokens


def _counting(shape: Shape, along: list[int], call: PlannedCall) -> Array:
    """Return which places are valid, along some axes."""
    if call.probe_masks:  # so many at the end of each column
        rows = np.arange(shape[along[0]])[:, None]
        return np.broadcast_to(rows >= len(rows) - np.asarray(call.probe_masks), shape)
    if call.padding == "holes":
        tokens: Array = np.indices(shape).sum(0) % HOLES != 1
        # (*batch, places): the last place is a token, so that each sequence has one
        tokens.reshape(*shape[: along[0]], -1)[..., -1] = True
        return tokens
    return np.asarray(np.all([_unpadded(shape, axis, along, call) for axis in along], axis=0))


def _unpadded(shape: Shape, axis: int, along: list[int], call: PlannedCall) -> Array:
    """Return which places along an axis are valid; axes before those in `along` are a batch."""
    batch, size = shape[: along[0]], shape[axis]
    # (*batch, 1, ...): the number of each sequence
    number = np.arange(int(np.prod(batch))).reshape(*batch, *(1 for _ in shape[along[0] :]))
    padding = np.minimum(0 * number if call.padding == "none" else number, size - 1)
    # (1, ..., size, ..., 1): places along the axis
    places = np.arange(size).reshape(*(-1 if i == axis else 1 for i in range(len(shape))))
    return np.broadcast_to(places >= padding if call.padding == "left" else places < size - padding, shape)


def _seen(shape: Shape, call: PlannedCall) -> Array:
    """Return which keys a query sees: all but padding on the left, or neither later keys nor padding on the right."""
    *batch, queries, keys = shape
    # (*batch, 1, 1): sequence b is padded by b + 1, but for a last key, so that every query sees one
    padding = np.minimum(1 + np.arange(int(np.prod(batch))), keys - 1).reshape(*batch, 1, 1)
    # (keys,), (queries, 1): queries are the last of the keys
    places, own = np.arange(keys), np.arange(queries)[:, None] + max(0, keys - queries)
    if call.padding == "left":
        return np.broadcast_to(places >= padding, shape)
    earlier = np.broadcast_to(places <= own, shape)
    return earlier if call.padding == "none" else earlier & (places < keys - padding)


def _by_name(dtype: str, end: int | None) -> tuple[Mask, str] | None:
    if end is not None:
        return None
    if dtype in FLOATS:
        return Mask(
            additive=None, causal=True
        ), ""  # `write/targets/mask_readings.py` asks the module whether it is added
    return Mask(), "a mask of 1 and 0"


def _settled(mask: Mask, axes: tuple[Axis, ...]) -> Mask:
    """Return the mask, now that the kinds of its axes are known."""
    if not mask.causal:
        return mask
    # (..., queries, keys), unlike (batch, 1, 1, keys), which masks the same keys for every query
    queries = axes[-2] if len(axes) > 1 else None
    return replace(mask, causal=queries is not None and queries.size != 1 and queries.kind not in ("batch", "heads"))


def _misshapen(mask: Mask, sizes: list[int | None]) -> str:
    if mask.additive and len(sizes) < 2:
        return "two axes at least, the last that of keys"
    return "" if sizes else "an axis along which tokens are"


KIND = PortKind(
    Mask,
    {"additive": "Flag", "offset": "NoCount", "end": "NoWhole", "causal": "Flag?"},
    feed=_feed,
    least=lambda mask, port, sizes: None if mask.additive or mask.causal else 1,
    limits=lambda mask: Limits(tokens=None if mask.end is None else mask.end - (mask.offset or 0)),
    looked_up=True,
    gives_positions=True,
    words=(
        Word("mask", Mask, DTYPES),
        Word("additive", ADDITIVE, FLOATS, then="mask", refusal="no additive mask: only floats are added"),
    ),
    usual_names=("attention_mask", "mask"),
    by_name=_by_name,
    settled=_settled,
    misshapen=_misshapen,
)
