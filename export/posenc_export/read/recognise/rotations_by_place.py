"""Pairs of features that are turned by the place of their token: cosines and sines put together from the graph's sums.

A graph turns pairs in one sum (x cos + rotated x sin) or in two (a half each). What multiplies an element itself is its
cosine, what multiplies another the sine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from posenc.formulas.fitting import Observation
from posenc_export.read.recognise.flow import Flow
from posenc_export.read.recognise.mixtures import Mixture, mixtures
from posenc_export.read.recognise.waves import spacing_of_dtype
from posenc_export.read.values import Constant, Position, Run

Places = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PlaceRotation:
    """Pairs that are turned, as formulas see them.

    Args:
        tables: the tensors of cosines and of sines.
        seen: what multiplies each pair, by its place.
    """

    tables: tuple[str, ...]
    seen: Observation


@dataclass
class Elements:
    """What is known of the elements of a tensor: its shape, and of each the cosine, the sine and the partner."""

    shape: tuple[int, ...]
    cosine: Floats
    sine: Floats
    partner: Places
    spacing: float = 0.0
    tables: dict[str, None] = field(default_factory=dict)


def rotations_by_place(flow: Flow) -> Iterator[PlaceRotation]:
    """Yield the tensors whose pairs are turned, in the order of the graph, each table once."""
    known: dict[str, Elements] = {}
    for mixture in mixtures(flow):
        _note(known, mixture)
    seen: set[tuple[str, ...]] = set()
    for elements in known.values():
        turning = _whole(elements)
        if turning is not None and turning.tables not in seen:
            seen.add(turning.tables)
            yield turning


def returned_rotations(run: Run) -> Iterator[PlaceRotation]:
    """Yield pairs of values that a graph returns, one behind the other, which are cosines and sines of an angle."""
    returned = [node.operands[0] for node in run.nodes if node.node.startswith("output ") and node.op_type == "Add"]
    for cosine, sine in pairwise(operand for operand in returned if operand is not None):
        both = [o.value.array for o in (cosine, sine) if isinstance(o.value, Position)]
        if len(both) < 2 or both[0].shape != both[1].shape or both[0].ndim < 2:
            continue
        numbers = both[0].astype(np.float64) + 1j * both[1].astype(np.float64)
        spacing = spacing_of_dtype(both[0].dtype)
        if np.ptp(np.abs(numbers)) > 8 * spacing * float(np.abs(numbers).max()):
            continue
        once = numbers[0] if numbers.ndim > 2 and _is_same(numbers, 0) else numbers
        width = once.shape[-1] // 2
        # a column a feature: each stands twice, side by side or one half after the other
        if once.shape[-1] % 2 == 0 and np.array_equal(once[..., :width], once[..., width:]):
            seen = Observation("rotation", once[..., :width], spacing, layout="halves", head_dim=2 * width)
        elif once.shape[-1] % 2 == 0 and np.array_equal(once[..., 0::2], once[..., 1::2]):
            seen = Observation("rotation", once[..., 0::2], spacing, layout="interleaved", head_dim=2 * width)
        else:
            seen = Observation("rotation", once, spacing, layout="halves", head_dim=2 * once.shape[-1])
        yield PlaceRotation((cosine.tensor, sine.tensor), seen)


def _note(known: dict[str, Elements], mixture: Mixture) -> None:
    """Note what a sum says of the elements that it makes; which of its products has the cosines, the places say."""
    left, right = mixture.sides
    count = int(np.prod(left.shape))
    order = _own(left.index, right.index)
    if order is None:
        return
    own, other = (left, right) if order == 0 else (right, left)
    elements = known.setdefault(
        own.tensor, Elements(own.shape, np.full(count, np.nan), np.full(count, np.nan), np.full(count, -1))
    )
    places = own.index.ravel()
    elements.cosine[places], elements.sine[places] = own.by.ravel(), other.by.ravel()
    elements.partner[places] = other.index.ravel()
    for product in (own, other):
        elements.tables[product.table.tensor] = None
        value = product.table.value
        dtype = value.array.dtype if isinstance(value, Position) else getattr(value, "dtype", np.dtype(np.float32))
        if isinstance(value, Constant | Position):
            elements.spacing = max(elements.spacing, spacing_of_dtype(dtype))


def _own(left: Places, right: Places) -> int | None:
    """Return which of two products takes elements as they lie, 0 or 1; None where that cannot be told."""
    steps = [np.diff(index.ravel()) for index in (left, right)]
    rising = [bool((step > 0).all()) for step in steps]
    if rising[0] != rising[1]:
        return 0 if rising[0] else 1
    # halves in sums of their own: both rise, and the lower element of a pair is in the first of two sums
    return 0 if rising[0] else None


def _whole(elements: Elements) -> PlaceRotation | None:
    """Return the rotation that the sums on a tensor are together; None where they lack a partner."""
    turned = np.flatnonzero(elements.partner >= 0)
    partner = elements.partner[turned]
    if not turned.size or not np.array_equal(elements.partner[partner], turned):
        return None
    lower = turned < partner
    first, second = turned[lower], partner[lower]
    # out_a = a cos - b sin and out_b = b cos + a sin, of the same angle
    same = np.array_equal(elements.cosine[first], elements.cosine[second])
    if not same or not np.array_equal(elements.sine[first], -elements.sine[second]):
        return None
    return _by_place(elements, first, second)


def _by_place(elements: Elements, first: Places, second: Places) -> PlaceRotation | None:
    """Return a rotation with axes of places, heads and pairs: the last axis of a tensor is that of features."""
    shape = elements.shape
    where, other = np.unravel_index(first, shape), np.unravel_index(second, shape)
    apart = [axis for axis in range(len(shape)) if np.any(where[axis] != other[axis])]
    if apart != [len(shape) - 1]:
        return None
    features = np.unique(where[-1])
    if first.size != features.size * int(np.prod(shape[:-1])):
        return None
    numbers = (elements.cosine[second] + 1j * elements.sine[second]).reshape(*shape[:-1], features.size)
    # a batch has the same numbers; so have heads, beside the batch or the features, unless each turns by its own
    numbers = numbers[0]
    if numbers.ndim > 2:
        axis = next((axis for axis in (0, numbers.ndim - 2) if _is_same(numbers, axis)), None)
        numbers = np.moveaxis(numbers, 0, -2) if axis is None else numbers.take(0, axis)
    layout = _layout(where[-1][: features.size], other[-1][: features.size])
    seen = Observation("rotation", numbers, elements.spacing, layout=layout, head_dim=shape[-1])
    return PlaceRotation(tuple(elements.tables), seen)


def _is_same(numbers: NDArray[np.complex128], axis: int) -> bool:
    return bool(np.array_equal(numbers, np.broadcast_to(numbers.take([0], axis), numbers.shape)))


def _layout(first: Places, second: Places) -> str:
    pairs = first.size
    if np.array_equal(first, 2 * np.arange(pairs)) and np.array_equal(second, first + 1):
        return "interleaved"
    if np.array_equal(first, np.arange(pairs)) and np.array_equal(second, first + pairs):
        return "halves"
    return "axis_halves" if np.all(second > first) else ""
