"""A call, as the mathematics sees it: values, and their positions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from posenc.ports import (
    Array,
    Axis,
    Extents,
    Feeds,
    Integers,
    Mask,
    Port,
    Positions,
    Start,
    Values,
    axes_of,
    carrying,
    sizes_of,
)

Formula = Callable[["Call"], Sequence[Array]]
"""The outputs of a call in float64, in the order of the ports."""


@dataclass(frozen=True)
class Call:
    """A call of an encoding: the one argument of every reference.

    Args:
        inputs: The ports of the encoding.
        feeds: An array for each port.
        at: Which indices along the length of the output are wanted; None is all.
        max_len: How many positions a call without inputs has.
    """

    inputs: tuple[Port, ...]
    feeds: Feeds
    at: Integers | None
    max_len: int

    @cached_property
    def values(self) -> tuple[Array, ...]:
        """The floating-point inputs, in order; a call may have none."""
        return tuple(self.feeds[port.name] for port in carrying(self.inputs, Values))

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """The sizes of the dynamic axes."""
        return sizes_of(self.inputs, self.feeds)

    @cached_property
    def positions(self) -> Integers:
        """Positions of every token: (batch or 1, seq), (axes, batch or 1, seq), on a grid (axes, batch or 1, *grid).

        A call without inputs has those of a whole table: (max_len,).
        """
        return positions_of(self.max_len, self.inputs, self.feeds)

    @property
    def extents(self) -> Integers:
        """The sizes of each image: (batch, 2)."""
        (port,) = carrying(self.inputs, Extents)
        sizes: Integers = self.feeds[port.name]
        return sizes

    @property
    def query(self) -> Integers:
        """The positions of queries: (1 or batch, seq); see queries_and_keys."""
        return self._both[0]

    @property
    def key(self) -> Integers:
        """The positions of keys: (1 or batch, seq_k); see queries_and_keys."""
        return self._both[1]

    @cached_property
    def _both(self) -> tuple[Integers, Integers]:
        return queries_and_keys(self.inputs, self.feeds)

    @property
    def picked(self) -> Integers | slice:
        """An index that picks the wanted positions along an axis."""
        return slice(None) if self.at is None else self.at


def positions_of(max_len: int, inputs: tuple[Port, ...], feeds: Feeds) -> Integers:
    """Return the positions of a call, given or counted; see Call.positions."""
    # Given positions win, then those counted from a mask; else the first values say how many tokens there are.
    for port in carrying(inputs, Positions):
        positions: Integers = feeds[port.name]
        return positions
    for port in inputs:
        if isinstance(port.carries, Mask) and port.carries.offset is not None:
            return _counted_by(port, feeds[port.name], port.carries.offset)
    lengths = _lengths(inputs, feeds)
    if not lengths:
        return np.arange(max_len)
    if len(lengths) > 1 and all(axis.kind == "grid" for axis in lengths):
        return np.indices(tuple(lengths.values()))[:, None]  # (axes, 1, *grid)
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
    keys = np.arange(seq_k)[None, :]  # (1, seq_k)
    for port in carrying(inputs, Start):
        return feeds[port.name] + np.arange(seq)[None, :], keys
    for port in carrying(inputs, Mask):
        assert isinstance(port.carries, Mask)
        keys = counted(feeds[port.name], port.carries.offset or 0)
    return keys[:, seq_k - seq :], keys


def counted(mask: Array, offset: int) -> Integers:
    """Return positions from a mask: tokens count from `offset` on, padding is at the position before, at least 0."""
    ones = mask.astype(np.int64)
    positions: Integers = np.maximum(np.cumsum(ones, -1) * ones + offset - 1, 0)
    return positions


def _counted_by(port: Port, mask: Array, offset: int) -> Integers:
    """Return positions from a mask of tokens; on a grid, the counts of valid places along each axis.

    Counts along an axis begin at `offset`, too. Padding has the count of the place before it, as in DETR.
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
