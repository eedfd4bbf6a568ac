"""What an ONNX graph does with the memory of its inputs: whose values nothing reads, and what an output may replace.

A runtime runs a node once those are done that it takes something from, and otherwise in any order. It writes an output
where its last operator does, and a view of a tensor, or a copy that changes nothing, may be that tensor's own memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

SIZES = frozenset({"Shape", "Size"})
"""Operators that take the sizes of a tensor alone."""
VIEWS = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""Operators that leave each number at its place in memory."""
EACH = frozenset({"Add", "Cast", "Div", "Mul", "Neg", "Sub", "Where"})
"""Operators that make each number of those that stand where it does."""
MOVES = frozenset({"Concat", "Expand", "Gather", "Pad", "Slice", "Split", "Transpose"})
"""Operators that copy numbers to other places."""


def unread(model: onnx.ModelProto) -> frozenset[str]:
    """Return the inputs whose values no node reads: their sizes at most."""
    read = {name for node in model.graph.node if not _is(node, SIZES) for name in _taken(node)}
    read |= {value.name for value in model.graph.output}
    return frozenset(value.name for value in model.graph.input if value.name not in read)


def may_replace(model: onnx.ModelProto, output: str, source: str) -> bool:
    """Whether an output may be written over an input of its shape and dtype, in whatever order nodes run.

    It may where every node that takes something of that input is done before the node that writes the output, which is
    one of EACH, or joins what others have copied; and where nothing on the way but moves numbers or takes them one by
    one, so that no runtime has a kernel that does both at once in another order.
    """
    nodes = list(model.graph.node)
    makers = {name: at for at, node in enumerate(nodes) for name in node.output}
    last = makers.get(output)
    while last is not None and _is(nodes[last], VIEWS):  # what makes the viewed may write to the same memory
        last = makers.get(nodes[last].input[0])
    if last is None or not _is(nodes[last], EACH | {"Concat"}):
        return False
    before = _before(nodes, makers, last)
    theirs = {source}
    for at, node in enumerate(nodes):  # what a node takes is made before it
        if at == last or _is(node, SIZES) or not theirs.intersection(_taken(node)):
            continue
        if at not in before or not _is(node, VIEWS | EACH | MOVES):
            return False
        theirs.update(node.output)
    return source not in {value.name for value in model.graph.output}


def _is(node: onnx.NodeProto, operators: frozenset[str]) -> bool:
    return node.domain in ("", "ai.onnx") and node.op_type in operators


def _taken(node: onnx.NodeProto) -> Iterator[str]:
    """Yield what a node takes, and what the graphs inside it name."""
    yield from node.input
    for attribute in node.attribute:
        for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
            for inner in graph.node:
                yield from _taken(inner)
            yield from (value.name for value in graph.output)


def _before(nodes: list[onnx.NodeProto], makers: dict[str, int], last: int) -> set[int]:
    """Return the nodes that are done before one runs: what it takes comes from them."""
    earlier: set[int] = set()
    waiting = [last]
    while waiting:
        of = {makers[name] for name in _taken(nodes[waiting.pop()]) if name in makers} - earlier
        earlier |= of
        waiting += of
    return earlier
