"""Nodes in an order in which each comes after what it takes; files are not always written in one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush

import onnx

from posenc_export.read.graph.attributes import graphs
from posenc_export.read.graph.functions import NamedNode


def ordered(nodes: list[NamedNode], stored: Iterable[str]) -> list[NamedNode]:
    """Return nodes in the file's order as far as each can come after what it takes.

    Args:
        nodes: in the file's order.
        stored: names of inputs and constants. What neither they nor nodes make must be made outside of the graph.
    """
    maker = _makers(nodes, set(stored))
    needs = [{maker[name] for name in taken(node.proto) if name in maker} for node in nodes]
    users: list[list[int]] = [[] for _ in nodes]
    for place, makers in enumerate(needs):
        for made_by in makers:
            users[made_by].append(place)
    # the first in the file of those that are ready goes next: a sorted file stays as it is
    left = [len(makers) for makers in needs]
    ready = [place for place, count in enumerate(left) if count == 0]
    heapify(ready)
    order = []
    while ready:
        place = heappop(ready)
        order.append(nodes[place])
        for user in users[place]:
            left[user] -= 1
            if left[user] == 0:
                heappush(ready, user)
    if len(order) < len(nodes):
        raise ValueError(f"has nodes that wait for each other: {_loop(nodes, needs, left)}; no runtime can run it")
    return order


def taken(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the names of the tensors that a node takes, those that graphs inside it take from around them, too."""
    yield from (name for name in node.input if name)
    for graph in graphs(node):
        yield from free(graph)


def free(graph: onnx.GraphProto) -> set[str]:
    """Return the names of the tensors that a graph takes from around it."""
    made = {name for node in graph.node for name in node.output}
    made |= {item.name for item in (*graph.input, *graph.initializer)}
    made |= {tensor.values.name for tensor in graph.sparse_initializer}
    used = {name for node in graph.node for name in taken(node)}
    return (used | {output.name for output in graph.output}) - made


def check_made(nodes: list[NamedNode], outputs: Iterable[str], stored: Iterable[str]) -> None:
    """Raise ValueError where a node takes, or a graph gives, a tensor that nothing makes."""
    made = {*stored, *(name for node in nodes for name in node.proto.output)}
    for node in nodes:
        for name in taken(node.proto):
            if name not in made:
                raise ValueError(f"node {node.name!r} takes {name!r}, which nothing makes: the file is damaged")
    for name in outputs:
        if name not in made:
            raise ValueError(f"gives {name!r}, which nothing makes: the file is damaged")


def _makers(nodes: list[NamedNode], stored: set[str]) -> dict[str, int]:
    makers: dict[str, int] = {}
    for place, node in enumerate(nodes):
        for name in filter(None, node.proto.output):
            if name in makers or name in stored:
                raise ValueError(f"makes tensor {name!r} twice, by node {node.name!r} too: the file is damaged")
            makers[name] = place
    return makers


def _loop(nodes: list[NamedNode], needs: list[set[int]], left: list[int]) -> str:
    # whoever waits for a node that waits comes into a loop sooner or later
    place = next(place for place, count in enumerate(left) if count)
    path: dict[int, int] = {}
    while place not in path:
        path[place] = len(path)
        place = min(made_by for made_by in needs[place] if left[made_by])
    names = [nodes[step].name for step in list(path)[path[place] :]]
    return " <- ".join([*names[:4], *(["..."] if len(names) > 4 else []), names[0]])
