"""Rows of two headers of one scheme, by eager PyTorch."""

import numpy as np
import torch

import posenc
from posenc.ports import Array
from posenc.spec import BLOCK_ROWS, Spec

SPEC = Spec("dynamic", "exact", None, 40, table_rows=BLOCK_ROWS)
BASES = {"text": 10000.0, "vision": 100.0}


def row(base: float) -> Array:
    """The row of position 77, by eager PyTorch."""
    encoding = posenc.build("sinusoidal", SPEC, d_model=4, base=base, output="rows")
    return np.asarray(encoding.module(torch.zeros(1, 78, 4)).numpy()[0, 77])
