"""Rotations that a graph spells out: products and sums whose mixtures of two elements are those of a turned pair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from posenc.formulas.parts.circles import LOOSEST, Circle, circle_of, frequencies_at, offset_of
from posenc.ports import Floats
from posenc_export.read.recognise.flow import Flow
from posenc_export.read.recognise.rotary.mixtures import Mixture, mixtures
from posenc_export.read.recognise.rotary.pairing import Places
from posenc_export.read.recognise.rotary.products import Product
from posenc_export.read.recognise.rotary.rows import CosSinRows
from posenc_export.read.values import Meeting, Operand, Position

FEWEST = 4
"""Rows of fewer positions say nothing of frequencies."""
UNLIKE = 0.05
"""A difference of two cosines that no rounding makes."""

TWO_ANGLES = "the two features of a pair are turned by two angles: cosines lie in another layout than features"
"""What is wrong with pairs that do not turn; a formula may have it so, as V-JEPA 2's has."""


@dataclass(frozen=True)
class Mixed:
    """The mixtures of one sum, read as cosine and sine.

    Args:
        node: the sum.
        products: those with the cosines and with the sines.
        rows: cosines and sines, (positions, elements), with their signs.
        positions: whole, a row each.
        own: the place of the element that each cosine multiplies, in the tensor before it was moved.
        paired: that of the element that each sine multiplies.
    """

    node: Meeting
    products: tuple[Product, Product]
    rows: CosSinRows
    positions: Places
    own: Places
    paired: Places


@dataclass(frozen=True)
class Turned:
    """The numbers by which the elements of a tensor were turned.

    Args:
        output: the tensor.
        cosine: of each element, in the shape of the tensor.
        sine: the same, with its sign.
    """

    output: str
    cosine: Floats
    sine: Floats


@dataclass(frozen=True)
class Mixing:
    """Pairs that cosines and sines mix, and that are turned by no angle of positions.

    Args:
        node: the sum.
        source: the tensor that was mixed, before it was moved.
        places: of the mixed elements, in that tensor.
        turned: what mixes each element.
        fault: why it is no rotation, where that is certain; empty where its angles are none that are known.
    """

    node: str
    source: str
    places: Places
    turned: tuple[Turned, ...]
    fault: str


@dataclass(frozen=True)
class Rotation:
    """Pairs of elements of a tensor that are turned.

    Args:
        nodes: the sums that make them.
        tables: the tensors of cosines and of sines.
        multiplied: the node that multiplies by cosines.
        rows: cosines and sines, (positions, pairs).
        positions: whole, a row each.
        first: the places of the first element of each pair, in the tensor before it was moved.
        second: those of the second.
        shape: that tensor's shape.
        source: that tensor's name.
        turned: of each sum its output, with the cosines and sines of its elements, in its shape.
    """

    nodes: tuple[Meeting, ...]
    tables: tuple[Operand, Operand]
    multiplied: Meeting
    rows: CosSinRows
    positions: Places
    first: Places
    second: Places
    shape: tuple[int, ...]
    source: str
    turned: tuple[Turned, ...]

    @property
    def outputs(self) -> tuple[str, ...]:
        """The tensors that hold turned elements."""
        return tuple(name for node in self.nodes for name in node.outputs)


def rotations(flow: Flow) -> Iterator[Rotation]:
    """Yield the rotations of a run, in the order of the graph."""
    return (reading for reading in readings(flow) if isinstance(reading, Rotation))


def readings(flow: Flow) -> Iterator[Rotation | Mixing]:
    """Yield the rotations of a run, and what mixes pairs by cosines and sines without being one."""
    halves: dict[tuple[str, bytes], Mixed] = {}
    for mixture in mixtures(flow):
        mixed = _read(flow, mixture)
        if mixed is None or np.any(mixed.own == mixed.paired):
            if (mixing := _unread(mixture)) is not None:
                yield mixing
            continue
        if (rotation := _whole([mixed])) is not None:
            yield rotation
            continue
        if fault := _fault([mixed]):
            yield _mixing([mixed], fault)
            continue
        # the other half of the pairs stands in a sum of its own
        lower = np.sort(np.minimum(mixed.own, mixed.paired))
        key = (mixed.products[0].tensor, lower.tobytes())
        before = halves.pop(key, None)
        if before is None:
            halves[key] = mixed
        elif (rotation := _whole([before, mixed])) is not None:
            yield rotation
        elif fault := _fault([before, mixed]):
            yield _mixing([before, mixed], fault)


def _fault(parts: list[Mixed]) -> str:
    """Return in words why mixtures of whole pairs are no rotation; nothing where that is not certain."""
    own = np.concatenate([part.own for part in parts])
    others = np.concatenate([part.paired for part in parts])
    cosine = np.concatenate([part.rows.cosine for part in parts], axis=1)
    sine = np.concatenate([part.rows.sine for part in parts], axis=1)
    by_place = {int(place): column for column, place in enumerate(own)}
    if len(by_place) != own.size or any(int(place) not in by_place for place in others):
        return ""
    partner = np.array([by_place[int(place)] for place in others])
    if not np.array_equal(others[partner], own):
        return ""
    if np.abs(cosine - cosine[:, partner]).max() > UNLIKE:
        return TWO_ANGLES
    if np.abs(sine).max() > UNLIKE and np.abs(sine - sine[:, partner]).max() < UNLIKE:
        return "sines have one sign in both features of a pair, which turns nothing"
    return ""


def _mixing(parts: list[Mixed], fault: str) -> Mixing:
    places = np.concatenate([part.own for part in parts])
    return Mixing(parts[0].node.node, parts[0].products[0].tensor, places, _turned(parts), fault)


