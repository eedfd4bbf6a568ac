"""A file whose stored floats are moved by one ulp, at random: its outputs move as rounding in other libraries does."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from posenc.encoding import eps
from posenc.ports import Array

SMALL = 16
"""Tensors up to this many numbers are factors and exponents, which one ulp may turn into another computation."""
DTYPES = ("float32", "float64", "float16")


def nudge_weights(path: Path, half: str = "") -> None:
    """Move every stored float of a file up or down, but for small tensors, and for masks such as -1e38.

    Args:
        path: The file, which is written again.
        half: A half dtype, by half an ulp of which matrices alone move: frequencies of angles are no weights.
    """
    import onnx
    from onnx import numpy_helper

    model = onnx.load(path)
    rng = np.random.default_rng(0)
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        # frequencies of angles have one axis, whatever is around it
        is_matrix = sum(size > 1 for size in array.shape) > 1
        if array.dtype.name in DTYPES and array.size > SMALL and (is_matrix or not half):
            tensor.CopyFrom(numpy_helper.from_array(_nudged(array, rng, half), tensor.name))
    # weights beside the file were loaded: they go where they were
    is_large = path.with_name(f"{path.name}.data").exists()
    onnx.save(model, path, save_as_external_data=is_large, location=f"{path.name}.data")


def _nudged(array: Array, rng: np.random.Generator, half: str) -> Array:
    ordinary = np.abs(array) < np.finfo(array.dtype).max / 2
    upward = rng.random(array.shape) < 0.5
    if half:
        # x = m 2^e with m from 1/2 to 1: its ulp is 2^(e-1) eps
        step = np.ldexp(eps(half) / 2, np.frexp(array)[1] - 1)
        moved = (array + np.where(upward, step, -step)).astype(array.dtype)
    else:
        moved = np.nextafter(array, np.where(upward, np.inf, -np.inf).astype(array.dtype))
    # zeros are masks and padding more often than numbers that were rounded
    return np.asarray(np.where(ordinary & (array != 0), moved, array))
