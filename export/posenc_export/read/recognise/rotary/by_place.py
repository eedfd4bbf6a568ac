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

from posenc.formulas.fitting import Observation, spacing_of_dtype
from posenc_export.read.recognise.flow import Flow
from posenc_export.read.recognise.rotary.mixtures import Mixture, mixtures
from posenc_export.read.recognise.rotary.products import Product
from posenc_export.read.values import Constant, Position, Run

ROUNDING = ("Cast", "Unsqueeze", "Squeeze", "Identity")
BOTH_RISE = 2
"""Both products of a sum take elements as they lie."""
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
    found: list[PlaceRotation | None] = []
    for mixture in mixtures(flow):
        alone = None if _is_part(flow, mixture) else _of_one_sum(mixture)
        found.append(alone)
        if alone is None:
            _note(known, mixture)
    seen: set[tuple[str, ...]] = set()
    for turning in (*found, *map(_whole, known.values())):
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


def _is_part(flow: Flow, mixture: Mixture) -> bool:
    """Return whether a sum makes a part of the features of a head, and others are put beside it."""
    last = mixture.sides[0].index.ndim - 1
    takers = list(flow.takers.get(mixture.node.outputs[0], []))
    for node in takers:
        # the sum may be rounded to the dtype of data first, in half precision behind an axis that is put in and out
        takers += flow.takers.get(node.outputs[0], []) if node.op_type in ROUNDING else []
    return any(node.op_type == "Concat" and node.attributes.get("axis") in (-1, last) for node in takers)


def _of_one_sum(mixture: Mixture) -> PlaceRotation | None:
    """Return the rotation that a sum over whole heads is, x cos + rotated x sin; None where it is none.

    Its last axis is that of features, whatever lies beside them in the tensor that queries were taken of.
    """
    left, right = mixture.sides
    shape = left.index.shape
    if len(shape) < 2 or shape[-1] % 2:
        return None
    lines = [product.index.reshape(-1, shape[-1]) for product in (left, right)]
    rising = [bool((np.diff(line) > 0).all()) for line in lines]
    if rising[0] == rising[1]:
        return None
    own, other = (left, right) if rising[0] else (right, left)
    lines = lines if rising[0] else lines[::-1]
    # the feature that each is mixed with, the same in every head of every token
    partner = np.searchsorted(lines[0][0], lines[1][0])
    if partner.max() >= shape[-1] or not np.array_equal(lines[0][:, partner], lines[1]):
        return None
    features = np.arange(shape[-1])
    if np.any(partner == features) or not np.array_equal(partner[partner], features):
        return None
    first = np.flatnonzero(features < partner)
    second = partner[first]
    same = np.array_equal(own.by[..., first], own.by[..., second])
    if not same or not np.array_equal(other.by[..., first], -other.by[..., second]):
        return None
    numbers = _without_repeats(own.by[..., second] + 1j * other.by[..., second])
    if numbers is None:
        return None
    tables = dict.fromkeys(table.tensor for product in (own, other) for table in product.tables)
    layout = _layout(first, second)
    seen = Observation("rotation", numbers, _spacing(own, other), layout=layout, head_dim=shape[-1])
    return PlaceRotation(tuple(tables), seen)


def _without_repeats(numbers: NDArray[np.complex128]) -> NDArray[np.complex128] | None:
    """Return numbers (*places, pairs), or (*places, heads, pairs), without the axes that repeat them; None for others.

    With more than four axes, places lie on several, one of which may have a single place: the batch comes first, and
    heads beside it or beside the features. With fewer, the axis of tokens is the longest that is left: a head, or one
    of a batch, may be turned by numbers of its own.
    """
    if numbers.ndim > 4:
        of_one = numbers[0]
        axis = next((axis for axis in (0, of_one.ndim - 2) if _is_same(of_one, axis)), None)
        return np.moveaxis(of_one, 0, -2) if axis is None else np.asarray(of_one.take(0, axis))
    for axis in reversed(range(numbers.ndim - 1)):
        if numbers.ndim > 2 and _is_same(numbers, axis):
            numbers = np.asarray(numbers.take(0, axis))
    if numbers.ndim > 3:
        return None
    return np.moveaxis(numbers, 0, 1) if numbers.ndim == 3 and numbers.shape[0] < numbers.shape[1] else numbers


def _spacing(*products: Product) -> float:
    """Return the spacing of the dtype of tables."""
    found = 0.0
    for product in products:
        value = product.table.value
        if isinstance(value, Constant | Position):
            dtype = value.array.dtype if isinstance(value, Position) else value.dtype
            found = max(found, spacing_of_dtype(dtype))
    return found