def _unread(mixture: Mixture) -> Mixing | None:
    """Return pairs that are turned by angles of no known form; None for other mixtures, of which there are many."""
    left, right = mixture.sides
    if not (np.isfinite(left.by).all() and np.isfinite(right.by).all()) or np.any(left.index == right.index):
        return None
    radii = np.hypot(left.by, right.by)
    if not radii.min() > 0 or np.ptp(radii) > LOOSEST * float(radii.max()):
        return None
    # which of the two has the cosines is not known: what varies is told by both
    turned = Turned(mixture.node.outputs[0], left.by, right.by)
    return Mixing(mixture.node.node, left.tensor, np.unique(left.index), (turned,), "")


def _turned(parts: list[Mixed]) -> tuple[Turned, ...]:
    return tuple(Turned(part.node.outputs[0], part.products[0].by, part.products[1].by) for part in parts)


def _whole(parts: list[Mixed]) -> Rotation | None:
    """Return the rotation that mixtures are together; None where they lack an element, or turn it elsewhere."""
    own = np.concatenate([part.own for part in parts])
    others = np.concatenate([part.paired for part in parts])
    cosine = np.concatenate([part.rows.cosine for part in parts], axis=1)
    sine = np.concatenate([part.rows.sine for part in parts], axis=1)
    second, first = np.flatnonzero(own > others), np.flatnonzero(own < others)
    second, first = second[np.argsort(own[second])], first[np.argsort(others[first])]
    # without an angle of its own for each, elements are not pairs
    if second.size != first.size or second.size == 0:
        return None
    # out_b = x_b cos + x_a sin and out_a = x_a cos - x_b sin, of the same angle
    paired = np.array_equal(own[second], others[first]) and np.array_equal(others[second], own[first])
    opposite = np.array_equal(cosine[:, second], cosine[:, first]) and np.array_equal(sine[:, second], -sine[:, first])
    if not (paired and opposite):
        return None
    order = second[np.argsort(others[second], kind="stable")]
    cosines, sines = parts[0].products
    return Rotation(
        tuple(part.node for part in parts),
        (cosines.table, sines.table),
        cosines.node,
        CosSinRows(cosine[:, order], sine[:, order]),
        parts[0].positions,
        others[order],
        own[order],
        cosines.shape,
        cosines.tensor,
        _turned(parts),
    )


def _read(flow: Flow, mixture: Mixture) -> Mixed | None:
    """Return a mixture as cosines and sines of angles that grow with positions; None where they are not."""
    left, right = mixture.sides
    by = [left.by, right.by]
    if not all(np.isfinite(numbers[..., :1]).all() for numbers in by):
        return None
    cut = tuple(slice(None) if _varies(by, axis) else slice(0, 1) for axis in range(left.by.ndim))
    if slice(None) not in cut:
        return _still(mixture)
    by, places = [numbers[cut] for numbers in by], [left.index[cut], right.index[cut]]
    for axis in range(left.by.ndim):
        if by[0].shape[axis] < FEWEST:
            continue
        columns = [np.moveaxis(numbers, axis, 0).reshape(numbers.shape[axis], -1) for numbers in by]
        where = [np.moveaxis(place, axis, 0).reshape(place.shape[axis], -1)[0] for place in places]
        # which of both products has the cosines is known by position 0 alone
        for cos, sin in ((0, 1), (1, 0)):
            positions = _positions(flow, circle_of(columns[cos], columns[sin]), mixture.sides[cos].table)
            if positions is not None:
                products = (mixture.sides[cos], mixture.sides[sin])
                rows = CosSinRows(columns[cos], columns[sin])
                return Mixed(mixture.node, products, rows, positions, where[cos], where[sin])
    return None


def _varies(by: list[Floats], axis: int) -> bool:
    return any(not np.array_equal(numbers, np.broadcast_to(numbers.take([0], axis), numbers.shape)) for numbers in by)


def _still(mixture: Mixture) -> Mixed | None:
    """Return a mixture by numbers that are the same everywhere, if it turns nothing: cosines alike, and sines 0."""
    left, right = mixture.sides
    if left.by.flat[0] == 0:
        left, right = right, left
    width = left.by.shape[-1]
    if left.by.flat[0] <= 0 or right.by.flat[0] != 0:
        return None
    rows = CosSinRows(left.by.reshape(-1, width)[[0] * FEWEST], right.by.reshape(-1, width)[[0] * FEWEST])
    places = [side.index.reshape(-1, width)[0] for side in (left, right)]
    return Mixed(mixture.node, (left, right), rows, np.arange(FEWEST), places[0], places[1])


def _positions(flow: Flow, circle: Circle | None, table: Operand) -> NDArray[np.int64] | None:
    """Return the positions of the rows, where angles are proportional to them."""
    if circle is None:
        return None
    count = circle.points.shape[0]
    start = offset_of(circle, count)
    if start is not None:
        return np.arange(count, dtype=np.int64) + start
    for ids in _ids(flow, table, count):
        if frequencies_at(circle, ids) is not None:
            return ids
    return None


def _ids(flow: Flow, table: Operand, count: int) -> Iterator[NDArray[np.int64]]:
    """Yield the whole numbers of the inputs that a table depends on, a sequence each."""
    inputs = table.value.inputs if isinstance(table.value, Position) else frozenset()
    for name in sorted(inputs):
        value = flow.run.values.get(name)
        if isinstance(value, Position) and value.array.dtype.kind in "iu" and value.array.shape[-1:] == (count,):
            yield from np.unique(value.array.reshape(-1, count).astype(np.int64), axis=0)
