"""Which elements of an output are of tokens that a mask leaves out: padding, which nobody reads."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from posenc.ports import Array, Axis, Feeds, Mask, Port, carrying
from posenc_export.bundle.case import GoldenCase

Bools = NDArray[np.bool_]
Padding = Mapping[str, Bools]
"""Where outputs are of tokens that a mask leaves out, by output: those that no mask speaks of are not in it."""
Places = Mapping[int, int]
"""Axes of an output by those of a mask."""


def padding_of(inputs: tuple[Port, ...], outputs: tuple[Port, ...], golden: GoldenCase, feeds: Feeds) -> Padding:
    """Return where the outputs of a case, at the rows that are kept, are of tokens that a mask leaves out."""
    padding: dict[str, Bools] = {}
    for port in outputs:
        for mask in masks_of(inputs, port):
            there = _left_out(mask, port, golden, feeds[mask.name])
            padding[port.name] = there | padding[port.name] if port.name in padding else there
    return padding


def of_tokens(array: Array, padding: Bools | None) -> Array:
    """Return the elements of tokens that no mask leaves out, in a row; the array itself where no mask speaks of it."""
    return array if padding is None else array[~padding]


def masks_of(inputs: tuple[Port, ...], output: Port) -> list[Port]:
    """Return the inputs that say which tokens an output is of."""
    return [port for port in carrying(inputs, Mask) if token_axes(port, output)]


def token_axes(mask: Port, output: Port) -> Places:
    """Return the axes of an output along which the tokens of a mask, and its batch, lie; none where not all do.

    The last axis of a mask is that of tokens, or all those of a grid; before it are batches, or axes of size 1. A mask
    of queries and keys hides keys of each query, and no token. Of an axis that an output has twice, the first is
    meant: that of queries.
    """
    assert isinstance(mask.carries, Mask)
    grid = [i for i in mask.lengths if mask.axes[i].kind == "grid"]
    tokens = grid if len(grid) > 1 else [len(mask.axes) - 1]
    batches = [i for i, axis in enumerate(mask.axes) if i not in tokens and axis.size != 1]
    if mask.carries.causal or any(mask.axes[i].is_length for i in batches):
        return {}
    wanted = {i: _place(mask.axes[i], output) for i in (*batches, *tokens)}
    places = {i: place for i, place in wanted.items() if place is not None}
    return places if len(set(places.values())) == len(wanted) else {}


def _place(axis: Axis, output: Port) -> int | None:
    """Return the axis of an output that is one of a mask: the same, of a sum its last term; a fixed one by its size."""
    if axis.size is not None:
        sizes = [other.size for other in output.axes]
        return sizes.index(axis.size) if sizes.count(axis.size) == 1 else None
    names = [other.name for other in output.axes]
    return next((names.index(name) for name in (axis.name, axis.terms[-1]) if name in names), None)


def _left_out(port: Port, output: Port, golden: GoldenCase, mask: Array) -> Bools:
    """Return where a mask leaves tokens of an output out: of a mask that is longer, the last places count."""
    assert isinstance(port.carries, Mask)
    places, shape = token_axes(port, output), golden.eager[output.name].shape
    order = sorted(places, key=lambda axis: places[axis])
    ones = [axis for axis in range(mask.ndim) if axis not in places]
    padding = mask != 0 if port.carries.additive else mask == 0
    padding = padding.transpose([*ones, *order]).reshape([mask.shape[axis] for axis in order])
    for i, place in enumerate(places[axis] for axis in order):
        size = output.axes[place].size_in(golden.case.sizes)
        rows = golden.rows[output.name] if shape[place] != size else np.arange(size)
        padding = np.take(padding, padding.shape[i] - size + rows, axis=i)
    sizes = [size if i in places.values() else 1 for i, size in enumerate(shape)]
    return np.broadcast_to(padding.reshape(sizes), shape)
