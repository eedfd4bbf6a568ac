"""One call, as the mathematics sees it: which values, at which positions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from posenc.ports import Array, Axis, Feeds, Integers, Mask, Port, Positions, Start, Values, axes_of, carrying, sizes_of
from posenc.spec import Spec

Formula = Callable[["Call"], Sequence[Array]]
"""The outputs of a call in float64, in the order of the ports."""


@dataclass(frozen=True)
class Call:
    """A call of an encoding.

    values: the floating-point inputs, in order; none of a call that returns rows, or a whole table.
    positions: of every token: (batch or 1, seq), or (axes, batch or 1, seq), or on a grid (axes, batch or 1, *grid); of
        a whole table (max_len,).
    at: the indices along the length of the output that are wanted, or None for all.
    sizes: of the dynamic axes.
    """

    values: tuple[Array, ...]
    positions: Integers
    at: Integers | None
    sizes: Mapping[str, int]

    @property
    def picked(self) -> Integers | slice:
        """What picks the positions that are wanted along an axis."""
        return slice(None) if self.at is None else self.at


def call_of(spec: Spec, inputs: tuple[Port, ...], feeds: Feeds, at: Integers | None) -> Call:
    """Return the call that feeds make; this is the one place that knows which positions a call has."""
    values = tuple(feeds[port.name] for port in carrying(inputs, Values))
    return Call(values, positions_of(spec, inputs, feeds), at, sizes_of(inputs, feeds))


def positions_of(spec: Spec, inputs: tuple[Port, ...], feeds: Feeds) -> Integers:
    """Return the positions of a call, as they are given or counted; see Call."""
    for port in carrying(inputs, Positions):
        positions: Integers = feeds[port.name]
        return positions
    for port in inputs:
        if isinstance(port.carries, Mask) and port.carries.offset is not None:
            return _counted_by(port, feeds[port.name], port.carries.offset)
    lengths = _lengths(inputs, feeds)
    if not lengths:
        return np.arange(spec.max_len)
    if len(lengths) > 1 and all(axis.kind == "grid" for axis in lengths):
        return np.indices(tuple(lengths.values()))[:, None]
    starts = [int(feeds[port.name][0]) for port in carrying(inputs, Start)]
    return (starts[0] if starts else 0) + np.arange(next(iter(lengths.values())))[None, :]


def queries_and_keys(inputs: tuple[Port, ...], feeds: Feeds) -> tuple[Integers, Integers]:
    """Return the positions of queries and of keys in a call whose lengths are those of queries, then of keys.

    (1 or batch, seq), (1 or batch, seq_k): given; from a start and from 0 on; else queries are the last of the keys,
    whose positions are counted from a mask or from 0 on.
    """
    positions = [feeds[port.name] for port in carrying(inputs, Positions)]
    if positions:
        return positions[0], positions[1]
    sizes = sizes_of(inputs, feeds)
    seq, seq_k = (sizes[axis.name] for axis in axes_of(inputs) if axis.is_length)
    keys = np.arange(seq_k)[None, :]
    for port in carrying(inputs, Start):
        return feeds[port.name] + np.arange(seq)[None, :], keys
    for port in carrying(inputs, Mask):
        assert isinstance(port.carries, Mask)
        keys = counted(feeds[port.name], port.carries.offset or 0)
    return keys[:, seq_k - seq :], keys


def counted(mask: Array, offset: int) -> Integers:
    """Return positions from a mask: tokens are counted from `offset` on, padding is one before, and never below 0."""
    ones = mask.astype(np.int64)
    positions: Integers = np.maximum(np.cumsum(ones, -1) * ones + offset - 1, 0)
    return positions


def _counted_by(port: Port, mask: Array, offset: int) -> Integers:
    """Return positions from a mask of tokens; of a grid's places, of each axis how many are valid up to there.

    Counts along an axis begin at `offset`, too, and padding has the count of what is before it, as DETR has it.
    """
    grid = [i for i in port.lengths if port.axes[i].kind == "grid"]
    if len(grid) < 2:
        return counted(mask, offset)
    return np.stack([np.cumsum(mask.astype(np.int64), axis) + offset - 1 for axis in grid])


def _lengths(inputs: tuple[Port, ...], feeds: Feeds) -> dict[Axis, int]:
    """Return the length of the first values, or the sizes of their grid."""
    for port in carrying(inputs, Values):
        return {port.axes[i]: feeds[port.name].shape[i] for i in port.lengths}
    return {}
