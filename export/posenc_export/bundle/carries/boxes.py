"""Boxes: where tokens stand on a page, as models of documents look them up."""

from collections.abc import Iterator

import numpy as np

from posenc.ports import Array, Boxes, Port
from posenc_export.bundle.carries import Limits, PlannedCall, PortKind, Random, Shape, Word
from posenc_export.common.arrays import INTEGERS


def _feed(boxes: Boxes, port: Port, shape: Shape, call: PlannedCall, rng: Random) -> Array:
    """Return boxes at random: no left is right of its right, and no top below its bottom."""
    corners = rng.integers(0, boxes.end or 2, shape)
    # (..., 4) -> (..., 2, 2): a row a corner, a column an axis
    sorted_corners = np.sort(corners.reshape(*shape[:-1], 2, 2), axis=-2)
    return sorted_corners.reshape(shape)


def _other_values(feed: Array) -> Iterator[Array]:
    """Yield the boxes of other tokens, and boxes without an extent: one that is drawn backwards is none."""
    yield np.ascontiguousarray(np.flip(feed, axis=-2))
    yield np.zeros_like(feed)
    yield np.full_like(feed, feed.max(initial=0))


def _misshapen(boxes: Boxes, sizes: list[int | None]) -> str:
    return "" if len(sizes) > 1 and sizes[-1] == 4 else "a last axis of 4: left, top, right and bottom"


KIND = PortKind(
    Boxes,
    {"end": "NoWhole"},
    feed=_feed,
    limits=lambda boxes: Limits(end=boxes.end),
    other_values=_other_values,
    words=(Word("boxes", Boxes, INTEGERS, "end", refusal="no boxes: only of integers"),),
    misshapen=_misshapen,
)
