"""Grids to be resampled, and by which filters."""

from itertools import product
from pathlib import Path

import numpy as np
from torch import Tensor

import posenc
from posenc.sources.interpolated.weights import Filter
from posenc.spec import Spec

DYNAMIC = Spec("dynamic", max_len=40)
FILTERS = [
    Filter(cubic, antialias, align_corners, offset)
    for cubic, antialias, align_corners, offset in product((True, False), (False, True), (False, True), (0.0, 0.1))
    if not (align_corners and offset)
]


def built(weights: Path, spec: Spec = DYNAMIC, **more: object) -> posenc.Encoding:
    return posenc.build("interpolated", spec, weights=str(weights), **more)


def saved(folder: Path, table: Tensor) -> Path:
    np.save(folder / "table.npy", table.detach().numpy())
    return folder / "table.npy"
