"""What can be made wrong in an ONNX file, one thing at a time: a row, an element, a constant, an operator."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Literal

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from posenc.ports import Array

Kind = Literal["rows and elements", "operators", "constants and attributes"]
KINDS: tuple[Kind, ...] = ("rows and elements", "operators", "constants and attributes")
FEW = 16
"""Integers up to so many are constants: shapes, axes, ends."""
ALIKE: tuple[tuple[str, ...], ...] = (
    ("Add", "Sub", "Mul", "Div", "Min", "Max", "Mod"),
    ("Sin", "Cos"),
    ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"),
    ("And", "Or", "Xor"),
    ("Floor", "Ceil", "Round"),
    ("Abs", "Neg", "Sign"),
    ("Exp", "Log", "Sqrt", "Tanh"),
    ("Relu", "Sigmoid"),
    ("ReduceMax", "ReduceMin", "ReduceSum"),
)
"""Operators of one signature, each of which can stand for another."""
COMMUTES = {"Add", "Mul", "Min", "Max", "Equal", "And", "Or", "Xor"}
"""Operators of which exchanged inputs are nothing wrong."""
DEFAULTS: Mapping[str, Mapping[str, int]] = {
    "Gather": {"axis": 0},
    "GatherElements": {"axis": 0},
    "Split": {"axis": 0},
    "CumSum": {"exclusive": 0, "reverse": 0},
    "Reshape": {"allowzero": 0},
    "Mod": {"fmod": 0},
    "Shape": {"start": 0},
    "ReduceMax": {"keepdims": 1},
    "ReduceMin": {"keepdims": 1},
    "ReduceSum": {"keepdims": 1},
    "Softmax": {"axis": -1},
}
"""Attributes that files leave out, with what they are then."""
CHOICES: Mapping[str, tuple[str, ...]] = {
    "direction": ("LEFT", "RIGHT"),
    "mode": ("nearest", "linear", "cubic", "constant", "reflect", "edge", "wrap"),
    "coordinate_transformation_mode": ("half_pixel", "asymmetric", "align_corners"),
    "nearest_mode": ("round_prefer_floor", "floor", "ceil"),
    "reduction": ("none", "add", "mul"),
}
FLAGS = {"keepdims", "exclusive", "reverse", "allowzero", "fmod", "noop_with_empty_axes", "antialias"}
DTYPES = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL)


@dataclass(frozen=True)
class Mutation:
    """One thing that was made wrong.

    what: "row zeroed", "operator", ... name: of the tensor, or of the node's first output. op: of the node. before,
    after: the operator, the attribute or the number.
    """

    kind: Kind
    what: str
    name: str
    op: str = ""
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        changed = f": {self.before} -> {self.after}" if self.before else ""
        return f"{self.what} of {self.op + ' ' if self.op else ''}{self.name}{changed}"


@dataclass(frozen=True)
class Mutant:
    """A file that is wrong in one thing, and what that is."""

    mutation: Mutation
    model: ModelProto


Site = Callable[[ModelProto, np.random.Generator], "Mutation | None"]
"""Makes a thing wrong in a model; None where that would change nothing."""


def mutants(model: ModelProto, seed: Sequence[int], kinds: Sequence[Kind] = KINDS) -> Iterator[Mutant]:
    """Yield mutants by turns of the kinds, each another, until a thousand draws brought nothing new."""
    rng = np.random.default_rng(list(seed))
    sites = {kind: list(SITES[kind](model)) for kind in kinds}
    seen = {_digest(model)}
    for turn in range(1000):
        of_kind = sites[kinds[turn % len(kinds)]] or list(chain(*sites.values()))
        changed = ModelProto()
        changed.CopyFrom(model)
        mutation = of_kind[rng.integers(len(of_kind))](changed, rng)
        if mutation and (digest := _digest(changed)) not in seen:
            seen.add(digest)
            yield Mutant(mutation, changed)


def _digest(model: ModelProto) -> str:
    return hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest()


@dataclass(frozen=True)
class Place:
    """Where a stored tensor is: an initializer, or the value of a Constant node."""

    index: int
    of_node: bool

    def proto(self, model: ModelProto) -> TensorProto:
        """Return the tensor itself."""
        if not self.of_node:
            return model.graph.initializer[self.index]
        return next(a for a in model.graph.node[self.index].attribute if a.name == "value").t

    def name(self, model: ModelProto) -> str:
        """Return the name by which nodes read it."""
        if not self.of_node:
            return model.graph.initializer[self.index].name
        return model.graph.node[self.index].output[0]

    def array(self, model: ModelProto) -> Array:
        """Return what it holds, to be changed."""
        return np.array(numpy_helper.to_array(self.proto(model)))

    def put(self, model: ModelProto, array: Array) -> None:
        """Store other numbers."""
        self.proto(model).CopyFrom(numpy_helper.from_array(array, self.proto(model).name))


def places(model: ModelProto) -> list[Place]:
    """Return where tensors are stored."""
    constants = [
        Place(i, True)
        for i, node in enumerate(model.graph.node)
        if node.op_type == "Constant" and any(a.name == "value" for a in node.attribute)
    ]
    return [*(Place(i, False) for i in range(len(model.graph.initializer))), *constants]


def is_table(array: Array) -> bool:
    """Return whether a tensor holds rows or elements, and is no constant of one number, or shape."""
    return array.size > (1 if array.dtype.kind == "f" else FEW)


def _rows(model: ModelProto) -> Iterator[Site]:
    for place in places(model):
        if is_table(place.array(model)):
            yield from (partial(_changed, place, what, change) for what, change in OF_TABLES.items())


def _constants(model: ModelProto) -> Iterator[Site]:
    for place in places(model):
        array = place.array(model)
        if array.size and not is_table(array):
            yield from (partial(_changed, place, what, change) for what, change in OF_CONSTANTS.items())


Change = Callable[[Array, np.random.Generator], str]
"""Changes an array in place; returns where and what, as "row 5"."""


def _changed(place: Place, what: str, change: Change, model: ModelProto, rng: np.random.Generator) -> Mutation | None:
    array = place.array(model)
    before = array.copy()
    where = change(array, rng)
    if array.tobytes() == before.tobytes():
        return None
    place.put(model, array)
    kind: Kind = "rows and elements" if is_table(array) else "constants and attributes"
    few = array.size <= FEW
    was, now = (str(before.tolist()), str(array.tolist())) if few else ("", "")
    return Mutation(kind, what, f"{place.name(model)}{where}", "", was, now)


def _zeroed(array: Array, rng: np.random.Generator) -> str:
    row = int(rng.integers(array.shape[0]))
    array[row] = 0
    return f"[{row}]"


def _swapped(array: Array, rng: np.random.Generator) -> str:
    one, other = (int(n) for n in rng.integers(array.shape[0], size=2))
    array[[one, other]] = array[[other, one]]
    return f"[{one}, {other}]"


def _moved(array: Array, rng: np.random.Generator) -> str:
    index = np.unravel_index(int(rng.integers(array.size)), array.shape)
    number = array[index]
    if array.dtype.kind == "f":
        array[index] = number * array.dtype.type(1.01) if number else array.dtype.type(0.01)
    else:
        array[index] = number + 1
    return str([int(i) for i in index])


def _negated(array: Array, rng: np.random.Generator) -> str:
    index = int(rng.integers(array.size))
    array.flat[index] = ~array.flat[index] if array.dtype.kind == "b" else -array.flat[index]
    return ""


def _one_more(array: Array, rng: np.random.Generator) -> str:
    index = int(rng.integers(array.size))
    number = array.flat[index]
    largest = array.dtype.kind in "iu" and number == np.iinfo(array.dtype).max
    array.flat[index] = ~number if array.dtype.kind == "b" else number - 1 if largest else number + 1
    return ""


OF_TABLES: Mapping[str, Change] = {"row zeroed": _zeroed, "rows swapped": _swapped, "element moved": _moved}
OF_CONSTANTS: Mapping[str, Change] = {"constant negated": _negated, "constant one more": _one_more}


def _operators(model: ModelProto) -> Iterator[Site]:
    for i, node in enumerate(model.graph.node):
        alike = next((group for group in ALIKE if node.op_type in group), ())
        yield from (partial(_operator, i, other) for other in alike if other != node.op_type)
        if len(node.input) > 1 and node.op_type not in COMMUTES:
            yield partial(_exchanged, i)
        if node.op_type != "Constant" and len(node.input):
            yield partial(_taken_out, i)


def _of_node(node: NodeProto, what: str, before: str = "", after: str = "", kind: Kind = "operators") -> Mutation:
    return Mutation(kind, what, node.output[0], node.op_type, before, after)


def _operator(index: int, other: str, model: ModelProto, rng: np.random.Generator) -> Mutation:
    node = model.graph.node[index]
    mutation = _of_node(node, "operator", node.op_type, other)
    node.op_type = other
    kept = [a for a in node.attribute if a.name in DEFAULTS.get(other, {})]
    del node.attribute[:]
    node.attribute.extend(kept)
    return mutation


def _exchanged(index: int, model: ModelProto, rng: np.random.Generator) -> Mutation | None:
    node = model.graph.node[index]
    one, other = (int(n) for n in rng.choice(len(node.input), 2, replace=False))
    if node.input[one] == node.input[other]:
        return None
    node.input[one], node.input[other] = node.input[other], node.input[one]
    return _of_node(node, "inputs exchanged", node.input[other], node.input[one])


def _taken_out(index: int, model: ModelProto, rng: np.random.Generator) -> Mutation | None:
    """Have a node's input pass: a Cast, a guard (a Split or a Reshape that refuses unlike lengths), anything."""
    node = model.graph.node[index]
    mutation = _of_node(node, "taken out")
    passing = helper.make_node("Identity", [node.input[0]], [node.output[0]], name=node.name)
    node.CopyFrom(passing)
    return mutation


