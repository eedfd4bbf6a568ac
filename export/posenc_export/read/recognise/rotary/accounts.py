"""Each attention accounted for: which of its queries, keys and values are turned, how often, by which angles.

Every element of a query, a key or a value is followed back through moves, scales and norms to where it was turned, or
to the weight that made it. So features that pass, heads that share keys, caches and packed tensors need no rule of
their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from posenc.ports import Floats
from posenc_export.read.interpret.meetings import PRODUCTS, is_float
from posenc_export.read.interpret.state import is_data
from posenc_export.read.layers import SOFTMAX, WHOLE
from posenc_export.read.recognise.flow import Flow
from posenc_export.read.recognise.masks import is_mask
from posenc_export.read.recognise.named import VALUES_TURNED
from posenc_export.read.recognise.rotary.operators import tabled_operator
from posenc_export.read.recognise.rotary.rotations import Rotation, Turned, readings
from posenc_export.read.recognise.trails import numbers_of
from posenc_export.read.values import Constant, Data, Meeting, Operand, Position, Run

Places = NDArray[np.int64]
PLAIN, GIVEN, UNSURE = -1, -2, -3
"""What an element is that no rotation made: that of a weight, of an input, or of what is not known."""
DEEPEST = 60
"""Nodes between an attention and the weight that makes what comes in, at most."""
LARGEST = 1 << 22
"""Elements of a tensor that is followed, at most."""
UNLIKE = 0.02
"""A difference of two cosines that no rounding makes."""
FILLED = ("ScatterND", "Transpose", "Reshape", "Identity", "Cast")
"""Operators between an empty tensor and what is put into it."""
SIDES: dict[str, tuple[int, int, int]] = {
    **dict.fromkeys(("Attention", "MultiHeadAttention", "GroupQueryAttention", "PagedAttention"), (0, 1, 2)),
    **dict.fromkeys(("SparseAttention", "PackedMultiHeadAttention", "DecoderMaskedMultiHeadAttention"), (0, 1, 2)),
}
"""Where operators that are an attention take queries, keys and values."""


@dataclass(frozen=True)
class Turn:
    """A place in a graph where elements are turned.

    Args:
        node: the first node there.
        source: the tensor that is turned.
        places: elements of that tensor that are turned.
        fault: why this is no rotation; empty where it is one, or may be.
    """

    node: str
    source: str
    places: Places
    fault: str = ""


@dataclass(frozen=True)
class Traced:
    """Where the elements of a tensor come from.

    Args:
        turn: of each element, the number of the rotation that it comes from, or what it is without one.
        place: its place in the output of that rotation, flattened.
        output: the number of that output among all outputs of rotations.
    """

    turn: Places
    place: Places
    output: Places

    def at(self, index: Places) -> Traced:
        """Return the origin of elements that were moved; those that a constant filled in come from none."""
        parts = (np.where(index < 0, fill, part.ravel()[index]) for part, fill in self._parts())
        return Traced(*parts)

    def _parts(self) -> Iterator[tuple[Places, int]]:
        yield from ((self.turn, PLAIN), (self.place, 0), (self.output, 0))


@dataclass(frozen=True)
class Side:
    """The queries, the keys or the values of an attention.

    Args:
        turns: the rotations that its elements come from.
        again: those whose elements were turned before.
        traced: where each element comes from; None where nobody knows.
        axis: that of tokens.
    """

    turns: tuple[int, ...]
    again: tuple[int, ...]
    traced: Traced | None
    axis: int


@dataclass(frozen=True)
class AttentionFault:
    """What is wrong with an attention, or not known: at which node, in words."""

    node: str
    words: str


@dataclass(frozen=True)
class Account:
    """An attention.

    Args:
        place: of its node.
        queries: rotations that queries come from, by the nodes there.
        keys: the same of keys.
        values: the same of values.
        faults: what is wrong, in words.
        unsure: what could not be followed, in words.
    """

    place: int
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    values: tuple[str, ...]
    faults: tuple[AttentionFault, ...] = ()
    unsure: tuple[AttentionFault, ...] = ()


def accounts_of(run: Run, attentions: Sequence[int]) -> tuple[Account, ...]:
    """Return what becomes of queries, keys and values of each attention.

    Args:
        run: an interpreted graph.
        attentions: places of its attentions, as `attentions_of` gives them.
    """
    flow = Flow(run)
    tracer = Tracer(flow)
    if not tracer.turns and not any(map(_turns_itself, run.nodes)):
        return ()
    return tuple(_account(tracer, place) for place in attentions)


@dataclass
class Tracer:
    """A run whose tensors are followed back to the rotations that they come from."""

    flow: Flow
    turns: list[Turn] = field(default_factory=list)
    _outputs: dict[str, tuple[int, int]] = field(default_factory=dict)
    _numbers: list[tuple[Floats, Floats] | None] = field(default_factory=list)
    _known: dict[str, Traced | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for reading in readings(self.flow):
            if isinstance(reading, Rotation):
                places = np.concatenate([reading.first, reading.second])
                turn = Turn(reading.multiplied.node, reading.source, places)
            else:
                turn = Turn(reading.node, reading.source, reading.places, reading.fault)
            self._add(turn, reading.turned)
        for node in self.flow.run.nodes:
            if node.op_type.endswith("RotaryEmbedding") and node.operands and node.operands[0] is not None:
                self._add_operator(node, node.operands[0])

    def _add(self, turn: Turn, outputs: Sequence[Turned]) -> None:
        for turned in outputs:
            self._outputs[turned.output] = len(self.turns), len(self._numbers)
            self._numbers.append((turned.cosine, turned.sine))
        self.turns.append(turn)

    def _add_operator(self, node: Meeting, data: Operand) -> None:
        shape = _shape(data)
        numbers = _operator_numbers(self.flow, node, shape)
        self._outputs[node.outputs[0]] = len(self.turns), len(self._numbers)
        self._numbers.append(numbers)
        count = int(np.prod(shape, dtype=np.int64))
        self.turns.append(Turn(node.node, data.tensor, np.arange(min(count, LARGEST), dtype=np.int64)))

    def numbers(self, traced: Traced) -> tuple[Floats, Floats]:
        """Return the cosines and sines by which elements were turned; NaN for those that were not, or nobody knows."""
        cosine, sine = np.full(traced.turn.shape, np.nan), np.full(traced.turn.shape, np.nan)
        for output in np.unique(traced.output[traced.turn >= 0]).tolist():
            known = self._numbers[output]
            of_it = (traced.turn >= 0) & (traced.output == output)
            if known is not None:
                radius = np.hypot(known[0].ravel(), known[1].ravel())
                scale = np.where(radius > 0, radius, 1)[traced.place[of_it]]
                cosine[of_it] = known[0].ravel()[traced.place[of_it]] / scale
                sine[of_it] = known[1].ravel()[traced.place[of_it]] / scale
        return cosine, sine

    def trace(self, operand: Operand, depth: int = 0) -> Traced | None:
        """Return where the elements of an operand come from; None where it has no known shape, or is too large."""
        shape = _shape(operand)
        if not isinstance(operand.value, Data) or int(np.prod(shape, dtype=np.int64)) > LARGEST:
            return None
        if operand.tensor not in self._known:
            self._known[operand.tensor] = self._trace(operand, shape, depth)
        return self._known[operand.tensor]

    def _trace(self, operand: Operand, shape: tuple[int, ...], depth: int) -> Traced:
        if operand.tensor in self._outputs:
            turn, output = self._outputs[operand.tensor]
            place = np.arange(int(np.prod(shape, dtype=np.int64)), dtype=np.int64).reshape(shape)
            return Traced(np.full(shape, turn), place, np.full(shape, output))
        node = self.flow.maker(operand.tensor)
        if node is None:
            return _all(shape, GIVEN)
        if depth > DEEPEST:
            return _all(shape, UNSURE)
        value = operand.value
        moved = value.moved() if isinstance(value, Data) and value.moved is not None else None
        if moved is not None and moved.tensor != operand.tensor:
            origin = self.flow.run.values.get(moved.tensor)
            traced = None if origin is None else self.trace(Operand(moved.tensor, origin), depth + 1)
            return _all(shape, UNSURE) if traced is None else traced.at(moved.index)
        return self._through(node, operand, shape, depth)

    def _through(self, node: Meeting, operand: Operand, shape: tuple[int, ...], depth: int) -> Traced:
        """Return the origin of what a node computed, or joined."""
        data = [o for o in node.operands if o is not None and is_data(o.value)]
        if node.op_type in PRODUCTS or node.op_type in WHOLE or node.op_type in SOFTMAX or not data:
            return _all(shape, PLAIN)
        if node.op_type == "Concat":
            return self._joined(node, shape, depth)
        if node.op_type in ("ScatterND", "ScatterElements", "TensorScatter"):
            return self._written(node, shape, depth)
        if node.op_type in ("Gather", "GatherND", "GatherElements", "EmbedLayerNormalization"):
            return _all(shape, PLAIN)
        parts = [part for o in data if _shape(o) == shape and (part := self.trace(o, depth + 1)) is not None]
        unsure = any(_may_be_angles(o) for o in node.operands if o is not None)
        if not parts:
            return _all(shape, UNSURE)
        traced = parts[0]
        for other in parts[1:]:
            # a sum of parts that other nodes have turned, or of data and what is put to it
            taken = (traced.turn < 0) & (other.turn >= 0) | (traced.turn == PLAIN) & (other.turn == UNSURE)
            traced = Traced(*(np.where(taken, b, a) for a, b in zip(_parts(traced), _parts(other), strict=True)))
        return Traced(np.where(traced.turn == PLAIN, UNSURE, traced.turn), *_parts(traced)[1:]) if unsure else traced

    def _joined(self, node: Meeting, shape: tuple[int, ...], depth: int) -> Traced:
        parts = []
        for operand in node.operands:
            size = () if operand is None else _shape(operand)
            traced = None if operand is None else self.trace(operand, depth + 1)
            # constants fill in, as zeros of a cache do
            parts.append(traced or _all(size, GIVEN))
        axis = node.attributes.get("axis", 0)
        if not isinstance(axis, int) or any(part.turn.ndim != len(shape) for part in parts):
            return _all(shape, UNSURE)
        return Traced(*(np.concatenate(arrays, axis) for arrays in zip(*map(_parts, parts), strict=True)))

    def _written(self, node: Meeting, shape: tuple[int, ...], depth: int) -> Traced:
        """Return the origin of rows that are written into a cache, feature by feature."""
        place = 1 if node.op_type == "TensorScatter" else 2
        update = node.operands[place] if len(node.operands) > place else None
        traced = None if update is None else self.trace(update, depth + 1)
        base = None if node.operands[0] is None else self.trace(node.operands[0], depth + 1)
        if node.op_type == "ScatterND" and traced is not None and self._is_filled(node.operands[0]):
            put = _put(node, base or _all(shape, GIVEN), traced)
            if put is not None:
                return put
        if traced is None or base is None or not traced.turn.size:
            return _all(shape, UNSURE)
        if traced.turn.shape[-1:] != shape[-1:]:
            # features that were turned are put back beside those that pass
            kept = np.where(base.turn == PLAIN, UNSURE, base.turn)
            return Traced(kept, base.place, base.output)
        # which token an element is is not known: its features are
        row = traced.turn.reshape(-1, shape[-1])[0]
        return Traced(np.broadcast_to(row, shape), np.full(shape, -1), np.zeros(shape, np.int64))

    def _is_filled(self, operand: Operand | None) -> bool:
        """Return whether a tensor is made here, of what is put into it: it is no cache that comes in."""
        for _ in range(DEEPEST):
            if operand is None or not is_data(operand.value):
                return operand is not None
            node = self.flow.maker(operand.tensor)
            if node is None or node.op_type not in FILLED:
                return False
            operand = node.operands[0]
        return False


def _put(node: Meeting, base: Traced, updates: Traced) -> Traced | None:
    """Return the origin of elements of which some are put at known places; None where nobody knows the places."""
    indices = numbers_of(node.operands[1].value) if node.operands[1] is not None else None
    if indices is None or not indices.ndim or indices.shape[-1] > base.turn.ndim:
        return None
    places = tuple(np.moveaxis(indices.astype(np.int64), -1, 0))
    if updates.turn.shape != (*indices.shape[:-1], *base.turn.shape[len(places) :]):
        return None
    parts = [part.copy() for part in _parts(base)]
    for part, new in zip(parts, _parts(updates), strict=True):
        part[places] = new
    return Traced(*parts)


def _parts(traced: Traced) -> tuple[Places, Places, Places]:
    return traced.turn, traced.place, traced.output


def _all(shape: tuple[int, ...], turn: int) -> Traced:
    return Traced(np.full(shape, turn), np.zeros(shape, np.int64), np.zeros(shape, np.int64))


def _shape(operand: Operand) -> tuple[int, ...]:
    value = operand.value
    if isinstance(value, Position):
        return value.array.shape
    return value.shape if isinstance(value, Data | Constant) else ()


def _may_be_angles(operand: Operand) -> bool:
    """Return whether an operand may hold numbers of positions: several tokens, and no mask."""
    value = operand.value
    if isinstance(value, Position):
        return is_float(value) and value.array.size > 2 and not is_mask(value.array)
    return isinstance(value, Constant) and is_float(value) and sum(size > 1 for size in value.shape) > 1


def _operator_numbers(flow: Flow, node: Meeting, shape: tuple[int, ...]) -> tuple[Floats, Floats] | None:
    """Return the cosines and sines of each element that a RotaryEmbedding turns; None where they are not known."""
    operator = tabled_operator(flow, node)
    if operator is None or len(shape) not in (3, 4):
        return None
    head, width = int(str(operator.parameters["head_dim"])), int(str(operator.parameters["rotary_dim"]))
    tokens = shape[2] if len(shape) == 4 else shape[1]
    ids = _ids(operator.ids, tokens)
    if operator.ids is not None and ids is None:
        return None
    rows = np.arange(tokens) if ids is None else ids
    if rows.max(initial=0) >= len(operator.rows) or not head or shape[-1] % head or width > head:
        return None
    pairs = width // 2
    cosine = np.asarray(operator.rows.cosine, np.float64)[rows][:, :pairs]
    sine = np.asarray(operator.rows.sine, np.float64)[rows][:, :pairs]
    if cosine.shape[1] != pairs:
        return None
    full_cosine, full_sine = np.ones((tokens, head)), np.zeros((tokens, head))
    neighbours = operator.parameters["layout"] == "interleaved"
    first = np.arange(pairs) * 2 if neighbours else np.arange(pairs)
    second = first + (1 if neighbours else pairs)
    for columns, sign in ((first, -1), (second, 1)):
        full_cosine[:, columns], full_sine[:, columns] = cosine, sign * sine
    if len(shape) == 4:
        return tuple(np.broadcast_to(part, shape) for part in (full_cosine, full_sine))  # type: ignore[return-value]
    heads = shape[-1] // head
    cosines, sines = (np.broadcast_to(np.tile(part, (1, heads)), shape) for part in (full_cosine, full_sine))
    return cosines, sines


def _ids(operand: Operand | None, tokens: int) -> Places | None:
    """Return the positions of tokens of the first sequence, as an operator is given them."""
    if operand is None or not isinstance(operand.value, Position) or operand.value.array.dtype.kind not in "iu":
        return None
    ids = operand.value.array.astype(np.int64)
    if ids.size == 1 and tokens != 1:
        return np.asarray(int(ids.ravel()[0]) + np.arange(tokens), np.int64)
    return ids.reshape(-1, ids.shape[-1])[0] if ids.ndim and ids.shape[-1] == tokens else None


def _account(tracer: Tracer, place: int) -> Account:
    node = tracer.flow.run.nodes[place]
    if node.op_type in WHOLE:
        return _whole(tracer, place, node)
    products = list(_score_products(tracer.flow, node))
    values = _values_of(tracer.flow, node)
    names: list[list[str]] = [[], [], []]
    faults: list[AttentionFault] = []
    unsure: list[AttentionFault] = []
    for product in products:
        left, right = product.operands[:2]
        if left is None or right is None:
            continue
        axes = _token_axes(product)
        query, key = _side(tracer, left, axes[0]), _side(tracer, right, axes[1])
        _judge(tracer, (query, key), faults, unsure)
        names[0] += _nodes(tracer, query)
        names[1] += _nodes(tracer, key)
    if values is not None:
        side = _side(tracer, values, _value_axis(tracer.flow, values))
        names[2] += _nodes(tracer, side)
        _judge_values(tracer, side, faults)
    return _accounted(place, names, faults, unsure)


def _token_axes(product: Meeting) -> tuple[int, int]:
    """Return the axes of tokens of two sides of a product, counted from the last."""
    terms = _terms(product)
    if terms is not None:
        first, second, result = terms
        # queries are no sum over tokens: each side has a letter that the result has, and the other side has not
        alone = [
            [letter for letter in own if letter in result and letter not in other]
            for own, other in ((first, second), (second, first))
        ]
        if len(alone[0]) == len(alone[1]) == 1:
            return first.index(alone[0][0]) - len(first), second.index(alone[1][0]) - len(second)
    left = -1 if product.attributes.get("transA") else -2
    return left, -2 if product.attributes.get("transB") else -1


def _value_axis(flow: Flow, values: Operand) -> int:
    """Return the axis of tokens of values, counted from the last: an Einsum sums over it."""
    for node in flow.takers.get(values.tensor, []):
        terms = _terms(node)
        names = [operand.tensor if operand is not None else "" for operand in node.operands[:2]]
        if terms is None or values.tensor not in names or names[0] == names[1]:
            continue
        own = terms[names.index(values.tensor)]
        summed = [letter for letter in own if letter not in terms[2]]
        if len(summed) == 1 and summed[0] in terms[1 - names.index(values.tensor)]:
            return own.index(summed[0]) - len(own)
    return -2


def _terms(node: Meeting) -> tuple[str, str, str] | None:
    """Return the letters of both sides of an Einsum and of its result; None for others, and for axes without one."""
    equation = node.attributes.get("equation")
    text = equation.decode() if isinstance(equation, bytes) else equation
    if node.op_type != "Einsum" or not isinstance(text, str) or "..." in text or "->" not in text:
        return None
    sides, result = text.replace(" ", "").split("->")
    parts = sides.split(",")
    return (parts[0], parts[1], result) if len(parts) == 2 else None


def _accounted(
    place: int, names: list[list[str]], faults: list[AttentionFault], unsure: list[AttentionFault]
) -> Account:
    sides = [tuple(dict.fromkeys(nodes)) for nodes in names]
    return Account(place, sides[0], sides[1], sides[2], tuple(dict.fromkeys(faults)), tuple(dict.fromkeys(unsure)))


def _whole(tracer: Tracer, place: int, node: Meeting) -> Account:
    """Return the account of an operator that is an attention, and that may turn queries and keys itself."""
    places = SIDES.get(node.op_type)
    is_joint = node.op_type == "Attention" and node.domain not in ("", "ai.onnx")
    if places is None or is_joint:
        return Account(place, (), (), ())
    operands = [node.operands[i] if i < len(node.operands) else None for i in places]
    names: list[list[str]] = [[], [], []]
    faults: list[AttentionFault] = []
    unsure: list[AttentionFault] = []
    sides = [None if o is None else _side(tracer, o, 2 if len(_shape(o)) == 4 else 1) for o in operands]
    packed = operands[1] is None
    turns_itself = _turns_itself(node)
    query, key, value = sides
    if query is not None and key is not None and not packed:
        _judge(tracer, (query, key), faults, unsure)
    for side, found, words in zip(sides, names, ("queries", "keys", "values"), strict=True):
        if side is None or packed:
            continue
        found.extend(_nodes(tracer, side))
        if turns_itself and side.turns and words != "values":
            faults.append(
                AttentionFault(found[0], f"{words} are turned twice: there, and by the operator of the attention")
            )
    if value is not None:
        _judge_values(tracer, value, faults)
    if turns_itself:
        names[0].append(node.node)
        names[1].append(node.node)
    return _accounted(place, names, faults, unsure)


def _turns_itself(node: Meeting) -> bool:
    return node.op_type in WHOLE and bool(node.attributes.get("do_rotary"))


def _score_products(flow: Flow, softmax: Meeting) -> Iterator[Meeting]:
    """Yield the products of two tensors of data whose sums are the scores that a Softmax takes."""
    waiting = [o.tensor for o in softmax.operands[:1] if o is not None]
    seen = set(waiting)
    while waiting:
        node = flow.maker(waiting.pop())
        if node is None or node.op_type in WHOLE or node.op_type in SOFTMAX:
            continue
        if node.op_type in PRODUCTS:
            pair = node.operands[:2]
            if len(pair) == 2 and all(o is not None and is_data(o.value) and len(_shape(o)) > 1 for o in pair):
                yield node
            continue
        if len(seen) > 4 * DEEPEST:
            return
        fresh = [o.tensor for o in node.operands if o is not None and is_data(o.value) and o.tensor not in seen]
        seen.update(fresh)
        waiting += fresh


def _values_of(flow: Flow, softmax: Meeting) -> Operand | None:
    """Return what the weights of an attention are multiplied with; None where that is not found."""
    waiting, seen = list(softmax.outputs[:1]), set(softmax.outputs)
    while waiting:
        tensor = waiting.pop(0)
        for node in flow.takers.get(tensor, []):
            if node.op_type in PRODUCTS:
                pair = [o for o in node.operands[:2] if o is not None]
                others = [o for o in pair if o.tensor != tensor and is_data(o.value)]
                return others[0] if len(pair) == 2 and others else None
            if len(seen) > 2 * DEEPEST or node.op_type in WHOLE or node.op_type in SOFTMAX:
                return None
            fresh = [name for name in node.outputs if name and name not in seen]
            seen.update(fresh)
            waiting += fresh
    return None


def _side(tracer: Tracer, operand: Operand, axis: int) -> Side:
    traced = tracer.trace(operand)
    if traced is None:
        return Side((), (), None, axis)
    turns = tuple(int(turn) for turn in np.unique(traced.turn) if turn >= 0)
    again = []
    for turn in turns:
        entry = tracer.turns[turn]
        value = tracer.flow.run.values.get(entry.source)
        before = None if value is None else tracer.trace(Operand(entry.source, value))
        if before is not None and before.turn.size and np.any(before.turn.ravel()[entry.places] >= 0):
            again.append(turn)
    return Side(turns, tuple(again), traced, axis)


def _nodes(tracer: Tracer, side: Side) -> list[str]:
    return [tracer.turns[turn].node for turn in side.turns]


def _judge_values(tracer: Tracer, side: Side, faults: list[AttentionFault]) -> None:
    if side.turns:
        faults.append(AttentionFault(tracer.turns[side.turns[0]].node, VALUES_TURNED))


def _judge(
    tracer: Tracer, sides: tuple[Side, Side], faults: list[AttentionFault], unsure: list[AttentionFault]
) -> None:
    """Find what is wrong with the two sides of a product of queries and keys."""
    for side, words in zip(sides, ("queries", "keys"), strict=True):
        for turn in side.again:
            faults.append(AttentionFault(tracer.turns[turn].node, f"{words} are turned twice"))
        for turn in side.turns:
            if tracer.turns[turn].fault:
                faults.append(AttentionFault(tracer.turns[turn].node, f"{words}: {tracer.turns[turn].fault}"))
        if side.traced is not None and side.turns and _is_still(tracer, side):
            node = tracer.turns[side.turns[0]].node
            alike = f"{words} are turned alike at every token: angles go along an axis that is not that of tokens"
            faults.append(AttentionFault(node, alike))
    query, key = (_by_feature(tracer, side) for side in sides)
    if faults or query is None or key is None or not (sides[0].turns or sides[1].turns):
        return
    fault, doubt = _unlike(tracer, sides, (query, key))
    faults += fault
    unsure += doubt


def _is_still(tracer: Tracer, side: Side) -> bool:
    """Return whether elements are turned by angles that differ, but not from token to token."""
    assert side.traced is not None
    if side.traced.turn.shape[side.axis] < 2 or not np.all(side.traced.place[side.traced.turn >= 0] >= 0):
        return False
    cosine, sine = tracer.numbers(side.traced)
    numbers = np.stack([cosine, sine])
    if np.isnan(numbers).all():
        return False
    axis = side.axis if side.axis < 0 else side.axis + 1
    along = _spread(numbers, axis)
    # angles of heads differ, or of anything else: without a difference nothing is turned, which is said elsewhere
    features = -1 if side.axis != -1 else -2
    others = [a for a in range(1, numbers.ndim) if a not in (axis % numbers.ndim, features % numbers.ndim)]
    return along < UNLIKE and any(_spread(numbers, a) > UNLIKE for a in others)


def _spread(numbers: Floats, axis: int) -> float:
    """Return by how much numbers differ along an axis, at most."""
    filled = np.where(np.isnan(numbers), -np.inf, numbers).max(axis=axis)
    least = np.where(np.isnan(numbers), np.inf, numbers).min(axis=axis)
    with np.errstate(invalid="ignore"):
        apart = filled - least
    return float(np.where(np.isfinite(apart), apart, 0).max(initial=0))


@dataclass(frozen=True)
class HeadTurns:
    """A head of queries or of keys.

    Args:
        turn: (tokens, features): the rotation that each element comes from, or what it is without one.
        cosine: by what it was turned; NaN where nobody knows.
        sine: the same.
    """

    turn: Places
    cosine: Floats
    sine: Floats


def _by_feature(tracer: Tracer, side: Side) -> HeadTurns | None:
    """Return the first head of a side, (tokens, features)."""
    if side.traced is None or side.traced.turn.ndim < 2 or not side.traced.turn.size:
        return None
    cosine, sine = tracer.numbers(side.traced)
    unknown = side.traced.place < 0
    arrays = [side.traced.turn, np.where(unknown, np.nan, cosine), np.where(unknown, np.nan, sine)]
    if side.axis > 0:
        # operators have heads before tokens, or side by side
        heads = [array.reshape(-1, *array.shape[-2:])[0] for array in arrays]
    else:
        if side.axis < -2:
            arrays = [np.moveaxis(array, side.axis, -2) for array in arrays]
        heads = [array.reshape(-1, *array.shape[-2:])[0] for array in arrays]
        heads = [array.T for array in heads] if side.axis == -1 else heads
    return HeadTurns(heads[0].astype(np.int64), heads[1], heads[2])


def _unlike(
    tracer: Tracer, sides: tuple[Side, Side], rows: tuple[HeadTurns, HeadTurns]
) -> tuple[list[AttentionFault], list[AttentionFault]]:
    """Return how queries and keys are turned differently, in words, and what is not known of that."""
    query, key = rows
    width = min(query.turn.shape[1], key.turn.shape[1])
    # heads side by side: those that keys have are compared
    states = [_states(part.turn[:, :width]) for part in rows]
    for first, second, words, others in ((0, 1, "queries", "keys"), (1, 0, "keys", "queries")):
        alone = (states[first] == "turned") & (states[second] == "plain")
        if alone.any():
            some = "" if (states[second] != "turned").all() else f" in {int(alone.sum())} of {width} features"
            return [
                AttentionFault(
                    tracer.turns[sides[first].turns[0]].node, f"{words} are turned, and {others} are not{some}"
                )
            ], []
        if ((states[first] == "turned") & (states[second] == "unsure")).any() and not sides[second].turns:
            node = tracer.turns[sides[first].turns[0]].node
            return [], [AttentionFault(node, f"{words} are turned, and whether {others} are is not judged")]
    if query.turn.shape[0] != key.turn.shape[0]:
        return [], []
    cosines, sines = ([getattr(part, name)[:, :width] for part in rows] for name in ("cosine", "sine"))
    apart = np.fmax(np.abs(cosines[0] - cosines[1]), np.abs(sines[0] - sines[1]))
    if np.isnan(apart).all() or float(np.nanmax(apart)) < UNLIKE:
        return [], []
    node = tracer.turns[sides[1].turns[0]].node
    return [AttentionFault(node, f"keys are turned by other angles than queries{_words(rows, width)}")], []


def _states(turn: Places) -> NDArray[np.str_]:
    """Return of each feature whether it is turned at any token, plain at all of them, or neither is known."""
    turned, plain = (turn >= 0).any(0), (turn == PLAIN).all(0)
    return np.where(turned, "turned", np.where(plain, "plain", "unsure"))


def _words(rows: tuple[HeadTurns, HeadTurns], width: int) -> str:
    """Return in words how far apart the positions of both sides are, where all angles say one number."""
    query, key = ((part.cosine + 1j * part.sine)[:, :width] for part in rows)
    for shift in (1, 2, -1, -2, 3, -3):
        ahead, behind = (key, query) if shift > 0 else (query, key)
        count = abs(shift)
        apart = np.abs(ahead[:-count] - behind[count:])
        if not np.isnan(apart).all() and float(np.nanmax(apart)) < UNLIKE:
            return f": keys are {count} position{'s' * (count > 1)} {'further on' if shift > 0 else 'behind'}"
    mirrored = np.abs(query - np.conj(key))
    if not np.isnan(mirrored).all() and float(np.nanmax(mirrored)) < UNLIKE:
        return ": in the other direction"
    return ""
