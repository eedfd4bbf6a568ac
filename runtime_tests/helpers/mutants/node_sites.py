"""Nodes made wrong: operators swapped or taken out, inputs exchanged, attributes changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper

from helpers.mutants.mutation import Kind, Mutation, Site

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
COMMUTES = {"Add", "Mul", "Min", "Max", "Equal", "And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor"}
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


def operators(model: ModelProto) -> Iterator[Site]:
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


def attributes(model: ModelProto) -> Iterator[Site]:
    for i, node in enumerate(model.graph.node):
        names = [a.name for a in node.attribute if a.type in CHANGES]
        names = [name for name in names if not (node.op_type == "Constant" and name == "value")]
        left_out = [name for name in DEFAULTS.get(node.op_type, {}) if name not in names]
        yield from (partial(_attribute, i, name) for name in (*names, *left_out))


def _attribute(index: int, name: str, model: ModelProto, rng: np.random.Generator) -> Mutation | None:
    node = model.graph.node[index]
    attribute = next((a for a in node.attribute if a.name == name), None)
    if attribute is None:
        attribute = helper.make_attribute(name, DEFAULTS[node.op_type][name])
        node.attribute.append(attribute)
        attribute = node.attribute[-1]
    before = helper.get_attribute_value(attribute)
    after = CHANGES[attribute.type](name, before, rng)
    if after == before:
        return None
    attribute.CopyFrom(helper.make_attribute(name, after))
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
