"""Inputs of one length: the graph refuses others, as the module does, where ONNX alone would repeat a single token.

Only what a kernel checks by itself is in every runtime, on CUDA too: how much a Split takes, how much a Reshape holds.

    k (batch, head, 1, dim), q (batch, head, 5, dim)    Reshape(k, Shape(q) * [0, 0, 1, 0])    0 keeps a size
    positions (batch, 1), q (batch, head, 5, dim)       Split(positions, Shape(q)[2:3])        5 of 1 is refused

A Reshape copies nothing, and is for what is large. ONNX Runtime takes away a Reshape whose shape is put together by
Concat, and the check with it; a product it leaves alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc.ports import Port
from posenc_export.arrays import FLOATS

if TYPE_CHECKING:
    import onnx_ir as ir


def demand_equal_lengths(graph: ir.Graph, ports: tuple[Port, ...]) -> None:
    """Make inputs that share an axis along which positions run refuse unlike sizes of it, in place."""
    import onnx_ir as ir

    for first, other, axes in _pairs(ports):
        longer, shorter = graph.inputs[first], graph.inputs[other]
        start, users = graph[0], list(shorter.uses())
        whole = ports[other].dtype in FLOATS and all(i == j for i, j in axes.items())
        nodes = _reshaped(graph, longer, shorter, list(axes)) if whole else _split(longer, shorter, axes)
        checked = nodes[-1].outputs[0]
        checked.type, checked.shape = shorter.type, ir.Shape(shorter.shape or ())
        for user in users:
            user.node.replace_input_with(user.idx, checked)
        graph.insert_before(start, nodes)


def _pairs(ports: tuple[Port, ...]) -> Iterator[tuple[int, int, dict[int, int]]]:
    """Yield the first port that has a length, another that has it, and its axes: {of the other: of the first}."""
    for second in range(1, len(ports)):
        lengths = {ports[second].axes[i].name: i for i in ports[second].lengths if ports[second].axes[i].is_dynamic}
        for first in range(second):
            names = [axis.name for axis in ports[first].axes]
            shared = [name for name in lengths if name in names]
            if shared:
                yield first, second, {lengths.pop(name): names.index(name) for name in shared}


def _reshaped(graph: ir.Graph, longer: ir.Value, shorter: ir.Value, axes: list[int]) -> list[ir.Node]:
    """Return nodes that keep a tensor as it is where its axes are as long as those of another of the same rank."""
    import onnx_ir as ir

    assert shorter.shape is not None
    mask = ir.tensor(np.array([int(i in axes) for i in range(len(shorter.shape))]), name=f"lengths_of_{shorter.name}")
    constant = ir.Value(name=mask.name, type=ir.TensorType(mask.dtype), shape=ir.Shape([mask.size]), const_value=mask)
    graph.register_initializer(constant)
    sizes = _node("Shape", f"{longer.name}_sizes", longer, of=shorter)
    product = _node("Mul", f"{longer.name}_lengths", sizes.outputs[0], constant, of=shorter)
    return [sizes, product, _node("Reshape", "checked", shorter, product.outputs[0], of=shorter)]


def _split(longer: ir.Value, shorter: ir.Value, axes: dict[int, int]) -> list[ir.Node]:
    """Return nodes that take a tensor whole, each of its axes as long as another's."""
    nodes: list[ir.Node] = []
    for i, j in axes.items():
        length = _node("Shape", f"{longer.name}_length_{j}", longer, of=shorter, start=j, end=j + 1)
        taken = nodes[-1].outputs[0] if nodes else shorter
        nodes += [length, _node("Split", f"checked_{i}", taken, length.outputs[0], of=shorter, axis=i)]
    return nodes


def _node(op: str, what: str, *inputs: ir.Value, of: ir.Value, **attributes: Any) -> ir.Node:
    import onnx_ir as ir

    name = f"{of.name}_{what}"
    return ir.node(op, list(inputs), attributes, outputs=[ir.Value(name=name)], name=name)
