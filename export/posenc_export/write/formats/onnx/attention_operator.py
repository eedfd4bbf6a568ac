"""`--attention-op onnx`: Attention and RotaryEmbedding of ai.onnx (opset 23) in the place of plain operators.

    Attention(q, repeated k, repeated v)        Attention(q, k, v): it has fewer heads of keys than of queries itself
    Attention(q, Concat(past, k), ...)          Attention(q, k, v, mask, past keys, past values): it gives all of them
    x cos + Concat(-x2, x1) sin                 RotaryEmbedding(x, cos, sin): the cosines and sines of this call

Attention itself is written in `attention.py`, where torch.export has it as one operator. A rotation of another form
keeps its plain operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_export.write.formats.onnx.forms import put, put_value
from posenc_export.write.formats.onnx.head_rotations import Columns, rotation_in
from posenc_export.write.formats.onnx.lengths import node
from posenc_export.write.formats.onnx.repeated_heads import maker_of, repeated_in

if TYPE_CHECKING:
    import onnx_ir as ir

KEYS, VALUES, PAST = 1, 2, 4
"""The inputs of Attention: keys, values, and the first of those that were cached."""


def use_operators(model: ir.Model) -> None:
    """Give Attention what it does itself, and write rotations as one operator, in place."""
    import onnx_ir as ir
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    graph = model.graph
    heads = {each.result: each for each in repeated_in(graph)}
    for attention in [each for each in graph if each.op_type == "Attention"]:
        shared = [heads.get(value) for value in attention.inputs[KEYS : VALUES + 1] if value is not None]
        queries = attention.inputs[0]
        count = queries.shape[1] if queries is not None and queries.shape is not None else None
        counts = {each.count for each in shared if each is not None}
        if None in shared or not isinstance(count, int) or len(counts) > 1:
            continue
        for place, each in enumerate(shared, KEYS):
            assert each is not None
            attention.replace_input_with(place, each.heads)
        # of four axes the operator reads them itself, but OpenVINO takes the heads of keys for those of queries
        attention.attributes["q_num_heads"] = ir.AttrInt64("q_num_heads", count)
        attention.attributes["kv_num_heads"] = ir.AttrInt64("kv_num_heads", counts.pop())
    RemoveUnusedNodesPass()(model)  # what was repeated is a use of keys until then
    for attention in [each for each in graph if each.op_type == "Attention"]:
        if not _take_past(graph, attention):
            # torch.onnx declares all outputs, and a runtime computes those that have a name
            y = ir.Value(name=f"{attention.outputs[0].name}_attended")
            put(graph, attention, [ir.node("Attention", attention.inputs, attention.attributes, outputs=[y])])
    made: dict[Columns, ir.Value] = {}
    for total in [each for each in graph if each.op_type == "Add"]:
        rotation = rotation_in(total)
        if rotation is not None and not rotation.interleaved:
            cos, sin = (columns.narrow(graph, total, made) for columns in (rotation.cos, rotation.sin))
            name = str(total.outputs[0].name)
            put(graph, total, [node("RotaryEmbedding", f"{name}_rotated", rotation.x, cos, sin)])
    RemoveUnusedNodesPass()(model)


def _take_past(graph: ir.Graph, attention: ir.Node) -> bool:
    """Have Attention put what was cached before new keys and values, where they come out; return whether they do."""
    import onnx_ir as ir

    joined = [maker_of(attention.inputs[place], "Concat") for place in (KEYS, VALUES)]
    caches = [concat for concat in joined if concat is not None and _is_cache(graph, concat, attention)]
    if len(caches) < len(joined) or caches[0] is caches[1] or len(attention.inputs) > PAST:
        return False
    y = attention.outputs[0]
    mask = attention.inputs[3] if len(attention.inputs) == PAST else None
    new, past = [concat.inputs[1] for concat in caches], [concat.inputs[0] for concat in caches]
    outputs = [ir.Value(name=f"{value.name}_attended") for value in (y, *(concat.outputs[0] for concat in caches))]
    whole = ir.node("Attention", [attention.inputs[0], *new, mask, *past], dict(attention.attributes), outputs=outputs)
    graph.insert_before(attention, [whole])
    for old, made in zip((attention, *caches), outputs, strict=True):
        put_value(graph, old.outputs[0], made)
        graph.remove(old, safe=True)
    return True


def _is_cache(graph: ir.Graph, concat: ir.Node, attention: ir.Node) -> bool:
    """Return whether a Concat puts new keys or values behind those of an input, for an output and attention alone."""
    value = concat.outputs[0]
    axis, rank = concat.attributes["axis"].as_int(), len(value.shape) if value.shape is not None else 0
    users = {use.node for use in value.uses()}
    is_past = len(concat.inputs) == 2 and concat.inputs[0] in graph.inputs
    return is_past and rank == 4 and axis % rank == 2 and value in graph.outputs and users == {attention}
