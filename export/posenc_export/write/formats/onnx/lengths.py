"""Inputs of one length: the graph refuses others, as the module does, where ONNX alone would repeat a single token.

Only what a kernel checks by itself is in every runtime, on CUDA too: how much a Reshape holds.

    k (batch, head, 1, dim), q (batch, head, 5, dim)    Reshape(k, Shape(q) * [0, 0, 1, 0])    0 keeps a size
    positions (batch, 1), q (batch, head, 5, dim)       Reshape(positions, Shape(q)[1:3] * [0, 1])

A Reshape copies nothing. Where the first input has no tokens, a single token in the second passes, and the output is
empty. ONNX Runtime optimises a Reshape away if its shape comes from Concat, and the check with it, but not if it comes
from a product. A Split would check a length too, but tract does not load a Split whose sizes depend on the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc.ports import Array, Port

if TYPE_CHECKING:
    import onnx_ir as ir


def demand_equal_lengths(graph: ir.Graph, ports: tuple[Port, ...]) -> None:
    """Make inputs that share an axis along which positions run refuse unlike sizes of it, in place."""
    import onnx_ir as ir

    if _is_held_to_ids(graph):
        return
    for first, second, axes in _pairs(ports):
        longer, shorter = graph.inputs[first], graph.inputs[second]
        start, users = graph[0], list(shorter.uses())
        nodes: list[ir.Node] = []
        for part, equal in enumerate(_at_once(axes, len(ports[first].axes), len(ports[second].axes))):
            taken = nodes[-1].outputs[0] if nodes else shorter
            nodes += _reshaped(graph, longer, taken, equal, f"{shorter.name}_{part}" if part else str(shorter.name))
        checked = nodes[-1].outputs[0]
        checked.type, checked.shape = shorter.type, ir.Shape(shorter.shape or ())
        for user in users:
            user.node.replace_input_with(user.idx, checked)
        graph.insert_before(start, nodes)


def demand_other_sizes(graph: ir.Graph, ports: tuple[Port, ...]) -> None:
    """Make inputs refuse sizes that their axes never have, in place: a Reshape to one more than there is fails."""
    import onnx_ir as ir

    for place, port in enumerate(ports):
        sizes = [(axis, size) for axis in range(len(port.axes)) for size in port.axes[axis].without]
        if not sizes:
            continue
        value = graph.inputs[place]
        start, users = graph[0], list(value.uses())
        nodes = [node("Shape", f"{value.name}_sizes", value)]
        wanted = nodes[0].outputs[0]
        for count, (axis, size) in enumerate(sizes):
            # -1 is no size: it equals none
            row = [size if i == axis else -1 for i in range(len(port.axes))]
            never = initializer(graph, f"{value.name}_never_{count}", row)
            same = node("Equal", f"{value.name}_same_{count}", nodes[0].outputs[0], never)
            one = node("Cast", f"{value.name}_one_{count}", same.outputs[0], to=ir.DataType.INT64)
            more = node("Add", f"{value.name}_wanted_{count}", wanted, one.outputs[0])
            nodes += [same, one, more]
            wanted = more.outputs[0]
        nodes.append(node("Reshape", f"{value.name}_of_a_size", value, wanted))
        checked = nodes[-1].outputs[0]
        checked.type, checked.shape = value.type, ir.Shape(value.shape or ())
        for user in users:
            user.node.replace_input_with(user.idx, checked)
        graph.insert_before(start, nodes)


def _is_held_to_ids(graph: ir.Graph) -> bool:
    """Return whether an operator compares the lengths of queries and keys with those of the ids that it looks up.

    A Reshape in front of it would keep an optimizer from fusing it with attention.
    """
    rotations = (n for n in graph if (n.domain, n.op_type) == ("com.microsoft", "RotaryEmbedding"))
    caches = [rotation.inputs[2] for rotation in rotations]
    # caches of one call, which the graph computes, have ids of that call: these say nothing of lengths
    return bool(caches) and all(cache is not None and cache.is_initializer() for cache in caches)


def _pairs(ports: tuple[Port, ...]) -> Iterator[tuple[int, int, dict[int, int]]]:
    """Yield a port, a later one that shares lengths with it, and their axes: {of the second: of the first}."""
    for second in range(1, len(ports)):
        lengths = {ports[second].axes[i].name: i for i in ports[second].lengths if ports[second].axes[i].is_dynamic}
        for first in range(second):
            names = [axis.name for axis in ports[first].axes]
            shared = [name for name in lengths if name in names]
            if shared:
                yield first, second, {lengths.pop(name): names.index(name) for name in shared}


@dataclass(frozen=True)
class Equal:
    """Axes of one tensor that must be as long as axes of another.

    Attributes:
        start: The first axis of the other tensor.
        end: One past the last; as many as the tensor has axes, in the same order, or a single axis.
        mask: 1 for each axis of the tensor that is compared, 0 for the others.
    """

    start: int
    end: int
    mask: tuple[int, ...]


def _at_once(axes: dict[int, int], longer: int, shorter: int) -> list[Equal]:
    """Return as few comparisons as possible.

    Args:
        axes: {axis of the tensor: axis of the other}.
        longer: The rank of the other tensor.
        shorter: The rank of the tensor.
    """
    offset = next(j - i for i, j in axes.items())
    if all(j - i == offset for i, j in axes.items()) and 0 <= offset <= longer - shorter:
        return [Equal(offset, offset + shorter, tuple(int(k in axes) for k in range(shorter)))]
    return [Equal(j, j + 1, tuple(int(k == i) for k in range(shorter))) for i, j in axes.items()]


def _reshaped(graph: ir.Graph, longer: ir.Value, tensor: ir.Value, equal: Equal, name: str) -> list[ir.Node]:
    """Return nodes that keep a tensor as it is where its axes are as long as those of another, and fail otherwise."""
    mask = initializer(graph, f"lengths_of_{name}", equal.mask)
    sizes = node("Shape", f"{name}_{longer.name}_sizes", longer, start=equal.start, end=equal.end)
    # 0 where a size is not compared: Reshape keeps it
    product = node("Mul", f"{name}_{longer.name}_lengths", sizes.outputs[0], mask)
    return [sizes, product, node("Reshape", f"{name}_checked", tensor, product.outputs[0])]


def initializer(graph: ir.Graph, name: str, numbers: Array | Sequence[int]) -> ir.Value:
    """Return a constant that is stored in a graph; a sequence becomes int64."""
    import onnx_ir as ir

    array = numbers if isinstance(numbers, np.ndarray) else np.array(numbers, np.int64)
    tensor = ir.tensor(array, name=name)
    value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape), const_value=tensor)
    graph.register_initializer(value)
    return value


def node(op: str, name: str, *inputs: ir.Value, **attributes: Any) -> ir.Node:
    """Return a node with one output; both have this name."""
    import onnx_ir as ir

    return ir.node(op, list(inputs), attributes, outputs=[ir.Value(name=name)], name=name)