def _attributes(model: ModelProto) -> Iterator[Site]:
    for i, node in enumerate(model.graph.node):
        names = [a.name for a in node.attribute if a.type in CHANGES]
        names = [name for name in names if not (node.op_type == "Constant" and name == "value")]
        left_out = [name for name in DEFAULTS.get(node.op_type, {}) if name not in names]
        yield from (partial(_attribute, i, name) for name in (*names, *left_out))


def _attribute(index: int, name: str, model: ModelProto, rng: np.random.Generator) -> Mutation | None:
    node = model.graph.node[index]
    found = next((a for a in node.attribute if a.name == name), None)
    if found is None:
        found = helper.make_attribute(name, DEFAULTS[node.op_type][name])
        node.attribute.append(found)
        found = node.attribute[-1]
    before = helper.get_attribute_value(found)
    after = CHANGES[found.type](name, before, rng)
    if after == before:
        return None
    found.CopyFrom(helper.make_attribute(name, after))
    words = (f"{name}={before!r}", f"{name}={after!r}")
    return _of_node(node, "attribute", *words, kind="constants and attributes")


def _integer(name: str, number: int, rng: np.random.Generator) -> int:
    if name in FLAGS:
        return 1 - number
    if name == "to":
        return int(rng.choice(DTYPES))
    return number + int(rng.choice([-1, 1]))


def _integers(name: str, numbers: Sequence[int], rng: np.random.Generator) -> list[int]:
    changed = list(numbers)
    if len(changed) > 1 and name == "perm":
        one, other = rng.choice(len(changed), 2, replace=False)
        changed[one], changed[other] = changed[other], changed[one]
    elif changed:
        changed[rng.integers(len(changed))] += int(rng.choice([-1, 1]))
    return changed


def _number(name: str, number: float, rng: np.random.Generator) -> float:
    return float(rng.choice([-number, number + 1]))


def _text(name: str, text: bytes, rng: np.random.Generator) -> bytes:
    return str(rng.choice(CHOICES[name])).encode() if name in CHOICES else text


CHANGES: Mapping[int, Callable[..., object]] = {
    AttributeProto.INT: _integer,
    AttributeProto.INTS: _integers,
    AttributeProto.FLOAT: _number,
    AttributeProto.STRING: _text,
}
SITES: Mapping[Kind, Callable[[ModelProto], Iterator[Site]]] = {
    "rows and elements": _rows,
    "operators": _operators,
    "constants and attributes": lambda model: chain(_constants(model), _attributes(model)),
}
