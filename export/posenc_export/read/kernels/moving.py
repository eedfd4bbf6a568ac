"""Kernels that move elements and compute none: they take arrays of data, and of places of elements, alike."""

from __future__ import annotations

from math import prod

import numpy as np

from posenc_export.read.kernels.call import Elsewhere, Kernel, KernelCall, place_of
from posenc_export.read.values import Array

FARTHEST = (2**31 - 1, 2**63 - 1)
"""Ends of a slice that ONNX Runtime reads as the end in the direction of its step, backwards too."""


def _identity(call: KernelCall) -> list[Array]:
    return [call.array(0)]


def _dropout(call: KernelCall) -> list[Array]:
    if call.has(2) and bool(call.scalar(2)):
        raise Elsewhere("Dropout in training")
    array = call.array(0)
    return [array, np.ones(array.shape, bool)]


def _reshape(call: KernelCall) -> list[Array]:
    array = call.array(0)
    sizes = list(call.integers("shape", 1) or ())
    for place, size in enumerate(sizes):
        if size == 0 and not call.integer("allowzero", 0) and place < array.ndim:
            sizes[place] = array.shape[place]
    # NumPy finds the size that is -1, and refuses two of them
    try:
        return [array.reshape(sizes)]
    except (ValueError, OverflowError):
        raise ValueError(f"Reshape cannot give {list(array.shape)} the shape {sizes}") from None


def _flatten(call: KernelCall) -> list[Array]:
    array = call.array(0)
    axis = call.integer("axis", 1)
    # one more axis than there are: all sizes go into the first
    axis = axis if axis == array.ndim else place_of(axis, max(array.ndim, 1), "Flatten")
    return [array.reshape((prod(array.shape[:axis]), prod(array.shape[axis:])))]


def _transpose(call: KernelCall) -> list[Array]:
    array = call.array(0)
    order = call.integers("perm")
    if order is not None and sorted(order) != list(range(array.ndim)):
        raise ValueError(f"Transpose orders axes as {list(order)}, and has {array.ndim} axes")
    return [np.transpose(array, order)]


def _squeeze(call: KernelCall) -> list[Array]:
    array, numbers = call.array(0), call.integers("axes", 1)
    # an empty list of axes removes nothing; without a list all axes of size 1 go
    axes = None if numbers is None else call.axes(numbers, array.ndim)
    if axes is not None and any(array.shape[axis] != 1 for axis in axes):
        raise ValueError(f"Squeeze removes axes {list(axes)} of shape {list(array.shape)}, where not all have size 1")
    return [np.squeeze(array, axes)]


def _unsqueeze(call: KernelCall) -> list[Array]:
    array, numbers = call.array(0), call.integers("axes", 1) or ()
    return [np.expand_dims(array, call.axes(numbers, array.ndim + len(numbers)))]


def _expand(call: KernelCall) -> list[Array]:
    array, sizes = call.array(0), call.integers("shape", 1) or ()
    call.room(sizes, array.dtype)
    try:
        shape = np.broadcast_shapes(array.shape, sizes)
    except ValueError:
        raise ValueError(f"Expand cannot give {list(array.shape)} the shape {list(sizes)}") from None
    # a view: it takes memory when something is computed of it
    return [np.broadcast_to(array, call.room(shape, array.dtype))]


def _tile(call: KernelCall) -> list[Array]:
    array = call.array(0)
    if call.version < 6:
        repeats = [1] * array.ndim
        repeats[place_of(int(call.scalar(2)), array.ndim, "Tile")] = int(call.scalar(1))
    else:
        repeats = list(call.integers("", 1) or ())
    if len(repeats) != array.ndim or any(count < 0 for count in repeats):
        raise ValueError(f"Tile repeats {repeats} times along the axes of shape {list(array.shape)}")
    call.room([size * count for size, count in zip(array.shape, repeats, strict=True)], array.dtype)
    return [np.tile(array, repeats)]


def _concat(call: KernelCall) -> list[Array]:
    arrays = call.present()
    axis = call.axis(arrays[0].ndim, 1)
    shapes = {array.shape[:axis] + array.shape[axis + 1 :] for array in arrays}
    if len(shapes) > 1 or len({array.ndim for array in arrays}) > 1:
        listed = ", ".join(str(list(array.shape)) for array in arrays)
        raise ValueError(f"Concat cannot join {listed} along axis {axis}")
    total = sum(array.shape[axis] for array in arrays)
    call.room((*arrays[0].shape[:axis], total, *arrays[0].shape[axis + 1 :]), arrays[0].dtype)
    return [np.concatenate(arrays, axis)]


def _split(call: KernelCall) -> list[Array]:
    array = call.array(0)
    axis = call.axis(array.ndim, 0)
    size, sizes = array.shape[axis], call.integers("split", 1)
    if sizes is None:
        count = call.integer("num_outputs", len(call.node.outputs))
        if count < 1 or (call.version < 18 and size % count):
            raise ValueError(f"Split cannot cut {size} elements into {count} equal parts")
        # the last part is smaller where parts cannot be equal
        part = -(-size // count)
        sizes = (*[part] * (count - 1), size - part * (count - 1))
    if sum(sizes) != size or any(part < 0 for part in sizes):
        raise ValueError(f"Split cuts {size} elements into {list(sizes)}")
    return list(np.split(array, np.cumsum(sizes)[:-1], axis))


def _slice(call: KernelCall) -> list[Array]:
    array = call.array(0)
    starts, ends = call.integers("starts", 1) or (), call.integers("ends", 2) or ()
    axes = call.axes(call.integers("axes", 3) or tuple(range(len(starts))), array.ndim)
    steps = call.integers("steps", 4) or (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise ValueError(f"Slice has starts {starts}, ends {ends}, axes {axes}, steps {steps}: they do not fit")
    cuts = [slice(None)] * array.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        cuts[axis] = _cut(start, end, step, array.shape[axis])
    return [array[tuple(cuts)]]


def _cut(start: int, end: int, step: int, size: int) -> slice:
    if step < 0 and end in FARTHEST:
        end = -size - 1
    start, end = (number + size if number < 0 else number for number in (start, end))
    # backwards, a start before the first element is the first element, not nothing as in Python
    high = size if step > 0 else size - 1
    start, end = min(max(start, 0), high), min(max(end, 0 if step > 0 else -1), high)
    return slice(start, None if end < 0 else end, step)


KERNELS: dict[str, Kernel] = {
    "Identity": _identity, "Dropout": _dropout, "Reshape": _reshape, "Flatten": _flatten, "Transpose": _transpose,
    "Squeeze": _squeeze, "Unsqueeze": _unsqueeze, "Expand": _expand, "Tile": _tile, "Concat": _concat,
    "Split": _split, "Slice": _slice,
}  # fmt: skip
