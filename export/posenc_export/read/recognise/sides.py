"""What the axes of data stand for: features that a weight mixes, or places, along which tokens or pixels lie.

A number that differs along an axis of features is a bias or a scale. One that differs along an axis of places says
where something stands, whatever it is made of: so stored numbers without a form are told from those of a layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from posenc_export.read.recognise.trails import numbers_of, shape_of
from posenc_export.read.values import Constant, Data, Meeting, Operand, Run, Shape

Side = Literal["features", "places", "mixed", "joined", "unknown"]
"""What an axis is: `mixed` are places that a weight has mixed, as MLP-Mixer does: each is a feature of all places.
`joined` are features and places in one, or copies of places: experts take the tokens each."""
Sides = tuple[Side, ...]
UNKNOWN: Side = "unknown"
PLACES: Side = "places"
FEATURES: Side = "features"
JOINED: Side = "joined"
PLAIN_PRODUCTS = {
    **dict.fromkeys(("MatMul", "FusedMatMul", "Gemm", "FusedGemm", "MatMulInteger", "TransposeMatMul"), (0, 1)),
    **dict.fromkeys(("DynamicQuantizeMatMul", "MatMulIntegerToFloat", "MatMulNBits", "MatMulBnb4"), (0, 1)),
    **dict.fromkeys(("QLinearMatMul", "QGemm"), (0, 3)),
}
"""Products of two matrices, and which inputs are the factors."""
PACKED = ("MatMulNBits", "MatMulBnb4")
"""Products with a weight whose shape is not that of a matrix."""
CONVOLUTIONS = {
    *("Conv", "FusedConv", "QLinearConv", "ConvInteger", "ConvTranspose", "BatchNormalization"),
    *("DepthToSpace", "SpaceToDepth"),
}
"""Operators that have features in the second axis."""
LAST = ("NhwcConv", "NhwcFusedConv", "NhwcMaxPool")
"""Operators of images that have features in the last axis."""
REORDERING = ("ReorderInput", "ReorderOutput")
"""Operators that put the features of an image elsewhere, where an attribute says so."""
NORMS = {
    *("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization", "SkipLayerNormalization"),
    "SkipSimplifiedLayerNormalization",
}
"""Operators that have features in the last axis, unless an attribute says otherwise."""
ATTENTIONS = {
    *("Attention", "MultiHeadAttention", "GroupQueryAttention", "DecoderMaskedMultiHeadAttention", "QAttention"),
    *("SparseAttention", "PackedAttention", "PackedMultiHeadAttention", "PagedAttention"),
}
KEEPING = {
    *("Add", "Sub", "Mul", "Div", "Sum", "Max", "Min", "Where", "Concat", "Cast", "Identity", "Pad", "Clip", "Dropout"),
    *("Relu", "Sigmoid", "Tanh", "Neg", "Slice", "LayerNormalization", "BatchNormalization"),
}
"""Operators whose outputs have the axes of their first data."""
RECURRENT = ("LSTM", "GRU", "RNN", "DynamicQuantizeLSTM")
MOVING_ALONG = ("Slice", "Pad", "Split")
"""Operators that take data from their first input, along axes that stay."""
EMBEDDING = ("EmbedLayerNormalization", "QEmbedLayerNormalization")
REDUCING = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2", "ArgMax", "ArgMin")
RESHAPING = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


@dataclass(frozen=True)
class TensorAxes:
    """What the axes of each tensor of data are, by the name of the tensor."""

    known: dict[str, Sides]

    def of(self, tensor: str, shape: Shape) -> Sides:
        """Return what the axes of a tensor are."""
        known = self.known.get(tensor)
        return known if known is not None and len(known) == len(shape) else (UNKNOWN,) * len(shape)

    def met(self, node: Meeting) -> Sides:
        """Return what the axes of data are to which a node fits all of its inputs, axis by axis from the last."""
        each = [self.of(o.tensor, shape_of(o.value)) for o in node.operands if o is not None and _is_data(o)]
        return broadcast(each, _sizes(node))


def axes_of_data(run: Run) -> TensorAxes:
    """Return what the axes of the data of a run are, by the nodes that made them.

    What comes in is told by the first node that mixes it: a weight or a convolution mixes features.
    """
    given = _given(run)
    axes = TensorAxes(dict(given))
    for node in run.nodes:
        if not any(_is_data(operand) for operand in node.operands) and node.op_type not in ("Gather", *EMBEDDING):
            continue
        for name in node.outputs:
            value = run.values.get(name)
            if isinstance(value, Data):
                sides = _sides(axes, node, value.shape)
                axes.known[name] = sides if len(sides) == len(value.shape) else (UNKNOWN,) * len(value.shape)
    return axes


def _given(run: Run) -> Iterator[tuple[str, Sides]]:
    """Yield the axes of data that come in, as far as the nodes that first mix them say what they are."""
    roots: dict[str, str] = {}
    told: set[str] = set()
    for node in run.nodes:
        first = next((o for o in node.operands if o is not None and isinstance(o.value, Data)), None)
        if first is None:
            continue
        shape = shape_of(first.value)
        root = roots.get(first.tensor, "" if first.tensor in run.produced else first.tensor)
        mixes = node.op_type in (*PLAIN_PRODUCTS, *CONVOLUTIONS) and not any(
            _is_data(other) for other in node.operands if other is not first
        )
        if root and mixes and root not in told and len(shape) > 1:
            told.add(root)
            rest = (PLACES,) * (len(shape) - 2)
            is_turned = bool(node.attributes.get("transA")) or node.operands[0] is not first
            if node.op_type in CONVOLUTIONS:
                yield root, (PLACES, FEATURES, *rest)
            elif not is_turned:
                yield root, (PLACES, *rest, FEATURES)
        # what is added, scaled or joined has the axes of what came in
        elif root and len(shape) > 1 and node.op_type in KEEPING:
            outcome = run.values.get(node.outputs[0])
            if isinstance(outcome, Data) and len(outcome.shape) == len(shape):
                roots[node.outputs[0]] = root


def broadcast(each: Sequence[Sides], sizes: Sequence[Shape]) -> Sides:
    """Return the axes of what several tensors are together; an axis of size 1 says nothing where another is longer."""
    rank = max(map(len, each), default=0)
    merged: list[Side] = []
    for place in range(-rank, 0):
        there = [(s[place], z[place]) for s, z in zip(each, sizes, strict=True) if len(s) >= -place]
        longest = max(size for _, size in there)
        merged.append(_one({side for side, size in there if size == longest}))
    return tuple(merged)


def _one(sides: set[Side]) -> Side:
    """Return what an axis is that is several things at once: what is not known gives way, and mixed places do."""
    known = sides - {UNKNOWN, JOINED}
    told = known - {"mixed"} or known
    if len(told) == 1:
        return told.pop()
    return JOINED if told or JOINED in sides else UNKNOWN


def _is_data(operand: Operand | None) -> bool:
    return operand is not None and isinstance(operand.value, Data)


def _sizes(node: Meeting) -> list[Shape]:
    return [o.value.shape for o in node.operands if o is not None and isinstance(o.value, Data)]


def _sides(axes: TensorAxes, node: Meeting, shape: Shape) -> Sides:
    """Return what the axes of an output are."""
    rule = RULES.get(node.op_type)
    if rule is not None:
        return rule(axes, node, shape)
    first = node.operands[0] if node.operands else None
    if first is None:
        return ()
    sides = axes.of(first.tensor, shape_of(first.value))
    is_one = sum(_is_data(operand) for operand in node.operands) == 1
    if node.op_type in MOVING_ALONG or (is_one and len(shape) == len(sides) and _is_data(first)):
        return sides
    return axes.met(node)


def _attended(axes: TensorAxes, node: Meeting, shape: Shape) -> Sides:
    """Return the axes of what an attention gives, or of embedded tokens."""
    if len(shape) == 4:  # (batch, heads, length, features)
        return (PLACES, FEATURES, PLACES, FEATURES)
    return (*(PLACES,) * (len(shape) - 1), FEATURES)


def _last(axes: TensorAxes, node: Meeting, shape: Shape) -> Sides:
    """Return axes of which the last has features."""
    return (*(PLACES,) * (len(shape) - 1), FEATURES)


def _reordered(axes: TensorAxes, node: Meeting, shape: Shape) -> Sides:
    """Return the axes of an image whose features ONNX Runtime puts elsewhere."""
    if node.op_type == "ReorderOutput" and node.attributes.get("channels_last"):
        return _last(axes, node, shape)
    return (PLACES, FEATURES, *(PLACES,) * (len(shape) - 2))


def _transposed(axes: TensorAxes, node: Meeting, shape: Shape) -> Sides:
    """Return axes in another order."""
    first = node.operands[0]
    sides = () if first is None else axes.of(first.tensor, shape_of(first.value))
    order = node.attributes.get("perm")
    places = [int(place) for place in order] if isinstance(order, (list, tuple)) else range(len(sides))[::-1]
    return tuple(sides[place] for place in places if place < len(sides))


def _tiled(axes: TensorAxes, node: Meeting, shape: Shape) -> Sides:
    """Return the axes of copies: along places, which of the copies it is is none of them."""
    first = node.operands[0]
    if first is None:
        return ()
    before = shape_of(first.value)
    sides = axes.of(first.tensor, before)
    if len(before) != len(shape):
        return sides
    return tuple(
        JOINED if side == PLACES and 1 < size < copied else side
        for side, size, copied in zip(sides, before, shape, strict=True)
    )


def _regrouped(axes: TensorAxes, node: Meeting, shape: Shape) -> Sides:
    """Return axes that were split and joined."""
    first = node.operands[0]
    return (
        () if first is None else _reshaped(axes.of(first.tensor, shape_of(first.value)), shape_of(first.value), shape)
    )


def _weighted(side: Side) -> Side:
    """Return what an axis is that a weight has mixed."""
    return "mixed" if side in ("places", "mixed") else "features"


def _placed(sides: Sides) -> Sides:
    """Return axes that a weight of the others passes over: what is not known of them is a place."""
    return tuple(PLACES if side == UNKNOWN else side for side in sides)


def _of_product(axes: TensorAxes, node: Meeting, shape: Shape) -> Sides:
    """Return the axes of a product of matrices, with a stored factor, or of data alone."""
    factors = []
    for place, flag in zip(PLAIN_PRODUCTS[node.op_type], ("transA", "transB"), strict=True):
        operand = node.operands[place] if place < len(node.operands) else None
        if operand is None:
            return (UNKNOWN,) * len(shape)
        sides = axes.of(operand.tensor, shape_of(operand.value))
        turned = bool(node.attributes.get(flag)) and len(sides) > 1
        factors.append((operand, (*sides[:-2], sides[-1], sides[-2]) if turned else sides))
    (left, rows), (right, columns) = factors
    if _is_data(left) and not _is_data(right):
        if not rows:
            return (UNKNOWN,) * len(shape)
        side = _weighted(rows[-1])
        if len(shape_of(right.value)) == 1 and node.op_type not in PACKED:
            return _placed(rows[:-1])
        return _fitted((*_placed(rows[:-1]), side), shape)
    if _is_data(right) and not _is_data(left):
        if len(columns) < 2:
            return (UNKNOWN,) * len(shape)
        return _fitted((*_placed(columns[:-2]), _weighted(columns[-2]), *_placed(columns[-1:])), shape)
    if len(rows) < 2 or len(columns) < 2:
        return (UNKNOWN,) * len(shape)
    outer = broadcast([rows[:-2], columns[:-2]], [shape_of(left.value)[:-2], shape_of(right.value)[:-2]])
    return _fitted((*outer, rows[-2], columns[-1]), shape)


def _fitted(sides: Sides, shape: Shape) -> Sides:
    """Return axes with those before them that a stored factor adds."""
    return (*(UNKNOWN,) * (len(shape) - len(sides)), *sides)


def _of_einsum(axes: TensorAxes, node: Meeting, shape: Shape) -> Sides:
    """Return the axes of a sum of products, letter by letter."""
    terms, outcome = letters(node)
    if outcome is None:
        return ()
    by_letter: dict[str, set[Side]] = {}
    stored: set[str] = set()
    for term, operand in zip(terms, node.operands, strict=False):
        if operand is not None and _is_data(operand):
            for letter, side in zip(term, axes.of(operand.tensor, shape_of(operand.value)), strict=False):
                by_letter.setdefault(letter, set()).add(side)
        else:
            stored |= set(term)
    has_weight = bool(stored)
    contracted = {_one(by_letter[letter]) for letter in stored & by_letter.keys() if letter not in outcome}
    made: Side = "mixed" if contracted and contracted <= {"places", "mixed"} else "features"
    sides: list[Side] = [_one(by_letter[letter]) if letter in by_letter else made for letter in outcome]
    return _placed(tuple(sides)) if has_weight else tuple(sides)


def letters(node: Meeting) -> tuple[list[str], str | None]:
    """Return the letters of each factor of an Einsum, and those of its outcome; None where they are not said."""
    equation = node.attributes.get("equation", "")
    text = (equation.decode() if isinstance(equation, bytes) else str(equation)).replace(" ", "")
    if "->" not in text or "." in text:
        return [], None
    before, outcome = text.split("->")
    return before.split(","), outcome


def _of_convolution(axes: TensorAxes, node: Meeting, shape: Shape) -> Sides:
    """Return the axes of a convolution: channels, and places unless it is known that they are features."""
    operand = next((operand for operand in node.operands if operand is not None and _is_data(operand)), None)
    sides = axes.of(operand.tensor, shape_of(operand.value)) if operand is not None else ()
    if len(sides) != len(shape) or len(shape) < 2:
        return (UNKNOWN,) * len(shape)
    # tokens in the place of channels are mixed
    return (*_placed(sides[:1]), _weighted(sides[1]), *_placed(sides[2:]))


def _of_norm(axes: TensorAxes, node: Meeting, shape: Shape) -> Sides:
    """Return the axes of a normalization of the last axis, which are features unless they are known as others."""
    sides = axes.met(node)
    axis = node.attributes.get("axis", -1)
    if len(sides) != len(shape) or not sides or axis not in (-1, len(shape) - 1) or sides[-1] == "mixed":
        return sides
    # what lies before is not known where features seemed to lie there
    if sides[-1] == PLACES:
        sides = tuple(UNKNOWN if side == FEATURES else side for side in sides)
    return (*sides[:-1], FEATURES)


def _of_gather(axes: TensorAxes, node: Meeting, shape: Shape) -> Sides:
    """Return the axes of what indices take: rows of words are features, and each index is a place."""
    table, indices = node.operands[:2] if len(node.operands) > 1 else (None, None)
    axis = node.attributes.get("axis", 0)
    if table is None or indices is None or not isinstance(axis, int):
        return ()
    before = shape_of(table.value)
    axis = axis + len(before) if axis < 0 else axis
    if isinstance(table.value, Constant):
        sides: Sides = (FEATURES,) * len(before)
        there: Sides = (PLACES,) * len(shape_of(indices.value))
    else:
        sides = axes.of(table.tensor, before)
        there = sides[axis : axis + 1] * len(shape_of(indices.value))
    return (*sides[:axis], *there, *sides[axis + 1 :])


def _reduced(axes: TensorAxes, node: Meeting, shape: Shape) -> Sides:
    """Return the axes that are left of a sum."""
    first = node.operands[0]
    sides = () if first is None else axes.of(first.tensor, shape_of(first.value))
    if len(shape) == len(sides) or not sides:
        return sides
    told = node.attributes.get("axes", node.attributes.get("axis"))
    if told is None and len(node.operands) > 1 and node.operands[1] is not None:
        numbers = numbers_of(node.operands[1].value)
        told = None if numbers is None else numbers.reshape(-1).tolist()
    gone = [told] if isinstance(told, int) else list(told) if isinstance(told, (list, tuple)) else []
    left = {int(place) % len(sides) for place in gone}
    return tuple(side for place, side in enumerate(sides) if place not in left)[: len(shape)]


def _reshaped(sides: Sides, before: Shape, after: Shape) -> Sides:
    """Return axes that were split and joined: each part is what the whole was."""
    made: list[Side] = []
    for taken, given in _groups(before, after):
        # an axis of size 1 is a part of nothing
        told: set[Side] = {sides[place] for place in taken if before[place] > 1}
        # what was joined before is not taken apart by sizes alone
        made += [JOINED if JOINED in told else _one(told)] * given
    return tuple(made)


def _groups(before: Shape, after: Shape) -> Iterator[tuple[list[int], int]]:
    """Yield the axes of a shape that make, together, so many axes of another shape."""
    place = 0
    waiting = list(after)
    while waiting:
        taken: list[int] = []
        sizes, given, count = 1, waiting.pop(0), 1
        while sizes != given or not taken:
            if sizes <= given and place < len(before):
                sizes *= before[place]
                taken.append(place)
                place += 1
            elif sizes > given and waiting:
                given *= waiting.pop(0)
                count += 1
            else:
                break
        yield taken, count


def varying(array_shape: Shape, is_varying: Callable[[int], bool], sides: Sides) -> set[Side]:
    """Return what the axes of data are along which numbers differ that are fitted to them from the last axis on.

    Args:
        array_shape: that of the numbers.
        is_varying: tells of an axis whether the numbers differ along it.
        sides: the axes of data.
    """
    first = len(sides) - len(array_shape)
    return {
        sides[first + axis] if first + axis >= 0 else UNKNOWN
        for axis, size in enumerate(array_shape)
        if size > 1 and is_varying(axis)
    }


RULES: Mapping[str, Callable[[TensorAxes, Meeting, Shape], Sides]] = {
    **dict.fromkeys(PLAIN_PRODUCTS, _of_product),
    "Einsum": _of_einsum,
    **dict.fromkeys(CONVOLUTIONS, _of_convolution),
    **dict.fromkeys(NORMS, _of_norm),
    **dict.fromkeys((*ATTENTIONS, *EMBEDDING), _attended),
    **dict.fromkeys((*RECURRENT, *LAST), _last),
    **dict.fromkeys(REORDERING, _reordered),
    "Gather": _of_gather,
    "Transpose": _transposed,
    "Tile": _tiled,
    **dict.fromkeys(RESHAPING, _regrouped),
    **dict.fromkeys(REDUCING, _reduced),
}
"""How the axes of an output follow, by operator; others leave them as they are, or fit inputs to each other."""
