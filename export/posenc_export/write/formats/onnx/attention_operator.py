"""`--attention-op onnx`: Attention and RotaryEmbedding of ai.onnx (opset 23) in the place of plain operators.

    Attention(q, repeated k, repeated v)        Attention(q, k, v): it has fewer heads of keys than of queries itself
    Attention(q, Concat(past, k), ...)          Attention(q, k, v, mask, past keys, past values): it gives all of them
    x cos + Concat(-x2, x1) sin                 RotaryEmbedding(x, cos, sin): the cosines and sines of this call

Attention itself is written in `attention.py`, where torch.export has it as one operator. A rotation of another form
keeps its plain operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from posenc_export.write.formats.onnx.forms import integers_of, put
from posenc_export.write.formats.onnx.lengths import node
from posenc_export.write.formats.onnx.repeated_heads import maker_of, repeated_in, size_of

if TYPE_CHECKING:
    import onnx_ir as ir

KEYS, VALUES, PAST = 1, 2, 4
"""The inputs of Attention: keys, values, and the first of those that were cached."""

FLOATS = ("FLOAT", "FLOAT16", "BFLOAT16")
"""Types that RotaryEmbedding turns."""


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
    made: dict[ir.Value, ir.Value] = {}
    for total in [each for each in graph if each.op_type == "Add"]:
        rotation = _rotation(total)
        if rotation is not None:
            cos, sin = (_cached(graph, total, angles, made) for angles in (rotation.cos, rotation.sin))
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
    for old, made in zip((attention, *caches), outputs, strict=True):
        value = old.outputs[0]
        made.shape, made.type = value.shape, value.type
    graph.insert_before(attention, [whole])
    for old, made in zip((attention, *caches), outputs, strict=True):
        value = old.outputs[0]
        is_output = value in graph.outputs
        value.replace_all_uses_with(made, replace_graph_outputs=True)
        if is_output:  # the graph's output keeps its name
            value.name, made.name = f"{value.name}_before", value.name
        graph.remove(old, safe=True)
    return True


def _is_cache(graph: ir.Graph, concat: ir.Node, attention: ir.Node) -> bool:
    """Return whether a Concat puts new keys or values behind those of an input, for an output and attention alone."""
    value = concat.outputs[0]
    axis, rank = concat.attributes["axis"].as_int(), len(value.shape) if value.shape is not None else 0
    users = {use.node for use in value.uses()}
    is_past = len(concat.inputs) == 2 and concat.inputs[0] in graph.inputs
    return is_past and rank == 4 and axis % rank == 2 and value in graph.outputs and users == {attention}


class HalvesRotation(NamedTuple):
    """A rotation of the halves of heads, as a model computes it: x cos + Concat(-x2, x1) sin."""

    x: ir.Value
    cos: ir.Value
    sin: ir.Value


def _rotation(total: ir.Node) -> HalvesRotation | None:
    """Return the rotation that a sum is, or None; cosines and sines are (batch, seq, pairs), with a cast or without."""
    products = [maker_of(value, "Mul") for value in total.inputs]
    for plain, turned in (products, products[::-1]):
        if plain is None or turned is None:
            return None
        for x, cos in (plain.inputs[:2], plain.inputs[1::-1]):
            for half, sin in (turned.inputs[:2], turned.inputs[1::-1]):
                of_cos, of_sin = _columns(cos), _columns(sin)
                if x is None or of_cos is None or of_sin is None or not _is_turned(half, x):
                    continue
                # the operator has no double, and repeats no cosines for a batch
                if (
                    x.dtype is not None
                    and x.dtype.name in FLOATS
                    and all(_is_a_row_a_token(angles, x) for angles in (of_cos, of_sin))
                ):
                    return HalvesRotation(x, of_cos, of_sin)
    return None


def _columns(value: ir.Value | None) -> ir.Value | None:
    """Return what stands twice side by side: Unsqueeze(Concat(c, c)), (batch, 1, seq, 2 pairs), or a cast of it."""
    unsqueeze = maker_of(value, "Unsqueeze")
    if unsqueeze is None or integers_of(unsqueeze.inputs[1]) != [1]:
        return None
    inner = unsqueeze.inputs[0]
    cast = maker_of(inner, "Cast")
    concat = maker_of(cast.inputs[0] if cast is not None else inner, "Concat")
    if concat is None or len(concat.inputs) != 2 or concat.inputs[0] is not concat.inputs[1]:
        return None
    rank = len(concat.outputs[0].shape or ())
    return inner if rank == 3 and concat.attributes["axis"].as_int() % rank == 2 else None


def _is_float(x: ir.Value) -> bool:
    return x.dtype is not None and x.dtype.name in FLOATS


def _is_a_row_a_token(angles: ir.Value, x: ir.Value) -> bool:
    """Return whether cosines (batch, seq, pairs) have the batch and the tokens of x, (batch, heads, seq, features)."""
    if angles.shape is None or x.shape is None:
        return False
    return [size_of(angles.shape[axis]) for axis in (0, 1)] == [size_of(x.shape[axis]) for axis in (0, 2)]


def _is_turned(value: ir.Value | None, x: ir.Value) -> bool:
    """Return whether a value is the second half of x, negative, before the first: (batch, heads, seq, features)."""
    concat = maker_of(value, "Concat")
    if concat is None or len(concat.inputs) != 2 or x.shape is None or len(x.shape) != 4:
        return False
    negative, first = maker_of(concat.inputs[0], "Neg"), maker_of(concat.inputs[1], "Slice")
    second, width = maker_of(negative.inputs[0] if negative is not None else None, "Slice"), x.shape[3]
    is_last = concat.attributes["axis"].as_int() in (-1, 3)
    if first is None or second is None or not isinstance(width, int) or not is_last:
        return False
    starts = [_slice(part, x) for part in (first, second)]
    return width % 2 == 0 and starts == [(0, width // 2), (width // 2, width)]


def _slice(part: ir.Node, x: ir.Value) -> tuple[int, int] | None:
    """Return from where to where a Slice takes features of x; None for any other Slice."""
    numbers = [integers_of(value) for value in part.inputs[1:]]
    if part.inputs[0] is not x or len(numbers) < 3 or any(one is None or len(one) != 1 for one in numbers):
        return None
    start, end, axis, step = (one[0] for one in [*numbers, [1]][:4] if one is not None)
    assert x.shape is not None
    width = x.shape[3]
    assert isinstance(width, int)
    return (start, min(end, width)) if axis in (-1, 3) and step == 1 else None


def _cached(graph: ir.Graph, before: ir.Node, twice: ir.Value, made: dict[ir.Value, ir.Value]) -> ir.Value:
    """Return cosines or sines as the operator takes them, a column a pair: (batch, seq, pairs)."""
    if twice not in made:
        cast = maker_of(twice, "Cast")
        concat = maker_of(cast.inputs[0] if cast is not None else twice, "Concat")
        assert concat is not None
        once = concat.inputs[0]
        assert once is not None
        if cast is not None:
            narrow = node("Cast", f"{twice.name}_once", once, to=cast.attributes["to"].as_int())
            graph.insert_before(before, [narrow])
            once = narrow.outputs[0]
        made[twice] = once
    return made[twice]
