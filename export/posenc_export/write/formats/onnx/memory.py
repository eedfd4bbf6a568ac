"""How an ONNX graph uses the memory of its inputs: which values are never read, and what an output may overwrite.

A runtime runs a node after the nodes whose outputs it takes, and otherwise in any order. It writes an output where its
last operator does, and a view of a tensor, or a copy that changes nothing, may be that tensor's own memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

SIZES = frozenset({"Shape", "Size"})
"""Operators that read only the sizes of a tensor."""
VIEWS = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""Operators that leave every number at its place in memory."""
ELEMENTWISE = frozenset({"Add", "Cast", "Div", "Mul", "Neg", "Sub", "Where"})
"""Operators that compute each number from the numbers at the same place."""
MOVES = frozenset({"Concat", "Expand", "Gather", "Pad", "Slice", "Split", "Transpose"})
"""Operators that copy numbers to other places."""


def unread(model: onnx.ModelProto) -> frozenset[str]:
    """Return the inputs whose values no node reads; nodes may read their sizes."""
    read = {name for node in model.graph.node if not _is(node, SIZES) for name in _taken(node)}
    read |= {value.name for value in model.graph.output}
    return frozenset(value.name for value in model.graph.input if value.name not in read)


def grouped_attentions(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """Return the nodes of GroupQueryAttention that lengthen a cache."""
    return [node for node in model.graph.node if node.op_type == "GroupQueryAttention" and len(node.output) > 2]


def caches_in_place(model: onnx.ModelProto) -> dict[str, str]:
    """Return the input that a cache may share a buffer with, by output: past and present of GroupQueryAttention.

    Only where no other node reads them: such a node would take the empty room of the buffer for tokens.
    """
    read = Counter(name for node in model.graph.node for name in node.input)
    return {
        node.output[place]: node.input[place + 2]
        for node in grouped_attentions(model)
        for place in (1, 2)
        if read[node.output[place]] == 0 and read[node.input[place + 2]] == 1
    }


def may_replace(model: onnx.ModelProto, output: str, source: str) -> bool:
    """Return whether an output may be written over an input of its shape and dtype, in whatever order nodes run.

    It may if every node that takes something of that input is done before the node that writes the output, which must
    be element by element, or Concat; and if every node between them is a view, moves numbers or takes them one by one,
    so that no runtime has a kernel that does two at once in another order.
    """
    nodes = list(model.graph.node)
    makers = {name: at for at, node in enumerate(nodes) for name in node.output}
    last = makers.get(output)
    while last is not None and _is(nodes[last], VIEWS):  # its maker may write to the same memory
        last = makers.get(nodes[last].input[0])
    if last is None or not _is(nodes[last], ELEMENTWISE | {"Concat"}):
        return False
    # every other node may still run when the output is written
    before = _before(nodes, makers, last)
    derived = {source}  # the input, and everything made of it
    for at, node in enumerate(nodes):  # in the order of a file, inputs of a node are made before it
        if at == last or _is(node, SIZES) or not derived.intersection(_taken(node)):
            continue
        if at not in before or not _is(node, VIEWS | ELEMENTWISE | MOVES):
            return False
        derived.update(node.output)
    return source not in {value.name for value in model.graph.output}


def _is(node: onnx.NodeProto, operators: frozenset[str]) -> bool:
    return node.domain in ("", "ai.onnx") and node.op_type in operators


def _taken(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the values that a node takes, and those that graphs inside it name."""
    yield from node.input
    for attribute in node.attribute:
        for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
            for inner in graph.node:
                yield from _taken(inner)
            yield from (value.name for value in graph.output)


def _before(nodes: list[onnx.NodeProto], makers: dict[str, int], last: int) -> set[int]:
    """Return the nodes that are done before a node runs, since it depends on them."""
    earlier: set[int] = set()
    waiting = [last]
    while waiting:
        makers_of_inputs = {makers[name] for name in _taken(nodes[waiting.pop()]) if name in makers} - earlier
        earlier |= makers_of_inputs
        waiting += makers_of_inputs
    return earlier
