"""Stored numbers that differ from place to place and meet data: what no recogniser has named is told by its axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

import numpy as np
import onnx
from numpy.typing import NDArray

from posenc.formulas.fitting import Form
from posenc_export.read.recognise.added.tables import are_tokens, is_split
from posenc_export.read.recognise.claims import Claim, claim, gathered
from posenc_export.read.recognise.masks import is_mask, unblocked
from posenc_export.read.recognise.named import Named
from posenc_export.read.recognise.scores.biases import BIAS_OF
from posenc_export.read.recognise.sides import (
    FEATURES,
    JOINED,
    NORMS,
    PLACES,
    PLAIN_PRODUCTS,
    UNKNOWN,
    Side,
    Sides,
    TensorAxes,
    letters,
    varying,
)
from posenc_export.read.recognise.trails import is_data, is_float, numbers_of, shape_of
from posenc_export.read.values import Constant, Data, Meeting, Operand, Position, Run, Shape, Value

Array = NDArray[np.generic]
Floats = NDArray[np.float64]
FITTED = {
    *("Add", "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Min", "Sum", "Mean", "Where", "PRelu", "BiasAdd"),
    *("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "LayerNormalization", "RMSNormalization"),
    *("FusedElementwise", "BiasSoftmax", "BiasGelu", "QLinearAdd", "QLinearMul"),
}
"""Operators that fit their inputs to each other, axis by axis from the last."""
QUANTIZED = ("QLinearAdd", "QLinearMul")
"""Those of them whose numbers are integers, with scales and zero points between them."""
FACTORS_OF_QUANTIZED = (0, 3)
ADDED_TO_PRODUCT = {"Gemm": 2, "FusedGemm": 2}
"""Which input of a product is added to it."""
OF_SCORES: Sides = (PLACES, FEATURES, PLACES, PLACES)
"""The axes of scores: a batch, heads, queries, keys."""
STORED = "numbers stored in "
"""How the names of stored numbers begin that have no other name."""
MATRIX = 2
"""Axes of a matrix."""
PLAIN = ("Add", "Sub", "Mul", "Where")
"""Operators of which stored numbers of several axes are told even where the axes of data are not known."""
SCALING = ("Mul", "Div")
MOVING = {
    *("Reshape", "Transpose", "Slice", "Pad", "Concat", "Gather", "Squeeze", "Unsqueeze", "Split", "Expand"),
    *("Identity", "Cast", "Flatten", "GatherElements", "Tile"),
}
SCORES = 3
"""Axes that scores have at least."""
FARTHEST = 64
"""How many nodes are gone back from what is added to scores."""
UNROUND = 4e-3
"""How far cosines and sines of half precision lie off a circle."""


def _differ_by_row(indices: Array) -> bool:
    """Return whether indices of elements differ from row to row."""
    rows = indices.reshape(-1, indices.shape[-1]) if indices.ndim > 1 else indices[None]
    return min(rows.shape) > 1 and bool((rows != rows[:1]).any())


def _differ_by_pair(indices: Array) -> bool:
    """Return whether a place that is taken follows from two others together, and from none of them alone."""
    if indices.ndim < 3 or min(indices.shape[-3:-1]) < 2:
        return False
    pairs = indices.reshape(-1, *indices.shape[-3:])[0].astype(np.int64)
    mixed = pairs - pairs[:1] - pairs[:, :1] + pairs[:1, :1]
    return bool(mixed.any())


CHOOSING: Mapping[str, Callable[[Array], bool]] = {
    "GatherElements": _differ_by_row,
    "GatherND": _differ_by_pair,
}
"""Operators that take elements of data, and when their indices say a distance."""


def stored_of_places(run: Run, axes: TensorAxes, claimed: set[str]) -> tuple[list[Named], list[Named]]:
    """Return stored numbers that differ along places of data, and those of which it is not known what the axes are.

    Args:
        run: the graph, interpreted.
        axes: what the axes of its data are.
        claimed: the names of nodes and of tensors that are named.
    """
    told: list[Claim] = []
    likely: list[Claim] = []
    for node in run.nodes:
        if node.node in claimed or not any(o is not None and is_data(o.value) for o in node.operands):
            continue
        for operand, sides in _candidates(run, axes, node):
            if operand.tensor in claimed or not _is_stored(node, operand.value):
                continue
            form = Form("not recognised", f"{STORED}{operand.tensor}", {})
            along = _along(operand.value, _of_operand(node, operand, sides), node.op_type == "Concat")
            if PLACES in along and not are_tokens(run, node, operand):
                told.append(claim(run, form, node, operand))
            elif along & {UNKNOWN, JOINED} and _is_likely(run, node, operand):
                likely.append(claim(run, form, node, operand))
    told += _added_products(run, axes, claimed)
    return gathered(told), gathered(likely)


def stands_by_place(run: Run, axes: TensorAxes, node: Meeting, operand: Operand, numbers: Floats) -> bool:
    """Return whether the numbers of an input differ along places of the data that they are fitted to."""
    sides = next((sides for other, sides in _candidates(run, axes, node) if other is operand), None)
    if sides is None or are_tokens(run, node, operand):
        return False
    sides = _of_operand(node, operand, sides)
    return PLACES in varying(numbers.shape, lambda axis: differs(numbers, axis), sides)


def joins_features(axes: TensorAxes, node: Meeting) -> bool:
    """Return whether a node puts features beside those of data: ones and zeros there leave no token out."""
    met = axes.met(node)
    axis = _joined_axis(node, len(met))
    return axis is not None and met[axis] == FEATURES


def _joined_axis(node: Meeting, rank: int) -> int | None:
    """Return the axis along which a node joins its inputs; None for other nodes."""
    axis = node.attributes.get("axis", 0)
    return axis % rank if node.op_type == "Concat" and isinstance(axis, int) and rank else None


def _candidates(run: Run, axes: TensorAxes, node: Meeting) -> Iterator[tuple[Operand, Sides]]:
    """Yield the inputs of a node that are stored numbers beside data, with the axes of data that they are fitted to."""
    place = BIAS_OF.get((node.domain, node.op_type), ADDED_TO_PRODUCT.get(node.op_type))
    if place is not None and place < len(node.operands):
        operand = node.operands[place]
        if operand is not None:
            yield operand, OF_SCORES if node.op_type not in ADDED_TO_PRODUCT else _of_output(run, axes, node)
    elif node.op_type in FITTED:
        # a norm says itself that what it normalizes are features
        met = axes.met(node) if node.op_type not in NORMS else _of_output(run, axes, node)
        places = FACTORS_OF_QUANTIZED if node.op_type in QUANTIZED else range(len(node.operands))
        for i in places:
            operand = node.operands[i] if i < len(node.operands) else None
            if operand is not None:
                yield from ((inner, met) for inner in _inside(run, operand))
    elif joins_features(axes, node):
        met = axes.met(node)
        # along an axis of places more of them are joined: tokens of no word
        axis = _joined_axis(node, len(met))
        joined = tuple(FEATURES if place == axis else side for place, side in enumerate(met))
        yield from ((operand, joined) for operand in node.operands if operand is not None)
    elif node.op_type == "Einsum":
        yield from _in_einsum(axes, node)
    elif node.op_type in PLAIN_PRODUCTS:
        yield from _in_product(axes, node)


def _inside(run: Run, operand: Operand) -> Iterator[Operand]:
    """Yield an input, or the stored numbers that it is one of, where data choose a branch."""
    place = run.produced.get(operand.tensor)
    node = None if place is None or not is_data(operand.value) else run.nodes[place]
    if node is None or node.op_type != "If":
        yield operand
        return
    number = node.outputs.index(operand.tensor)
    for branch in node.attributes.values():
        if isinstance(branch, onnx.GraphProto) and number < len(branch.output):
            name = branch.output[number].name
            if name in run.values:
                yield Operand(name, run.values[name])


def _of_output(run: Run, axes: TensorAxes, node: Meeting) -> Sides:
    return axes.of(
        node.outputs[0], shape_of(run.values.get(node.outputs[0], Constant((), np.dtype(np.float32), _none)))
    )


def _none() -> Array:
    return np.zeros((), np.float32)


def _in_product(axes: TensorAxes, node: Meeting) -> Iterator[tuple[Operand, Sides]]:
    """Yield a stored factor of several matrices: a head has a weight of its own, and a place an encoding."""
    operands = [node.operands[i] for i in PLAIN_PRODUCTS[node.op_type] if i < len(node.operands)]
    stored = next((o for o in operands if o is not None and isinstance(o.value, Constant)), None)
    data = next((o for o in operands if o is not None and isinstance(o.value, Data)), None)
    if stored is None or data is None or len(shape_of(stored.value)) <= MATRIX:
        return
    sizes = shape_of(data.value)
    outer = zip(axes.of(data.tensor, sizes)[:-MATRIX], sizes[:-MATRIX], strict=True)
    # experts take the same data, each with a weight of its own; heads that are joined with a batch are no places
    told = tuple(side if size > 1 and side != JOINED else FEATURES for side, size in outer)
    missing = len(shape_of(stored.value)) - len(sizes)
    yield stored, (*(FEATURES,) * missing, *told, FEATURES, FEATURES)


def _in_einsum(axes: TensorAxes, node: Meeting) -> Iterator[tuple[Operand, Sides]]:
    """Yield the stored factors of a sum of products, with what the letters are that data has, too, and that stay."""
    terms, outcome = letters(node)
    if outcome is None:
        return
    known: dict[str, Side] = {}
    for term, operand in zip(terms, node.operands, strict=False):
        if operand is not None and isinstance(operand.value, Data):
            sides = axes.of(operand.tensor, operand.value.shape)
            known |= {letter: side for letter, side in zip(term, sides, strict=False) if letter in outcome}
    for term, operand in zip(terms, node.operands, strict=False):
        if operand is not None and isinstance(operand.value, Constant) and len(term) == len(operand.value.shape):
            yield operand, tuple(known.get(letter, FEATURES) for letter in term)


def _of_operand(node: Meeting, operand: Operand, sides: Sides) -> Sides:
    """Return axes without those along which data are one number, and become as many as the stored ones are."""
    shape = shape_of(operand.value)
    if node.op_type not in FITTED:
        return sides
    shapes = [o.value.shape for o in node.operands if o is not None and isinstance(o.value, Data)]
    return tuple(
        UNKNOWN if place < len(shape) and shape[-1 - place] > 1 and _longest(shapes, place) == 1 else side
        for place, side in reversed(list(enumerate(reversed(sides))))
    )


def _longest(shapes: list[Shape], place: int) -> int:
    return max((shape[-1 - place] for shape in shapes if place < len(shape)), default=1)


def is_byte(value: Value) -> bool:
    """Return whether the elements of a value have eight bits, as those of quantized numbers."""
    dtype = value.array.dtype if isinstance(value, Position) else getattr(value, "dtype", None)
    return dtype is not None and dtype.itemsize == 1 and dtype.kind in "iu"


def _is_stored(node: Meeting, value: Value) -> bool:
    """Return whether numbers are stored floats, or integers of a node that takes them for floats."""
    return isinstance(value, Constant) and (
        is_float(value) or (node.op_type in QUANTIZED and value.dtype.itemsize == 1)
    )


def _along(value: Value, sides: Sides, is_joined: bool) -> set[Side]:
    """Return what the axes are along which stored numbers differ; nothing for masks, whose numbers leave tokens out."""
    shape = shape_of(value)
    # most numbers are of features: those are not looked at
    if not varying(shape, lambda axis: True, sides) - {FEATURES, "mixed"}:
        return set()
    array = numbers_of(value)
    numbers = None if array is None else told_numbers(array, is_joined)
    return set() if numbers is None else varying(shape, lambda axis: differs(numbers, axis), sides)


def told_numbers(array: Array, is_joined: bool = False) -> Floats | None:
    """Return numbers, NaN where they leave a token out; None for a mask, and for the same number everywhere.

    Args:
        array: the numbers.
        is_joined: whether they are features: ones and zeros are no mask then.
    """
    if is_mask(array) and not (is_joined and np.isin(array, (0, 1)).all()):
        return None
    numbers = unblocked(array)
    finite = numbers[np.isfinite(numbers)]
    return numbers if finite.size and finite.min() < finite.max() else None


def differs(numbers: Floats, axis: int) -> bool:
    """Return whether numbers differ along an axis, where they leave no token out."""
    low = np.where(np.isnan(numbers), np.inf, numbers).min(axis)
    high = np.where(np.isnan(numbers), -np.inf, numbers).max(axis)
    return bool((high > low).any())


def _is_likely(run: Run, node: Meeting, operand: Operand) -> bool:
    """Return whether stored numbers vary along several axes, as a bias of features does not."""
    shape = shape_of(operand.value)
    array = numbers_of(operand.value)
    numbers = None if array is None else told_numbers(array)
    if numbers is None or not np.isfinite(numbers).all() or sum(size > 1 for size in shape) < 2:
        return False
    several = sum(differs(numbers, axis) for axis in range(numbers.ndim)) > 1
    if node.op_type in PLAIN_PRODUCTS:
        # a product whose stored factor differs from place to place is of no layer
        return several and node.op_type == "MatMul" and sum(size > 1 for size in shape) > 2
    return several and node.op_type in PLAIN and not is_split(run, node, shape)


def choosing_of(run: Run, claimed: set[str]) -> list[Named]:
    """Return indices that take from each row of data others than from the next: scores by a distance."""
    return gathered(_choosing(run, claimed))


def _choosing(run: Run, claimed: set[str]) -> Iterator[Claim]:
    for node in run.nodes:
        if node.op_type not in CHOOSING or node.node in claimed or len(node.operands) < 2:
            continue
        data, indices = node.operands[:2]
        if data is None or indices is None or not is_data(data.value) or is_data(indices.value):
            continue
        array = numbers_of(indices.value)
        if array is not None and array.dtype.kind in "iu" and CHOOSING[node.op_type](array):
            is_stored = isinstance(indices.value, Constant)
            words = f"{STORED}{indices.tensor}" if is_stored else node.op_type
            yield claim(run, Form("not recognised", words, {}), node, indices)


def _added_products(run: Run, axes: TensorAxes, claimed: set[str]) -> Iterator[Claim]:
    """Yield weights whose products with queries are moved, and added to scores: rows for each distance, or each key."""
    for node in run.nodes:
        if node.op_type not in ("Add", "Sum") or node.node in claimed:
            continue
        data = [o for o in node.operands if o is not None and isinstance(o.value, Data)]
        scores = [o for o in data if axes.of(o.tensor, shape_of(o.value))[-2:] == (PLACES, PLACES)]
        if not any(len(shape_of(o.value)) >= SCORES and _weight_of(run, axes, o, of_data=True) for o in scores):
            continue
        for operand in data:
            product = _weight_of(run, axes, operand, of_data=False)
            if operand not in scores and product is not None and product[0].node not in claimed:
                form = Form("not recognised", f"{STORED}{product[1].tensor}", {})
                yield claim(run, form, node, Operand(product[1].tensor, product[1].value))


def _weight_of(run: Run, axes: TensorAxes, operand: Operand, of_data: bool) -> tuple[Meeting, Operand] | None:
    """Return the product that data were moved or scaled from, and its second factor.

    Args:
        run: the graph, interpreted.
        axes: what the axes of its data are.
        operand: what was moved.
        of_data: whether the product is asked for that has two factors of data, or the one with a stored factor.
    """
    tensor = operand.tensor
    for _ in range(FARTHEST):
        place = run.produced.get(tensor)
        if place is None:
            return None
        node = run.nodes[place]
        factors = [o for o in node.operands if o is not None]
        data = [o for o in factors if isinstance(o.value, Data)]
        if node.op_type in PLAIN_PRODUCTS or node.op_type == "Einsum":
            if of_data:
                return (node, data[1]) if len(data) > 1 else None
            stored = [o for o in factors if isinstance(o.value, Constant) and is_float(o.value)]
            last = axes.of(node.outputs[0], shape_of(run.values[node.outputs[0]]))[-1:]
            return (node, stored[0]) if len(data) == 1 and stored and last == (FEATURES,) else None
        if len(data) != 1 or node.op_type not in (*MOVING, *SCALING):
            return None
        tensor = data[0].tensor
    return None


def stored_turns(run: Run, claimed: set[str]) -> list[Named]:
    """Return stored cosines and sines by which data are multiplied in two products: turns of no known form."""
    products = [
        (node, operand)
        for node in run.meetings
        if node.op_type == "Mul" and node.node not in claimed
        for operand in node.operands
        if operand is not None and isinstance(operand.value, Constant) and is_float(operand.value)
        if sum(size > 1 for size in operand.value.shape) > 1
    ]
    claims = []
    for (first, cosine), (_, sine) in pairwise(products):
        cosines, sines = numbers_of(cosine.value), numbers_of(sine.value)
        if cosines is None or sines is None or cosines.shape != sines.shape or is_mask(cosines):
            continue
        radii = np.hypot(cosines.astype(np.float64), sines.astype(np.float64))
        if np.abs(radii - 1).max() <= UNROUND:
            form = Form("not recognised", f"turns by numbers stored in {cosine.tensor} and {sine.tensor}", {})
            claims.append(claim(run, form, first, cosine))
    return gathered(claims)
