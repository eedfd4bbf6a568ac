"""Kernels that make arrays out of sizes: ranges, fills, shapes, triangles."""

from __future__ import annotations

from math import ceil, isfinite

import numpy as np

from posenc_export.read.graph.tensors import dtype_of
from posenc_export.read.kernels.call import Kernel, KernelCall, place_of
from posenc_export.read.values import Array, Constant


def _shape(call: KernelCall) -> list[Array]:
    shape = call.array(0).shape
    # Python's slices clamp start and end as the operator does
    end = call.integer("end", len(shape))
    return [np.array(shape[call.integer("start", 0) : end], np.int64)]


def _size(call: KernelCall) -> list[Array]:
    return [np.array(call.array(0).size, np.int64)]


def _range(call: KernelCall) -> list[Array]:
    start, limit, step = (call.scalar(place) for place in range(3))
    if step == 0:
        raise ValueError("Range has a step of zero")
    if np.issubdtype(start.dtype, np.integer):
        count = max(-((int(start) - int(limit)) // int(step)), 0)
    else:
        exact = (float(limit) - float(start)) / float(step)
        if not isfinite(exact):
            raise ValueError(f"Range goes from {float(start)} to {float(limit)} by {float(step)}")
        count = max(ceil(exact), 0)
    call.room((count,), start.dtype)
    # the standard multiplies; ONNX Runtime adds the step again and again, which drifts for steps like 0.1
    places = np.arange(count).astype(start.dtype)
    return [np.asarray(np.add(start, np.multiply(places, step)), start.dtype)]


def _constant_of_shape(call: KernelCall) -> list[Array]:
    value = call.node.attributes.get("value")
    fill = value.load().reshape(-1) if isinstance(value, Constant) else np.zeros(1, np.float32)
    if fill.size != 1:
        raise ValueError(f"ConstantOfShape has {fill.size} numbers to fill with, and needs one")
    return [np.full(call.room(call.integers("", 0) or (), fill.dtype), fill[0], fill.dtype)]


def _eye_like(call: KernelCall) -> list[Array]:
    array = call.array(0)
    if array.ndim != 2:
        raise ValueError(f"EyeLike needs two axes, and has shape {list(array.shape)}")
    element = call.integer("dtype", 0)
    dtype = dtype_of(element) if element else array.dtype
    call.room(array.shape, dtype)
    return [np.eye(array.shape[0], array.shape[1], _diagonal(call.integer("k", 0), array), bool).astype(dtype)]


def _diagonal(number: int, array: Array) -> int:
    # farther than the last diagonal all are alike, and NumPy refuses numbers beyond int64
    return int(max(-array.shape[-2], min(number, array.shape[-1])))


def _triangle(call: KernelCall) -> list[Array]:
    array = call.array(0)
    if array.ndim < 2:
        raise ValueError(f"Trilu needs two axes, and has shape {list(array.shape)}")
    call.room(array.shape, array.dtype)
    number = _diagonal(int(call.scalar(1)) if call.has(1) else 0, array)
    rows, columns = np.ogrid[: array.shape[-2], : array.shape[-1]]
    stays = columns - rows >= number if call.integer("upper", 1) else columns - rows <= number
    return [np.where(stays, array, np.zeros((), array.dtype))]


def _one_hot(call: KernelCall) -> list[Array]:
    indices, depth, values = call.array(0), int(call.scalar(1)), call.array(2)
    if values.shape != (2,) or depth < 1:
        raise ValueError(
            f"OneHot has depth {depth} and values of shape {list(values.shape)}: it needs 1 or more, and [2]"
        )
    axis = place_of(call.integer("axis", -1), indices.ndim + 1, "OneHot")
    shape = call.room((*indices.shape[:axis], depth, *indices.shape[axis:]), values.dtype)
    places = np.expand_dims(indices.astype(np.int64), axis)
    # a number outside, negative or not, is hot nowhere
    places = np.where(places < 0, places + depth, places)
    steps = np.arange(depth).reshape([depth if place == axis else 1 for place in range(len(shape))])
    return [np.where(steps == places, values[1], values[0])]


def _nonzero(call: KernelCall) -> list[Array]:
    array = call.array(0)
    count = int(np.count_nonzero(array))
    call.room((max(array.ndim, 1), count), np.dtype(np.int64))
    # of a scalar, NumPy has no places; the operator gives none as well, but counts them
    places = np.nonzero(np.atleast_1d(array))
    return [np.array(places, np.int64).reshape((array.ndim, count))]


KERNELS: dict[str, Kernel] = {
    "Shape": _shape,
    "Size": _size,
    "Range": _range,
    "ConstantOfShape": _constant_of_shape,
    "EyeLike": _eye_like,
    "Trilu": _triangle,
    "OneHot": _one_hot,
    "NonZero": _nonzero,
}
