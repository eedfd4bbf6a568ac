"""Attributes of nodes as Python values."""

from __future__ import annotations

from collections.abc import Callable

import onnx
from onnx import AttributeProto as Kind

from posenc_export.read.graph.store import Store
from posenc_export.read.graph.tensors import constant, sparse_constant

READERS: dict[int, Callable[[Kind], object]] = {
    Kind.FLOAT: lambda attribute: attribute.f,
    Kind.INT: lambda attribute: attribute.i,
    Kind.STRING: lambda attribute: attribute.s.decode("utf-8", "replace"),
    Kind.GRAPH: lambda attribute: attribute.g,
    Kind.TYPE_PROTO: lambda attribute: attribute.tp,
    Kind.FLOATS: lambda attribute: tuple(attribute.floats),
    Kind.INTS: lambda attribute: tuple(attribute.ints),
    Kind.STRINGS: lambda attribute: tuple(text.decode("utf-8", "replace") for text in attribute.strings),
    Kind.GRAPHS: lambda attribute: tuple(attribute.graphs),
    Kind.TYPE_PROTOS: lambda attribute: tuple(attribute.type_protos),
}
"""How an attribute of each kind is read; tensors become constants, which need to know the file."""
FIELDS = (
    ("ints", Kind.INTS), ("floats", Kind.FLOATS), ("strings", Kind.STRINGS), ("graphs", Kind.GRAPHS),
)  # fmt: skip
"""Lists that attributes without a type may fill: the type is missing in files of the first version."""
SINGLE = (("t", Kind.TENSOR), ("g", Kind.GRAPH), ("s", Kind.STRING), ("f", Kind.FLOAT), ("i", Kind.INT))
"""Fields that they may have set instead."""


def attributes(node: onnx.NodeProto, name: str, store: Store) -> dict[str, object]:
    """Return the attributes of a node: numbers, texts, tuples of them, constants for tensors, graphs as they are.

    Args:
        node: as the file has it.
        name: what the node is called in errors.
        store: where tensors are read from.
    """
    return {attribute.name: _value(attribute, f"{name}.{attribute.name}", store) for attribute in node.attribute}


def graphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """Return the graphs inside a node, as If, Loop and Scan have them."""
    return [graph for attribute in node.attribute for graph in graphs_of(attribute)]


def graphs_of(attribute: Kind) -> list[onnx.GraphProto]:
    """Return the graphs of an attribute."""
    return [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]


def _value(attribute: Kind, name: str, store: Store) -> object:
    kind = attribute.type or _kind(attribute)
    if kind == Kind.TENSOR:
        return constant(attribute.t, name, store)
    if kind == Kind.TENSORS:
        return tuple(constant(tensor, name, store) for tensor in attribute.tensors)
    if kind == Kind.SPARSE_TENSOR:
        return sparse_constant(attribute.sparse_tensor, name, store)
    if kind not in READERS:
        raise ValueError(f"attribute {name!r} is of kind {kind}, which is unknown: the file is damaged")
    return READERS[kind](attribute)


def _kind(attribute: Kind) -> int:
    # a list that is empty looks as if it were not there: axes without any are one
    kind = next((kind for field, kind in FIELDS if len(getattr(attribute, field))), None)
    return kind or next((kind for field, kind in SINGLE if attribute.HasField(field)), Kind.INTS)
