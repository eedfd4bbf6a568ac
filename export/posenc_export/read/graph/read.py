"""A file read into a Graph: functions in place, nodes in order, constants closed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx

from posenc_export.common.errors import bad_input
from posenc_export.read.graph import Graph, Input, Node
from posenc_export.read.graph.attributes import attributes, graphs
from posenc_export.read.graph.external import is_file
from posenc_export.read.graph.file import load
from posenc_export.read.graph.functions import NamedNode, check_count, expanded, own_domain
from posenc_export.read.graph.order import check_made, ordered
from posenc_export.read.graph.store import LIMIT, Store
from posenc_export.read.graph.tensors import constant, dtype_of, sparse_constant
from posenc_export.read.graph.texts import check_texts
from posenc_export.read.values import Array, Constant

CONSTANTS: dict[str, type] = {
    "value": object,
    "sparse_value": object,
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_string": object,
    "value_strings": object,
}
"""Attributes in which a Constant node may have its value, and the element type of numbers there."""
MOST_INPUTS = 4096
"""Inputs of a graph: a model of a hundred layers takes two hundred of a cache."""


def read_graph(path: str | Path, limit: int = LIMIT) -> Graph:
    """Return the graph of an ONNX file; BadInput says in one line which file it is, and what is wrong with it."""
    with bad_input(f"{path}: "):
        return graph_in(Path(path), limit)


def graph_in(path: Path, limit: int = LIMIT, files: Mapping[str, Path] | None = None) -> Graph:
    """Return the graph of an ONNX file; ValueError says in one line what is wrong, to whoever knows the file's name.

    Args:
        path: the file. External data beside it are read when constants are.
        limit: bytes that a constant may take in memory when it is read.
        files: where external data lie that are not beside the file, by the names that it has for them.
    """
    model, store = load(path, limit, files)
    check_count(model)
    check_texts(model)
    nodes = expanded(model)
    graph = _graph(model.graph, nodes, _opsets(model), store)
    check_made(nodes, graph.outputs, [*graph.constants, *(item.name for item in graph.inputs)])
    _check_ranks(model.graph, {item.name for item in graph.inputs})
    return graph


def inner_graph(proto: onnx.GraphProto, outer: Graph) -> Graph:
    """Return a graph inside a node of another one; what it takes from around it is not among its inputs.

    Args:
        proto: the value of the node's attribute.
        outer: the graph that the node is in.
    """
    prefix = proto.name or "graph"
    nodes = [NamedNode(node.name or f"{prefix}/{node.op_type}#{place}", node) for place, node in enumerate(proto.node)]
    return _graph(proto, nodes, dict(outer.opsets), outer.store or Store(outer.path))


def _graph(proto: onnx.GraphProto, nodes: list[NamedNode], opsets: dict[str, int], store: Store) -> Graph:
    constants = _initializers(proto, store)
    inputs = tuple(_input(item) for item in proto.input if item.name not in constants)
    names = _names(inputs)
    # a Constant node stores a tensor, as initializers do
    flat = []
    for node in ordered(nodes, [*constants, *names]):
        read = _node(node, store)
        if read.op_type == "Constant" and not read.domain:
            constants[read.outputs[0]] = _constant(read)
        else:
            flat.append(read)
    outputs = tuple(output.name for output in proto.output)
    missing = tuple(sorted(name for name, file in store.files.items() if not is_file(file)))
    return Graph(store.path, inputs, outputs, tuple(flat), constants, opsets, missing, store)


def _names(inputs: tuple[Input, ...]) -> list[str]:
    names = [item.name for item in inputs]
    if len(names) > MOST_INPUTS:
        raise ValueError(f"has {len(names)} inputs, above the limit of {MOST_INPUTS}: the file is damaged")
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise ValueError(f"has two inputs of a name, {twice!r}: the file is damaged")
    return names


def _check_ranks(proto: onnx.GraphProto, names: set[str]) -> None:
    # graphs inside get their inputs from around them, and say their shapes rarely; those of the file come from nowhere
    for item in proto.input:
        kind = item.type.tensor_type
        if item.name in names and item.type.HasField("tensor_type") and not kind.HasField("shape"):
            raise ValueError(
                f"has an input {item.name!r} without a number of axes: give it a shape, of names if need be"
            )


def _opsets(model: onnx.ModelProto) -> dict[str, int]:
    # a function's own version of a domain holds where the model has none: both must mean the same by the standard
    inside = (entry for function in model.functions for entry in function.opset_import)
    opsets = {own_domain(entry.domain): entry.version for entry in inside}
    return opsets | {own_domain(entry.domain): entry.version for entry in model.opset_import}


def _initializers(proto: onnx.GraphProto, store: Store) -> dict[str, Constant]:
    constants: dict[str, Constant] = {}
    dense = ((tensor.name, constant(tensor, tensor.name, store)) for tensor in proto.initializer)
    sparse = ((item.values.name, sparse_constant(item, item.values.name, store)) for item in proto.sparse_initializer)
    for name, value in (*dense, *sparse):
        if name in constants:
            raise ValueError(f"stores tensor {name!r} twice: the file is damaged")
        constants[name] = value
    return constants


def _input(proto: onnx.ValueInfoProto) -> Input:
    kind = proto.type.tensor_type
    dims = kind.shape.dim if kind.HasField("shape") else ()
    return Input(proto.name, tuple(_size(dim) for dim in dims), dtype_of(kind.elem_type))


def _size(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    if dim.HasField("dim_value"):
        # some exporters write -1 for a dynamic size
        return dim.dim_value if dim.dim_value >= 0 else None
    # an exporter of transformers writes fixed sizes as names
    return int(dim.dim_param) if re.fullmatch("[0-9]{1,9}", dim.dim_param) else dim.dim_param or None


def _node(node: NamedNode, store: Store) -> Node:
    proto, name = node.proto, node.name
    values = attributes(proto, name, store)
    for graph in graphs(proto):
        _check_inside(graph, store)
    domain = own_domain(proto.domain)
    return Node(name, proto.op_type, domain, tuple(proto.input), tuple(proto.output), values, proto)


def _check_inside(graph: onnx.GraphProto, store: Store) -> None:
    # a tensor of a graph inside may be missing, or lie where none may, as any other
    _initializers(graph, store)
    for node in graph.node:
        attributes(node, node.name, store)
        for inside in graphs(node):
            _check_inside(inside, store)


def _constant(node: Node) -> Constant:
    values = [(name, value) for name, value in node.attributes.items() if name in CONSTANTS]
    if len(values) != 1 or len(node.outputs) != 1 or not node.outputs[0]:
        raise ValueError(f"node {node.name!r} is a Constant without one value or one output: the file is damaged")
    (name, value), stored = values[0], frozenset(node.outputs)
    if isinstance(value, Constant):
        return Constant(value.shape, value.dtype, value.load, stored)
    array: Array = np.asarray(value, CONSTANTS[name])
    return Constant(array.shape, array.dtype, lambda: array, stored)
