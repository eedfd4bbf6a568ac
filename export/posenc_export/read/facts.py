"""What a graph says of itself: its size, its inputs, its operators' versions. Nothing of it is interpreted for that."""

from __future__ import annotations

from posenc_export.read.graph import Graph
from posenc_export.read.inspection import SCHEMA_VERSION, GraphInput, Inspection


def facts_of(graph: Graph, shown: str) -> Inspection:
    """Return what a graph says of itself, without an encoding."""
    inputs = tuple(GraphInput(entry.name, entry.shape, entry.dtype.name) for entry in graph.inputs)
    return Inspection(SCHEMA_VERSION, shown, len(graph.nodes), dict(graph.opsets), inputs, missing=graph.missing)
