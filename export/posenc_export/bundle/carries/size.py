"""Sizes: the size of a dynamic axis, as a number."""

import numpy as np

from posenc.ports import Size
from posenc_export.bundle.carries import PortKind, Word
from posenc_export.common.arrays import INTEGERS

KIND = PortKind(
    Size,
    {"of": "Name"},
    feed=lambda size, port, shape, call, rng: np.full(shape, call.sizes[size.of]),
    least=lambda size, port, sizes: sizes[size.of],
    is_size=True,
    words=(Word("size", Size, INTEGERS, "axis", then="of"),),
    misshapen=lambda size, sizes: "" if sizes in ([], [1]) else "[] or [1], the shape of a size",
)
