"""A graph and those inside its nodes: the branches of If, and the bodies of loops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto


def graphs_of(graph: GraphProto) -> Iterator[GraphProto]:
    """Yield a graph and those inside its nodes, the branches of If and the bodies of loops."""
    yield graph
    for attribute in attributes_of(graph):
        for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            yield from graphs_of(inner)


def attributes_of(graph: GraphProto) -> Iterator[AttributeProto]:
    """Yield every attribute of the nodes of a graph."""
    return (attribute for node in graph.node for attribute in node.attribute)
