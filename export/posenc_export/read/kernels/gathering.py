"""Kernels that look elements up, or put them at places: Gather, Scatter and their kin."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from posenc_export.read.kernels.call import Ints, Kernel, KernelCall
from posenc_export.read.values import Array, Shape


def _places(call: KernelCall, indices: Array, size: int) -> Ints:
    """Return indices from 0; ValueError where one is outside."""
    if indices.dtype.kind not in "iu":
        raise ValueError(f"{call.node.op_type} has indices of type {indices.dtype}, and needs integers")
    places = indices.astype(np.int64)
    outside = (places < -size) | (places >= size)
    if np.any(outside):
        worst = int(places[outside].reshape(-1)[0])
        raise ValueError(f"{call.node.op_type} reads place {worst} of {size}")
    return np.asarray(np.where(places < 0, places + size, places), np.int64)


def _gather(call: KernelCall) -> list[Array]:
    array, indices = call.array(0), call.array(1)
    axis = call.axis(array.ndim, 0)
    call.room((*array.shape[:axis], *indices.shape, *array.shape[axis + 1 :]), array.dtype)
    return [np.take(array, _places(call, indices, array.shape[axis]), axis)]


def _grid(shape: Shape, axis: int, places: Ints) -> tuple[Ints, ...]:
    # other axes are walked in step with the indices, which may be shorter than the array there
    grid = list(np.ogrid[tuple(slice(size) for size in shape)])
    grid[axis] = places
    return tuple(grid)


def _check_elements(call: KernelCall, array: Array, indices: Array, axis: int) -> None:
    fits = array.ndim == indices.ndim and all(
        place == axis or size <= bound
        for place, (size, bound) in enumerate(zip(indices.shape, array.shape, strict=False))
    )
    if not fits:
        raise ValueError(f"{call.node.op_type} cannot index {list(array.shape)} by {list(indices.shape)}")


def _gather_elements(call: KernelCall) -> list[Array]:
    array, indices = call.array(0), call.array(1)
    axis = call.axis(array.ndim, 0)
    _check_elements(call, array, indices, axis)
    call.room(indices.shape, array.dtype)
    return [array[_grid(indices.shape, axis, _places(call, indices, array.shape[axis]))]]


def _tuples(call: KernelCall, array: Array, indices: Array, batch: int) -> tuple[Ints, ...]:
    """Return the indices of GatherND and ScatterND as one array an axis."""
    depth = indices.shape[-1] if indices.ndim else 0
    if not depth or batch + depth > array.ndim or array.shape[:batch] != indices.shape[:batch]:
        raise ValueError(f"{call.node.op_type} cannot index {list(array.shape)} by {list(indices.shape)}")
    # along axes of the batch, a row of indices is looked up in the row of its own number
    rows = np.ogrid[tuple(slice(size) for size in indices.shape[:-1])] if batch else ()
    sizes = array.shape[batch : batch + depth]
    return (*rows[:batch], *(_places(call, indices[..., place], size) for place, size in enumerate(sizes)))


def _gather_nd(call: KernelCall) -> list[Array]:
    array, indices = call.array(0), call.array(1)
    places = _tuples(call, array, indices, call.integer("batch_dims", 0))
    call.room((*indices.shape[:-1], *array.shape[len(places) :]), array.dtype)
    return [array[places]]


REDUCTIONS: dict[str, Callable[[Array, tuple[Ints, ...], Array], None]] = {
    "none": lambda array, places, updates: array.__setitem__(places, updates),
    "add": np.add.at,
    "mul": np.multiply.at,
    "max": np.maximum.at,
    "min": np.minimum.at,
}
"""How an element is put where there is one already."""


def _put(call: KernelCall, places: tuple[Ints, ...], shape: Shape) -> list[Array]:
    # the input may be a view of another value, or a constant
    array, updates = call.array(0).copy(), call.array(2)
    if updates.shape != shape:
        raise ValueError(f"{call.node.op_type} puts {list(updates.shape)} at places of shape {list(shape)}")
    reduction = call.text("reduction", "none")
    if reduction not in REDUCTIONS:
        raise ValueError(
            f"{call.node.op_type} has the reduction {reduction!r}: one of {', '.join(REDUCTIONS)} is needed"
        )
    REDUCTIONS[reduction](array, places, updates.astype(array.dtype))
    return [array]


def _scatter_elements(call: KernelCall) -> list[Array]:
    array, indices = call.array(0), call.array(1)
    axis = call.axis(array.ndim, 0)
    _check_elements(call, array, indices, axis)
    return _put(call, _grid(indices.shape, axis, _places(call, indices, array.shape[axis])), indices.shape)


def _scatter_nd(call: KernelCall) -> list[Array]:
    array, indices = call.array(0), call.array(1)
    places = _tuples(call, array, indices, 0)
    return _put(call, places, (*indices.shape[:-1], *array.shape[len(places) :]))


def _compress(call: KernelCall) -> list[Array]:
    array, condition = call.array(0), call.array(1).reshape(-1).astype(bool)
    if "axis" not in call.node.attributes:
        array = array.reshape(-1)
    axis = call.axis(array.ndim, 0)
    if condition.size > array.shape[axis]:
        raise ValueError(f"Compress has {condition.size} conditions for {array.shape[axis]} elements")
    return [np.compress(condition, array, axis)]


def _top_k(call: KernelCall) -> list[Array]:
    array = call.array(0)
    axis = call.axis(array.ndim, -1)
    count = int(call.scalar(1)) if call.has(1) else call.integer("k", 0)
    if not 0 <= count <= array.shape[axis]:
        raise ValueError(f"TopK takes {count} of {array.shape[axis]} elements")
    call.room(array.shape, np.dtype(np.int64))
    # ties go to the smaller place: a stable sort, from behind where the largest are asked for
    if call.integer("largest", 1):
        order = array.shape[axis] - 1 - np.flip(np.argsort(np.flip(array, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(array, axis, kind="stable")
    places = np.take(order, range(count), axis)
    return [np.take_along_axis(array, places, axis), places.astype(np.int64)]


def _depth_to_space(call: KernelCall) -> list[Array]:
    array, size = call.array(0), call.integer("blocksize", 0)
    if array.ndim != 4 or size < 1 or array.shape[1] % (size * size):
        raise ValueError(f"DepthToSpace cannot cut {list(array.shape)} into blocks of {size}")
    batch, depth, height, width = array.shape
    depth //= prod((size, size))
    if call.text("mode", "DCR") == "DCR":
        moved = array.reshape((batch, size, size, depth, height, width)).transpose(0, 3, 4, 1, 5, 2)
    else:
        moved = array.reshape((batch, depth, size, size, height, width)).transpose(0, 1, 4, 2, 5, 3)
    return [moved.reshape((batch, depth, height * size, width * size))]


def _space_to_depth(call: KernelCall) -> list[Array]:
    array, size = call.array(0), call.integer("blocksize", 0)
    if array.ndim != 4 or size < 1 or array.shape[2] % size or array.shape[3] % size:
        raise ValueError(f"SpaceToDepth cannot cut {list(array.shape)} into blocks of {size}")
    batch, depth, height, width = array.shape
    # newer versions may order the features of a block before those of the places in it
    order = (0, 3, 5, 1, 2, 4) if call.text("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    cut = array.reshape((batch, depth, height // size, size, width // size, size)).transpose(order)
    return [cut.reshape((batch, depth * size * size, height // size, width // size))]


KERNELS: dict[str, Kernel] = {
    "Gather": _gather, "GatherElements": _gather_elements, "GatherND": _gather_nd, "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements, "ScatterND": _scatter_nd, "Compress": _compress, "TopK": _top_k,
    "DepthToSpace": _depth_to_space, "SpaceToDepth": _space_to_depth,
}  # fmt: skip
