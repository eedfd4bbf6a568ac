"""Which elements of an output belong to masked tokens: padding, which nobody reads."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from posenc.ports import Array, Axis, Bools, Feeds, Mask, Port, carrying
from posenc_export.bundle.case import GoldenCase
from posenc_export.bundle.decoders import mask_of_keys

Padding = Mapping[str, Bools]
"""By the name of an output that a mask concerns, which of its elements belong to masked tokens."""
Places = Mapping[int, int]
"""By an axis of a mask, the axis of an output."""


def padding_of(inputs: tuple[Port, ...], outputs: tuple[Port, ...], golden: GoldenCase, feeds: Feeds) -> Padding:
    """Return which elements of a case's outputs, at the rows that are kept, belong to masked tokens."""
    padding: dict[str, Bools] = {}
    for port in outputs:
        for mask in masks_of(inputs, port):
            masked = _masked(mask, port, golden, feeds[mask.name])
            padding[port.name] = masked | padding[port.name] if port.name in padding else masked
    return padding


def free_elements(inputs: tuple[Port, ...], outputs: tuple[Port, ...], golden: GoldenCase, feeds: Feeds) -> Padding:
    """Return which elements nobody holds: padding, and rows of a last token alone where that is padding."""
    padding = dict(padding_of(inputs, outputs, golden, feeds))
    mask = mask_of_keys(inputs)
    for port in outputs:
        if mask is None or port.name in padding or not port.axes or port.axes[0].name != mask.axes[0].name:
            continue
        shape = golden.eager[port.name].shape
        is_padding = feeds[mask.name][:, -1] == 0
        padding[port.name] = np.broadcast_to(is_padding.reshape([-1, *[1] * (len(shape) - 1)]), shape)
    return padding


def of_tokens(array: Array, padding: Bools | None) -> Array:
    """Return the elements of tokens that are not masked, flat; the whole array where no mask concerns it."""
    return array if padding is None else array[~padding]


def masks_of(inputs: tuple[Port, ...], output: Port) -> list[Port]:
    """Return the masks of the tokens that an output has."""
    return [port for port in carrying(inputs, Mask) if token_axes(port, output)]


def token_axes(mask: Port, output: Port) -> Places:
    """Return the axes of an output that correspond to a mask's tokens and batch; none where one of them has no match.

    The last axis of a mask counts tokens, or all axes of a grid do; the axes before are batches, or of size 1. A mask
    of queries and keys masks keys for each query, and no tokens. Where an output has an axis twice, the first is taken:
    it is that of queries.
    """
    assert isinstance(mask.carries, Mask)
    grid = [i for i in mask.lengths if mask.axes[i].kind == "grid"]
    tokens = grid if len(grid) > 1 else [len(mask.axes) - 1]
    batches = [i for i, axis in enumerate(mask.axes) if i not in tokens and axis.size != 1]
    if mask.carries.causal or any(mask.axes[i].is_length for i in batches):
        return {}
    matches = {i: _place(mask.axes[i], output) for i in (*batches, *tokens)}
    places = {i: place for i, place in matches.items() if place is not None}
    return places if len(set(places.values())) == len(matches) else {}


def _place(axis: Axis, output: Port) -> int | None:
    """Return the axis of an output that matches one of a mask: by name, by the last term of a sum, or by size."""
    if axis.size is not None:
        sizes = [own.size for own in output.axes]
        return sizes.index(axis.size) if sizes.count(axis.size) == 1 else None
    names = [own.name for own in output.axes]
    return next((names.index(name) for name in (axis.name, axis.terms[-1]) if name in names), None)


def _masked(port: Port, output: Port, golden: GoldenCase, mask: Array) -> Bools:
    """Return which elements of an output belong to masked tokens: where a mask is longer, its last places count."""
    assert isinstance(port.carries, Mask)
    places, shape = token_axes(port, output), golden.eager[output.name].shape
    order = sorted(places, key=lambda axis: places[axis])
    of_size_1 = [axis for axis in range(mask.ndim) if axis not in places]
    padding = mask != 0 if port.carries.additive else mask == 0
    # the mask's axes in the order of the output's, those of size 1 dropped
    padding = padding.transpose([*of_size_1, *order]).reshape([mask.shape[axis] for axis in order])
    for i, place in enumerate(places[axis] for axis in order):
        size = output.axes[place].size_in(golden.case.sizes)
        rows = golden.rows[output.name] if shape[place] != size else np.arange(size)
        padding = np.take(padding, padding.shape[i] - size + rows, axis=i)
    # the output's axes, of size 1 where the mask has none
    sizes = [size if i in places.values() else 1 for i, size in enumerate(shape)]
    return np.broadcast_to(padding.reshape(sizes), shape)
