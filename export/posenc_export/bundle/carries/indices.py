"""Indices: integers that pick rows of a table."""

import numpy as np

from posenc.ports import Indices
from posenc_export.bundle.carries import Limits, PortKind, Word
from posenc_export.common.arrays import INTEGERS

KIND = PortKind(
    Indices,
    {"end": "NoWhole"},
    feed=lambda indices, port, shape, call, rng: rng.integers(0, indices.end or 2, shape),
    # The rows of the table one after the other, and again from its first.
    draw=lambda indices, shape, least, fill: np.broadcast_to(np.arange(shape[-1]) % (indices.end or 1), shape),
    limits=lambda indices: Limits(end=indices.end),
    words=(Word("indices", Indices, INTEGERS, "end"),),
)
