"""Extents: the sizes of each image of a batch, whose places lie along a dynamic axis."""

import numpy as np

from posenc.ports import Array, Extents, Port
from posenc_export.bundle.carries import PlannedCall, PortKind, Random, Shape, Word

REFUSED, FEW_PLACES = (3, 0, -1, 2**32), 8
"""Heights and widths of images that do not fit into so few places; the product of the last is 0 in 64 bits."""


def _feed(carries: Extents, port: Port, shape: Shape, call: PlannedCall, rng: Random) -> Array:
    """Return random sizes of images, the first with as many places as there are tokens; or sizes to be refused."""
    sizes = np.full(shape, call.first)
    if call.refused:
        return sizes
    # (batch,): how many places the other sizes of each image may multiply to
    left = np.full(shape[:-1], call.sizes[carries.of])
    for axis in range(shape[-1]):
        sizes[..., axis] = left ** rng.uniform(size=left.shape)  # at least 1
        if axis == shape[-1] - 1:
            sizes[:1, ..., axis] = left[:1]
        left //= sizes[..., axis]
    return sizes


def _misshapen(carries: Extents, sizes: list[int | None]) -> str:
    return "" if len(sizes) == 2 and sizes[1] == 2 else "[batch, 2], the rows and columns of each image"


KIND = PortKind(
    Extents,
    {"of": "Name"},
    feed=_feed,
    least=lambda extents, port, sizes: 1,
    refused=lambda extents: [(size, FEW_PLACES) for size in REFUSED],
    looked_up=True,
    words=(Word("extents", Extents, ("int64",), "axis", then="of", refusal="no extents: only of int64"),),
    misshapen=_misshapen,
)
