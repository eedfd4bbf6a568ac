"""Rotations of heads, as models compute them: pairs are a feature and the one half a head further on, or neighbours.

x cos + Concat(-x2, x1) sin                          cosines: Concat(c, c)
x cos + Reshape([-x[1::2], x[::2]], features) sin    cosines: each number twice, Reshape(Expand(Unsqueeze(c)))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from posenc_export.write.formats.onnx.forms import integers_of
from posenc_export.write.formats.onnx.lengths import node
from posenc_export.write.formats.onnx.repeated_heads import maker_of, size_of

if TYPE_CHECKING:
    import onnx_ir as ir

FLOATS = ("FLOAT", "FLOAT16", "BFLOAT16")
"""Types that RotaryEmbedding of ai.onnx turns."""


class NeighboursRotation(NamedTuple):
    """A rotation of neighbours; cosines and sines are a column a pair, (batch, seq, pairs)."""

    x: ir.Value
    cos: ir.Value
    sin: ir.Value


def neighbours_in(total: ir.Node) -> NeighboursRotation | None:
    """Return the rotation of neighbours that a sum is, or None."""
    products = [maker_of(value, "Mul") for value in total.inputs]
    for plain, turned in (products, products[::-1]):
        if plain is None or turned is None:
            return None
        for x, cos in (plain.inputs[:2], plain.inputs[1::-1]):
            for half, sin in (turned.inputs[:2], turned.inputs[1::-1]):
                of_cos, of_sin = _each_twice(cos), _each_twice(sin)
                if x is None or of_cos is None or of_sin is None or not _are_neighbours(half, x):
                    continue
                if all(_is_a_row_a_token(angles, x) for angles in (of_cos, of_sin)):
                    return NeighboursRotation(x, of_cos, of_sin)
    return None


def parts_in(concat: ir.Node) -> HalvesRotation | None:
    """Return the rotation that Concat(x1 cos - x2 sin, x2 cos + x1 sin) is, of the halves of x; None for another one.

    Cosines and sines are a column a pair, (batch, seq, pairs).
    """
    if len(concat.inputs) != 2 or concat.attributes["axis"].as_int() not in (-1, 3):
        return None
    less, more = maker_of(concat.inputs[0], "Sub"), maker_of(concat.inputs[1], "Add")
    products = [maker_of(value, "Mul") for each in (less, more) if each is not None for value in each.inputs]
    if len(products) != 4 or None in products:
        return None
    (x1, cos), (x2, sin), (again2, cos2), (again1, sin2) = [each.inputs for each in products if each is not None]
    split = x1.producer() if x1 is not None else None
    x = split.inputs[0] if split is not None and split.op_type == "Split" and len(split.outputs) == 2 else None
    same = x2 is not None and x2.producer() is split and (again1, again2) == (x1, x2) and (cos, sin) == (cos2, sin2)
    outer = [maker_of(each, "Unsqueeze") for each in (cos, sin)]
    if split is None or x is None or not same or x1 is not split.outputs[0] or None in outer:
        return None
    of_cos, of_sin = (each.inputs[0] for each in outer if each is not None and integers_of(each.inputs[1]) == [1])
    right = all(
        each is not None and len(each.shape or ()) == 3 and _is_a_row_a_token(each, x) for each in (of_cos, of_sin)
    )
    return HalvesRotation(x, of_cos, of_sin) if right and of_cos is not None and of_sin is not None else None


def _each_twice(value: ir.Value | None) -> ir.Value | None:
    """Return numbers of which each comes twice in a row: Unsqueeze(Reshape(Expand(Unsqueeze(c)))), or a cast of it.

    Also of the first half of numbers that stand twice: Reshape(Expand(Unsqueeze(Slice(Unsqueeze(Concat(c, c)))))).
    """
    outer = maker_of(value, "Unsqueeze")
    joined = maker_of(value, "Reshape")
    if joined is not None:
        expand = maker_of(joined.inputs[0], "Expand")
        single = maker_of(expand.inputs[0] if expand is not None else None, "Unsqueeze")
        first = maker_of(single.inputs[0] if single is not None else None, "Slice")
        columns = first.inputs[0] if first is not None else None
        if expand is None or first is None or columns is None or columns.shape is None or len(columns.shape) != 4:
            return None
        width, doubled = columns.shape[3], expand.outputs[0].shape
        is_half = isinstance(width, int) and slice_of(first, columns) == (0, width // 2)
        return _columns(columns) if is_half and doubled is not None and [*doubled][4:] == [2] else None
    if outer is None or integers_of(outer.inputs[1]) != [1]:
        return None
    inner = outer.inputs[0]
    cast = maker_of(inner, "Cast")
    joined = maker_of(cast.inputs[0] if cast is not None else inner, "Reshape")
    expand = maker_of(joined.inputs[0] if joined is not None else None, "Expand")
    single = maker_of(expand.inputs[0] if expand is not None else None, "Unsqueeze")
    if joined is None or expand is None or single is None or single.inputs[0] is None:
        return None
    once, wide, twice = single.inputs[0].shape, expand.outputs[0].shape, joined.outputs[0].shape
    if once is None or wide is None or twice is None or (len(once), len(wide), len(twice)) != (3, 4, 3):
        return None
    pairs = once[2]
    right = wide[2] == pairs and wide[3] == 2 and isinstance(pairs, int) and twice[2] == 2 * pairs
    return (inner if cast is not None else single.inputs[0]) if right else None


def _are_neighbours(value: ir.Value | None, x: ir.Value) -> bool:
    """Return whether a value has the neighbours of x by turns, the second negative before the first."""
    joined = maker_of(value, "Reshape")
    concat = maker_of(joined.inputs[0] if joined is not None else None, "Concat")
    if joined is None or concat is None or len(concat.inputs) != 2 or x.shape is None or len(x.shape) != 4:
        return False
    width, rank = x.shape[3], len(concat.outputs[0].shape or ())
    singles = [maker_of(part, "Unsqueeze") for part in concat.inputs]
    if rank != 5 or concat.attributes["axis"].as_int() not in (-1, 4) or not isinstance(width, int):
        return False
    if any(each is None or integers_of(each.inputs[1]) not in ([-1], [4]) for each in singles):
        return False
    negative = maker_of(singles[0].inputs[0] if singles[0] is not None else None, "Neg")
    second = maker_of(negative.inputs[0] if negative is not None else None, "Slice")
    first = maker_of(singles[1].inputs[0] if singles[1] is not None else None, "Slice")
    if first is None or second is None:
        return False
    return [slice_of(part, x, 2) for part in (first, second)] == [(0, width), (1, width)]


class HalvesRotation(NamedTuple):
    """A rotation of the halves of heads, as a model computes it: x cos + Concat(-x2, x1) sin."""

    x: ir.Value
    cos: ir.Value
    sin: ir.Value


def rotation_in(total: ir.Node) -> HalvesRotation | None:
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


def _is_a_row_a_token(angles: ir.Value, x: ir.Value) -> bool:
    """Return whether cosines (batch, seq, pairs) have the batch and the tokens of x, (batch, heads, seq, features)."""
    if angles.shape is None or x.shape is None or (len(angles.shape), len(x.shape)) != (3, 4):
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
    starts = [slice_of(part, x) for part in (first, second)]
    return width % 2 == 0 and starts == [(0, width // 2), (width // 2, width)]


def slice_of(part: ir.Node, x: ir.Value, every: int = 1) -> tuple[int, int] | None:
    """Return from where to where a Slice takes features of x, each or every second; None for any other Slice."""
    numbers = [integers_of(value) for value in part.inputs[1:]]
    if part.inputs[0] is not x or len(numbers) < 3 or any(one is None or len(one) != 1 for one in numbers):
        return None
    start, end, axis, step = (one[0] for one in [*numbers, [1]][:4] if one is not None)
    assert x.shape is not None
    width = x.shape[3]
    assert isinstance(width, int)
    return (start, min(end, width)) if axis in (-1, 3) and step == every else None


def once(graph: ir.Graph, before: ir.Node, twice: ir.Value, made: dict[ir.Value, ir.Value]) -> ir.Value:
    """Return cosines or sines as the operator takes them, a column a pair: (batch, seq, pairs)."""
    if twice not in made:
        cast = maker_of(twice, "Cast")
        joined = cast.inputs[0] if cast is not None else twice
        concat, interleaved = maker_of(joined, "Concat"), maker_of(joined, "Reshape")
        once = concat.inputs[0] if concat is not None else twice
        if interleaved is not None:
            expand = maker_of(interleaved.inputs[0], "Expand")
            single = maker_of(expand.inputs[0] if expand is not None else None, "Unsqueeze")
            once = single.inputs[0] if single is not None else None
        assert once is not None
        if cast is not None:
            narrow = node("Cast", f"{twice.name}_once", once, to=cast.attributes["to"].as_int())
            narrow.outputs[0].shape, narrow.outputs[0].type = once.shape, twice.type
            graph.insert_before(before, [narrow])
            once = narrow.outputs[0]
        made[twice] = once
    return made[twice]
