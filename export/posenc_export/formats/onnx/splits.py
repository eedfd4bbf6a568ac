"""A Split whose sizes are those of a call, written so that tract loads it too: as a Reshape, or as a Slice.

    Split(rows, [length, 0], axis=1)[0]            Reshape(rows, length * [0, 1, 0]): it copies nothing, and refuses
    Split(rows, [length, all - length])[0]         a Slice of all numbers in one row: ONNX Runtime copies it in one move

Both are the first part of a tensor, of which the rest is not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_export.formats.onnx.lengths import initializer, node

if TYPE_CHECKING:
    import onnx_ir as ir


def without_splits(model: ir.Model) -> None:
    """Replace every Split that takes the first part of a tensor by a length of the call, in place."""
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    replaced = False
    for split in [one for one in model.graph if one.op_type == "Split" and len(one.inputs) == 2]:
        sizes = split.inputs[1].producer() if split.inputs[1] is not None else None
        if sizes is None or sizes.op_type != "Concat" or len(sizes.inputs) != 2 or any(split.outputs[1].uses()):
            continue
        length, rest = sizes.inputs
        assert length is not None
        assert rest is not None
        nothing = rest.const_value is not None and not rest.const_value.numpy().any()
        nodes = _exactly(model.graph, split, length) if nothing else _first_rows(model.graph, split, length)
        _put(model.graph, split, nodes)
        replaced = True
    if replaced:
        RemoveUnusedNodesPass()(model)


def _exactly(graph: ir.Graph, split: ir.Node, length: ir.Value) -> list[ir.Node]:
    """Return nodes that keep a tensor that is as long as a call."""
    rows, axis = split.inputs[0], split.attributes["axis"].as_int()
    assert rows is not None
    assert rows.shape is not None
    name = str(split.outputs[0].name)
    mask = initializer(graph, f"{name}_axis", [int(i == axis) for i in range(len(rows.shape))])
    product = node("Mul", f"{name}_length", length, mask)
    return [product, node("Reshape", f"{name}_exactly", rows, product.outputs[0])]


def _first_rows(graph: ir.Graph, split: ir.Node, length: ir.Value) -> list[ir.Node]:
    """Return nodes that take the first rows of a matrix."""
    rows = split.inputs[0]
    assert rows is not None
    assert rows.shape is not None
    width = rows.shape[1]
    assert isinstance(width, int)
    name, whole = str(split.outputs[0].name), rows.producer()
    source = whole.inputs[0] if whole is not None and whole.op_type == "Reshape" else rows
    assert source is not None
    zero, every = initializer(graph, f"{name}_zero", [0]), initializer(graph, f"{name}_every", [-1])
    flat = node("Reshape", f"{name}_flat", source, every)
    count = node("Mul", f"{name}_count", length, initializer(graph, f"{name}_width", [width]))
    first = node("Slice", f"{name}_first", flat.outputs[0], zero, count.outputs[0], zero)
    shape = initializer(graph, f"{name}_shape", [-1, width])
    return [flat, count, first, node("Reshape", f"{name}_rows", first.outputs[0], shape)]


def _put(graph: ir.Graph, split: ir.Node, nodes: list[ir.Node]) -> None:
    """Put nodes in the place of a Split, the last of them in that of its first output."""
    old, new = split.outputs[0], nodes[-1].outputs[0]
    new.type, new.shape = old.type, old.shape
    graph.insert_before(split, nodes)
    for user in list(old.uses()):
        user.node.replace_input_with(user.idx, new)
    graph.remove(split, safe=True)
