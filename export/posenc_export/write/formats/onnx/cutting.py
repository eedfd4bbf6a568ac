"""Parts of an ONNX graph as graphs of their own, and graphs whose positions begin elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from posenc.ports import Array

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

COUNTS = ("Range", "CumSum")
"""Operators that count: they make positions where no input gives them."""
THROUGH = {
    *("Add", "Sub", "Mul", "Div", "Mod", "Neg", "Abs", "Clip", "Min", "Max", "Where"),
    *("Less", "Greater", "GreaterOrEqual", "Equal"),
    *("Cast", "Identity", "Unsqueeze", "Squeeze", "Reshape", "Expand", "Concat", "Transpose", "Flatten", "BitShift"),
}
"""Operators that a position goes through on its way to a look-up."""


@dataclass(frozen=True)
class Count:
    """A value of a graph that counts, and the stored tensors that are looked up by it."""

    value: str
    tables: tuple[str, ...]


def pruned(model: ModelProto, values: Sequence[str]) -> ModelProto:
    """Return the part of a graph that computes some of its values, as a graph with the same inputs."""
    import onnx

    needed, nodes = set(values), []
    # backward: whether a node is needed is known once those behind it are
    for node in reversed(model.graph.node):  # nodes come after those whose outputs they take
        if needed.intersection(node.output):
            nodes.append(node)
            needed.update(node.input)
    part = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    part.graph.name = model.graph.name
    part.graph.input.extend(model.graph.input)
    part.graph.initializer.extend(tensor for tensor in model.graph.initializer if tensor.name in needed)
    part.graph.node.extend(reversed(nodes))
    part.graph.output.extend(onnx.ValueInfoProto(name=value) for value in values)
    return part


def counts(graph: GraphProto) -> list[Count]:
    """Return the values of a graph that count positions, in order, each with the stored tensors that it looks up."""
    # ids of a rotary operator number the rows of its cache, and are not positions
    made = {node.output[0]: _made_of(graph, node.output[0]) for node in graph.node if node.op_type in COUNTS}
    ids = {name for node in graph.node if node.op_type == "RotaryEmbedding" for name in node.input}
    of_positions = {value: reached for value, reached in made.items() if not reached & ids}
    return [Count(value, _looked_up(graph, reached)) for value, reached in of_positions.items()]


def _made_of(graph: GraphProto, value: str) -> set[str]:
    """Return a value and everything that arithmetic of integers makes of it."""
    reached = {value}
    for node in graph.node:
        if node.op_type in THROUGH and reached.intersection(node.input):
            reached.update(node.output)
    return reached


def _looked_up(graph: GraphProto, indices: set[str]) -> tuple[str, ...]:
    """Return the stored tensors that are looked up by some values."""
    stored = {tensor.name for tensor in graph.initializer}
    gathers = [node for node in graph.node if node.op_type == "Gather" and node.input[1] in indices]
    return tuple(dict.fromkeys(node.input[0] for node in gathers if node.input[0] in stored))


def from_elsewhere(
    model: ModelProto, values: Sequence[str], integers: str = "int64"
) -> tuple[ModelProto, tuple[str, ...]]:
    """Return a graph that adds an input to each of some values that count, and the names of those inputs.

    Each input is (1,), of the dtype of the values; with 0 the graph gives the same as before.
    """
    import onnx

    moved = onnx.ModelProto()
    moved.CopyFrom(model)
    names = tuple(_free(moved.graph, f"start_{i}") for i, _ in enumerate(values))
    nodes: list[NodeProto] = []
    for node in moved.graph.node:
        nodes.append(node)
        for value, name in zip(values, names, strict=True):
            if node.output[0] == value:
                # count -> count_from_0, count = count_from_0 + start
                node.output[0] = _free(moved.graph, f"{value}_from_0")
                nodes.append(onnx.helper.make_node("Add", [node.output[0], name], [value]))
    del moved.graph.node[:]
    moved.graph.node.extend(nodes)
    ints = onnx.TensorProto.DataType.Value(integers.upper())
    moved.graph.input.extend(onnx.helper.make_tensor_value_info(name, ints, [1]) for name in names)
    return moved, names


def _free(graph: GraphProto, name: str) -> str:
    """Return a name that no value of a graph has."""
    taken = {value for node in graph.node for value in (*node.input, *node.output)}
    taken |= {value.name for value in (*graph.input, *graph.output, *graph.initializer)}
    return next(free for free in (f"{name}{'_' * i}" for i in range(len(taken) + 1)) if free not in taken)


def start_input(value: int, integers: str = "int64") -> Array:
    """Return the array for such an input: (1,)."""
    return np.array([value], integers)
