"""The nodes of a graph that its outputs need: what nobody takes runs for nothing, and encodes nothing."""

from __future__ import annotations

from dataclasses import replace

from posenc_export.read.graph import Graph
from posenc_export.read.graph.order import taken


def live(graph: Graph) -> Graph:
    """Return a graph without the nodes from which no output follows."""
    needed, kept = set(graph.outputs), []
    for node in reversed(graph.nodes):
        if needed.intersection(name for name in node.outputs if name):
            needed.update(taken(node.proto))
            needed.update(node.inputs)
            kept.append(node)
    # a graph whose outputs no node makes is looked at as it is
    return replace(graph, nodes=tuple(reversed(kept))) if kept else graph
