"""Frames: the heights and widths of pictures that are padded to one size."""

import numpy as np

from posenc.ports import Array, Frames, Port
from posenc_export.bundle.carries import PlannedCall, PortKind, Random, Shape, Word


def _feed(carries: Frames, port: Port, shape: Shape, call: PlannedCall, rng: Random) -> Array:
    """Return sizes at random, up to those of the frame, which the first picture fills."""
    most = np.array([call.sizes[carries.height], call.sizes[carries.width]]) // carries.multiple
    sizes = rng.integers(1, most + 1, shape)
    sizes[:1] = most
    return sizes * carries.multiple


def _misshapen(carries: Frames, sizes: list[int | None]) -> str:
    return "" if len(sizes) == 2 and sizes[1] == 2 else "[pictures, 2], the height and the width of each picture"


KIND = PortKind(
    Frames,
    {"height": "Name", "width": "Name", "multiple": "Natural"},
    feed=_feed,
    words=(Word("frames", Frames, ("int64",), "two axes and multiple", then="of", refusal="no frames: only of int64"),),
    misshapen=_misshapen,
)
