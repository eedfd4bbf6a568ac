"""Where positions end in a model that is rewritten, and the buffers there that are made longer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from posenc_export.read.ends import AxisEnd
from posenc_export.read.extend.held import Array
from posenc_export.read.extend.model import Model
from posenc_export.read.extend.result import Grown
from posenc_export.read.values import Constant, Operand, Position, Run

LARGEST = 2**28
"""Bytes that a buffer may take that is made longer: masks of all pairs of positions grow with the square."""


def grow(model: Model, end: AxisEnd, run: Run, max_len: int) -> list[Grown]:
    """Make the buffers longer that end where positions do; nothing where there are none that can be continued.

    Args:
        model: what is rewritten.
        end: where positions end now.
        run: the model at a short length, which knows what each tensor is made of.
        max_len: the length that they are to have.
    """
    grown = []
    for name in stored_at(end, run):
        if name in model.changed or len(model.tensors(name)) != 1:
            continue
        array = model.array(name)
        longer = _continued(array, end.last, max_len)
        if longer is not None:
            model.replace(name, longer)
            grown.append(Grown(name, end.last, max_len))
    return grown


def stored_at(end: AxisEnd, run: Run) -> list[str]:
    """Return the stored tensors that what meets at an end is made of."""
    names = dict[str, None]()
    for operand in end.record.operands:
        if operand is None:
            continue
        names.update(dict.fromkeys(_stored(operand)))
        known = run.values.get(operand.tensor)
        if known is not None:
            names.update(dict.fromkeys(_stored(Operand(operand.tensor, known))))
    return list(names)


def _stored(operand: Operand) -> Iterator[str]:
    value = operand.value
    if isinstance(value, (Constant, Position)):
        yield from sorted(value.stored)


def _continued(array: Array, size: int, new: int) -> Array | None:
    """Return a buffer with more places along the axes of a size; None where nothing says how it goes on.

    Counts go on counting, and what is the same at each place stays so; a lower triangle of True or 1 goes on.
    """
    axes = [axis for axis, places in enumerate(array.shape) if places == size]
    if not axes or array.dtype.kind not in "biuf" or array.nbytes * (new / size) ** len(axes) > LARGEST:
        return None
    if len(axes) == 2:
        return _triangle(array, size, new, (axes[0], axes[1]))
    if len(axes) != 1:
        return None
    moved = np.moveaxis(array, axes[0], -1)
    last = moved[..., -1:]
    if (moved == last).all():
        more = np.broadcast_to(last, (*moved.shape[:-1], new - size))
    elif array.dtype.kind in "iu" and (np.diff(moved.astype(np.int64)) == 1).all():
        more = (last.astype(np.int64) + np.arange(1, new - size + 1)).astype(array.dtype)
    else:
        return None
    return np.moveaxis(np.concatenate([moved, more], -1), -1, axes[0])


def _triangle(array: Array, size: int, new: int, axes: tuple[int, int]) -> Array | None:
    flat = np.moveaxis(array, axes, (-2, -1)).reshape(-1, size, size)
    low, high = np.tril(np.ones((size, size), bool)), np.tril(np.ones((new, new), bool))
    below, above = flat[0, 0, 0], flat[0, 0, -1]
    if size < 2 or not all((matrix == np.where(low, below, above)).all() for matrix in flat):
        return None
    matrix = np.where(high, below, above).astype(array.dtype)
    others = tuple(np.delete(array.shape, axes).tolist())
    return np.moveaxis(np.broadcast_to(matrix, (*others, new, new)), (-2, -1), axes)
