"""Kernels that reduce axes, or sum along one; sums of half precision are made in float32 and rounded once."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from posenc_export.read.kernels.call import Elsewhere, Kernel, KernelCall, place_of, wide
from posenc_export.read.values import Array

Axes = tuple[int, ...]


def _sum(array: Array, axes: Axes) -> Array:
    return np.asarray(np.sum(array, axis=axes, dtype=array.dtype, keepdims=True))


def _product(array: Array, axes: Axes) -> Array:
    return np.asarray(np.multiply.reduce(array, axis=axes, dtype=array.dtype, keepdims=True))


def _mean(array: Array, axes: Axes) -> Array:
    if np.issubdtype(array.dtype, np.integer):
        raise Elsewhere("means of integers are rounded in several ways")
    count = prod(array.shape[axis] for axis in axes)
    return np.asarray(np.divide(_sum(array, axes), np.asarray(count).astype(array.dtype)))


def _largest(array: Array, axes: Axes) -> Array:
    return np.asarray(np.max(array, axis=axes, keepdims=True))


def _smallest(array: Array, axes: Axes) -> Array:
    return np.asarray(np.min(array, axis=axes, keepdims=True))


def _squares(array: Array, axes: Axes) -> Array:
    return _sum(np.multiply(array, array), axes)


def _norm(array: Array, axes: Axes) -> Array:
    if np.issubdtype(array.dtype, np.integer):
        raise Elsewhere("squares of integers may be larger than their type")
    return np.asarray(np.sqrt(_squares(array, axes)), array.dtype)


def _reducing(function: Callable[[Array, Axes], Array]) -> Kernel:
    def kernel(call: KernelCall) -> list[Array]:
        array = call.array(0)
        numbers = call.integers("axes", 1)
        if not numbers and call.integer("noop_with_empty_axes", 0):
            return [array]
        axes = call.axes(numbers, array.ndim) if numbers else tuple(range(array.ndim))
        if array.size == 0:
            raise Elsewhere("reductions of nothing have a value for each operator")
        reduced = function(wide(array), axes).astype(array.dtype)
        return [reduced if call.integer("keepdims", 1) else np.squeeze(reduced, axes)]

    return kernel


def _arg(function: Callable[..., Array]) -> Kernel:
    def kernel(call: KernelCall) -> list[Array]:
        array = call.array(0)
        axis = call.axis(array.ndim, 0)
        if array.shape[axis] == 0:
            raise ValueError(f"{call.node.op_type} looks for a place among no elements")
        last = call.integer("select_last_index", 0)
        places = np.asarray(function(np.flip(array, axis) if last else array, axis, keepdims=True), np.int64)
        places = array.shape[axis] - 1 - places if last else places
        return [places if call.integer("keepdims", 1) else np.squeeze(places, axis)]

    return kernel


def _running_sum(call: KernelCall) -> list[Array]:
    array = call.array(0)
    axis = place_of(int(call.scalar(1)), array.ndim, "CumSum")
    call.room(array.shape, array.dtype)
    backwards = bool(call.integer("reverse", 0))
    numbers = np.flip(array, axis) if backwards else array
    sums = np.cumsum(numbers, axis, dtype=wide(np.zeros(0, array.dtype)).dtype)
    if call.integer("exclusive", 0):
        # each sum leaves its own element out: all move on by one place
        sums = np.roll(sums, 1, axis)
        sums[(slice(None),) * axis + (slice(1),)] = 0
    return [np.asarray(np.flip(sums, axis) if backwards else sums).astype(array.dtype)]


KERNELS: dict[str, Kernel] = {
    "ReduceSum": _reducing(_sum),
    "ReduceProd": _reducing(_product),
    "ReduceMean": _reducing(_mean),
    "ReduceMax": _reducing(_largest),
    "ReduceMin": _reducing(_smallest),
    "ReduceSumSquare": _reducing(_squares),
    "ReduceL2": _reducing(_norm),
    "ArgMax": _arg(np.argmax),
    "ArgMin": _arg(np.argmin),
    "CumSum": _running_sum,
}
