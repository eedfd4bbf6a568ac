"""The first of some rows, as many as there are positions: the graph refuses where there are fewer, as the module does.

    Split(rows, [seq, rows - seq])[0]    Reshape(Slice(rows, 0, seq), seq * [1, 0] + [0, dim])
    Split(rows, [seq, 0])[0]             Reshape(rows, seq * [1, 0] + [0, dim])

torch.onnx writes a Split, and nothing reads its second part. MNN leaves out an operator with an output of size zero:
the first part is then whatever its memory held, at lengths of whole blocks, and wherever a length is demanded. tract
takes no Split by a size that it does not know. A Slice stops short without an error; the Reshape behind it refuses
that, and copies nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import onnx_ir as ir

Model = Any
"""A model of onnx_ir that is being written."""


@dataclass(frozen=True)
class Cut:
    """A Split that is read for its first part alone.

    sizes: of the rows, with 0 for the axis that is cut. all_of_them: whether the second part is always empty.
    """

    split: ir.Node
    rows: ir.Value
    length: ir.Value
    axis: int
    sizes: tuple[int, ...]
    all_of_them: bool


def take_first_rows(model: Model) -> None:
    """Write every Split that is read for its first part alone as a Slice and a Reshape, in place."""
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    for cut in list(_cuts(model.graph)):
        _replace(model.graph, cut)
    RemoveUnusedNodesPass()(model)


def _cuts(graph: ir.Graph) -> Iterator[Cut]:
    for node in graph:
        if node.op_type != "Split" or len(node.outputs) != 2 or node.outputs[1].uses():
            continue
        rows, parts = node.inputs
        made = parts.producer() if parts is not None else None
        assert rows is not None
        assert rows.shape is not None
        assert made is not None, "our encodings cut rows at a length"
        length, rest = made.inputs
        assert length is not None
        assert rest is not None
        axis = node.attributes["axis"].as_int() % len(rows.shape)
        sizes = tuple(0 if i == axis else int(size) for i, size in enumerate(rows.shape))
        none = rest.const_value is not None and not rest.const_value.numpy().any()
        yield Cut(node, rows, length, axis, sizes, none)


def _replace(graph: ir.Graph, cut: Cut) -> None:
    import onnx_ir as ir

    whole = cut.split.outputs[0]
    tape, name = ir.tape.Tape(), str(whole.name)

    def numbers(what: str, values: list[int]) -> ir.Value:
        return tape.initializer(ir.tensor(np.array(values), name=f"{name}_{what}"))

    def op(kind: str, what: str, inputs: list[ir.Value], **attributes: int) -> ir.Value:
        return tape.op(kind, inputs, attributes, name=f"{name}_{what}", output=ir.Value(name=f"{name}_{what}"))

    part = cut.rows
    if not cut.all_of_them:
        part = op("Slice", "part", [part, numbers("start", [0]), cut.length, numbers("axis", [cut.axis])])
    along = op("Mul", "along", [cut.length, numbers("cut", [int(not size) for size in cut.sizes])])
    shape = op("Add", "shape", [along, numbers("others", list(cut.sizes))])
    checked = op("Reshape", "checked", [part, shape], allowzero=1)
    checked.type, checked.shape = whole.type, whole.shape
    for value in tape.initializers:
        graph.register_initializer(value)
    ir.convenience.replace_nodes_and_values(graph, cut.split, [cut.split], tape.nodes, [whole], [checked])
