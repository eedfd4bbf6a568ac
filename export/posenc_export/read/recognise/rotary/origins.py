"""Where the elements of a tensor come from: the rotation that made them, or the weight, or the input.

Each element is followed back through moves, scales and norms. So features that pass, heads that share keys, caches and
packed tensors need no rule of their own.
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
from posenc_export.read.recognise.rotary.operators import tabled_operator
from posenc_export.read.recognise.rotary.rotations import Rotation, Turned, readings
from posenc_export.read.recognise.trails import numbers_of
from posenc_export.read.values import Constant, Data, Meeting, Operand, Position

Places = NDArray[np.int64]
PLAIN, GIVEN, UNSURE = -1, -2, -3
"""What an element is that no rotation made: that of a weight, of an input, or of what is not known."""
DEEPEST = 60
"""Nodes between an attention and the weight that makes what comes in, at most."""
LARGEST = 1 << 22
"""Elements of a tensor that is followed, at most."""
FILLED = ("ScatterND", "Transpose", "Reshape", "Identity", "Cast")
"""Operators between an empty tensor and what is put into it."""


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
        shape = shape_of(data)
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
        shape = shape_of(operand)
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
        parts = [part for o in data if shape_of(o) == shape and (part := self.trace(o, depth + 1)) is not None]
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
            size = () if operand is None else shape_of(operand)
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


def shape_of(operand: Operand) -> tuple[int, ...]:
    """Return the shape of what a node takes; an empty one where it has none."""
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
