"""Nodes in an order in which each comes after those whose outputs it takes, as ONNX wants and converters forget."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from posenc_export.write.formats.onnx.inner_graphs import graphs_of

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto


def is_ordered(graph: GraphProto) -> bool:
    """Return whether every node of a graph, and of those inside it, comes after those whose outputs it takes."""
    return all(part_order == list(range(len(part_order))) for part_order in map(_order, graphs_of(graph)))


def order_nodes(graph: GraphProto) -> None:
    """Put the nodes of a graph, and of those inside it, in order; a graph with a circle stays as it is."""
    for part in graphs_of(graph):
        ordered = [part.node[index] for index in _order(part)]
        if len(ordered) == len(part.node):
            del part.node[:]
            part.node.extend(ordered)


def _order(graph: GraphProto) -> list[int]:
    """Return the places of nodes in order, those of a circle left out; nodes in order keep their places."""
    makers = {name: place for place, node in enumerate(graph.node) for name in node.output if name}
    waits = [{makers[name] for name in _taken(node) if name in makers} - {i} for i, node in enumerate(graph.node)]
    followers: dict[int, list[int]] = {}
    for place, before in enumerate(waits):
        for maker in before:
            followers.setdefault(maker, []).append(place)
    # a file in order needs no queue: its places are taken as they stand
    if all(max(before, default=-1) < place for place, before in enumerate(waits)):
        return list(range(len(waits)))
    ready, order = deque(place for place, before in enumerate(waits) if not before), []
    while ready:
        order.append(ready.popleft())
        for place in followers.get(order[-1], ()):
            waits[place].discard(order[-1])
            if not waits[place]:
                ready.append(place)
    return order


def _taken(node: NodeProto) -> set[str]:
    """Return the tensors that a node takes, and those that graphs inside it take from outside."""
    inside = [part for attribute in node.attribute for part in (attribute.g, *attribute.graphs)]
    nested = {name for graph in inside for part in graphs_of(graph) for of_part in part.node for name in of_part.input}
    # an inner graph may give a tensor of the outer one without a node
    passed_out = {value.name for graph in inside for part in graphs_of(graph) for value in part.output}
    return {*node.input, *nested, *passed_out}
