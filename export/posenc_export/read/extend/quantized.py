"""Quantised tables become tables of floats: the nodes that dequantised them pass these on as they are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import helper

from posenc_export.common.errors import BadInput
from posenc_export.read.extend.held import Array
from posenc_export.read.extend.model import Model, graphs_of
from posenc_export.read.graph import Node
from posenc_export.read.graph.functions import own_domain
from posenc_export.read.kernels import MOVES, compute


def dequantize(model: Model, name: str) -> Array:
    """Put floats in the place of a quantised table in a model, and return them.

    More rows of 8 bits would be off by a half of a step of 8 bits; rows of floats are not, and scales of rows are not
    needed for them.

    Raises BadInput, in one line, where the table is used in another way than through DequantizeLinear.
    """
    table = model.array(name)
    moved = [name]
    nodes: list[onnx.NodeProto] = []
    for node, tensor in _uses(model, moved):
        if node.op_type == "DequantizeLinear":
            nodes.append(node)
        elif node.op_type in MOVES and node.op_type != "Concat" and node.input[0] == tensor:
            moved.extend(node.output)
        else:
            raise _refused(name, table, f"{node.op_type} takes it as it is stored")
    arrays = [_floats(model, node, table, is_direct=node.input[0] == name) for node in nodes]
    if not arrays:
        raise _refused(name, table, "nothing dequantises it")
    if any(not np.array_equal(arrays[0], other) for other in arrays[1:]):
        raise _refused(name, table, "nodes dequantise it by unlike scales")
    unused = {operand for node in nodes for operand in node.input[1:]}
    for node in nodes:
        node.op_type, node.domain = "Identity", ""
        del node.input[1:], node.attribute[:]
    model.replace(name, arrays[0])
    _forget(model, set(moved[1:]), unused)
    return arrays[0]


def _uses(model: Model, names: list[str]) -> Iterator[tuple[onnx.NodeProto, str]]:
    """Yield the nodes that take tensors, and which one; the list may grow meanwhile."""
    for name in names:
        for graph in graphs_of(model.proto.graph):
            yield from ((node, name) for node in graph.node if name in node.input)


def _floats(model: Model, node: onnx.NodeProto, table: Array, is_direct: bool) -> Array:
    """Return what a node that dequantises makes of a whole table."""
    operands = [model.array(operand) if operand else None for operand in node.input[1:]]
    attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
    if not is_direct and any(operand is not None and operand.size > 1 for operand in operands):
        raise _refused(node.input[0], table, "scales of its rows or columns are applied to what was looked up")
    made = Node(node.name, node.op_type, node.domain, tuple(node.input), tuple(node.output), attributes, node)
    opsets = {own_domain(entry.domain): entry.version for entry in model.proto.opset_import}
    return compute(made, opsets, [table, *operands])[0]


def _refused(name: str, table: Array, why: str) -> BadInput:
    return BadInput(
        f"{name} is a table stored as {table.dtype.name}, and {why}: extend the file before it is quantised"
    )


def _forget(model: Model, moved: set[str], unused: set[str]) -> None:
    """Leave out what a model says of values that were integers, and scales that nothing takes any more."""
    graphs = list(graphs_of(model.proto.graph))
    used = {operand for graph in graphs for node in graph.node for operand in node.input}
    public = {entry.name for graph in graphs for entry in (*graph.input, *graph.output)}
    for graph in graphs:
        for value in [value for value in graph.value_info if value.name in moved]:
            graph.value_info.remove(value)
        for tensor in [tensor for tensor in graph.initializer if tensor.name in unused - used - public]:
            graph.initializer.remove(tensor)
