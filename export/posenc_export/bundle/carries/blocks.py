"""Blocks: which places of sounds are there, where so many frames make a block, and each block some places."""

import numpy as np

from posenc.ports import Array, Blocks, Port
from posenc_export.bundle.carries import PlannedCall, PortKind, Random, Shape, Word
from posenc_export.common.arrays import INTEGERS


def _feed(carries: Blocks, port: Port, shape: Shape, call: PlannedCall, rng: Random) -> Array:
    """Return which places are there of sounds of any number of blocks: the first has all of them."""
    sounds, places = shape
    step = port.axes[1].multiple
    ends = rng.integers(1, max(places // step, 1) + 1, (sounds, 1)) * step
    ends[:1] = places
    return np.asarray(np.arange(places) < ends)


def _misshapen(carries: Blocks, sizes: list[int | None]) -> str:
    return "" if len(sizes) == 2 else "[sounds, places], as many places as the blocks of the longest sound make"


KIND = PortKind(
    Blocks,
    {"of": "Name", "multiple": "Natural"},
    feed=_feed,
    least=lambda blocks, port, sizes: 1,
    words=(
        Word(
            "blocks",
            Blocks,
            (*INTEGERS, "bool"),
            "axis and multiple",
            then="of",
            refusal="no blocks: only of bool, int64 or int32",
        ),
    ),
    misshapen=_misshapen,
)