def _note(known: dict[str, Elements], mixture: Mixture) -> None:
    """Note what a sum says of the elements that it makes; which of its products has the cosines, the places say."""
    left, right = mixture.sides
    count = int(np.prod(left.shape))
    before = known.get(left.tensor)
    order = _own(left.index, right.index)
    if order is None:
        return
    if order == BOTH_RISE:
        # halves in sums of their own: the lower element of a pair is in the first of two sums
        order = 0 if before is None or np.any(before.partner[left.index.ravel()] < 0) else 1
    own, other = (left, right) if order == 0 else (right, left)
    elements = known.setdefault(
        own.tensor, Elements(own.shape, np.full(count, np.nan), np.full(count, np.nan), np.full(count, -1))
    )
    places = own.index.ravel()
    elements.cosine[places], elements.sine[places] = own.by.ravel(), other.by.ravel()
    elements.partner[places] = other.index.ravel()
    for product in (own, other):
        elements.tables |= dict.fromkeys(table.tensor for table in product.tables)
    elements.spacing = max(elements.spacing, _spacing(own, other))


def _own(left: Places, right: Places) -> int | None:
    """Return which of two products takes elements as they lie in a head, 0 or 1, or that both do; None for neither."""
    rising = [bool((np.diff(index, axis=-1) > 0).all()) for index in (left, right)]
    if rising[0] != rising[1]:
        return 0 if rising[0] else 1
    return BOTH_RISE if rising[0] else None


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
    is_pair = same and np.array_equal(elements.sine[first], -elements.sine[second])
    return _by_place(elements, first, second, is_pair=is_pair)


def _by_place(elements: Elements, first: Places, second: Places, *, is_pair: bool) -> PlaceRotation | None:
    """Return a rotation with axes of places, heads and pairs: the last axis of a tensor is that of features.

    Args:
        elements: of the tensor.
        first: the first element of each pair.
        second: its second element.
        is_pair: both turn by one angle; else each by its own, and features take the place of pairs.
    """
    shape = elements.shape
    where, other = np.unravel_index(first, shape), np.unravel_index(second, shape)
    apart = [axis for axis in range(len(shape)) if np.any(where[axis] != other[axis])]
    if apart != [len(shape) - 1]:
        return None
    head = _head(elements)
    of_head = where[-1] // head == where[-1].min() // head
    features = np.unique(where[-1][of_head] % head)
    # a token of a class, before those of patches, is not turned
    sizes = [np.unique(places[of_head]).size for places in where[:-1]]
    if np.count_nonzero(of_head) != features.size * int(np.prod(sizes)):
        return None
    columns, partners = where[-1][of_head][: features.size] % head, other[-1][of_head][: features.size] % head
    layout = _layout(columns, partners)
    numbers = (elements.cosine[second] + 1j * elements.sine[second])[of_head].reshape(*sizes, features.size)
    if not is_pair:
        if layout != "interleaved":
            return None
        # the first of two is a real part: out_a = a cos - b sin
        own = (elements.cosine[first] - 1j * elements.sine[first])[of_head].reshape(numbers.shape)
        numbers, layout = np.stack([own, numbers], -1).reshape(*sizes, -1), "axis_tiled"
    once = _without_repeats(numbers)
    if once is None:
        return None
    seen = Observation("rotation", once, elements.spacing, layout=layout, head_dim=head)
    return PlaceRotation(tuple(elements.tables), seen)


def _head(elements: Elements) -> int:
    """Return how many features a head has: the fewest after which all that are turned are turned once more alike."""
    width = elements.shape[-1]
    apart = np.where(elements.partner < 0, 0, elements.partner - np.arange(elements.partner.size))
    known = [part.reshape(-1, width) for part in (elements.cosine, elements.sine, apart)]
    turned = (elements.partner >= 0).reshape(-1, width).any(0)
    for head in range(4, width, 2):
        if width % head:
            continue
        blocks = [part.reshape(len(part), -1, head) for part in known]
        used = turned.reshape(-1, head).any(1)
        if all(
            np.array_equal(part[:, used], part[:, used][:, :1].repeat(used.sum(), 1), equal_nan=True) for part in blocks
        ):
            return head
    return width


def _is_same(numbers: NDArray[np.complex128], axis: int) -> bool:
    return bool(np.array_equal(numbers, np.broadcast_to(numbers.take([0], axis), numbers.shape)))


def _layout(first: Places, second: Places) -> str:
    pairs = first.size
    if np.array_equal(first, 2 * np.arange(pairs)) and np.array_equal(second, first + 1):
        return "interleaved"
    if np.array_equal(first, np.arange(pairs)) and np.array_equal(second, first + pairs):
        return "halves"
    return "axis_halves" if np.all(second > first) else ""
