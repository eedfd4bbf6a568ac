"""Rotations of the halves of heads, as models compute them: x cos + Concat(-x2, x1) sin."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from posenc_export.write.formats.onnx.forms import integers_of
from posenc_export.write.formats.onnx.lengths import node
from posenc_export.write.formats.onnx.repeated_heads import maker_of, size_of

if TYPE_CHECKING:
    import onnx_ir as ir

FLOATS = ("FLOAT", "FLOAT16", "BFLOAT16")
"""Types that RotaryEmbedding of ai.onnx turns."""


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
    starts = [slice_of(part, x) for part in (first, second)]
    return width % 2 == 0 and starts == [(0, width // 2), (width // 2, width)]


def slice_of(part: ir.Node, x: ir.Value) -> tuple[int, int] | None:
    """Return from where to where a Slice takes features of x; None for any other Slice."""
    numbers = [integers_of(value) for value in part.inputs[1:]]
    if part.inputs[0] is not x or len(numbers) < 3 or any(one is None or len(one) != 1 for one in numbers):
        return None
    start, end, axis, step = (one[0] for one in [*numbers, [1]][:4] if one is not None)
    assert x.shape is not None
    width = x.shape[3]
    assert isinstance(width, int)
    return (start, min(end, width)) if axis in (-1, 3) and step == 1 else None


def once(graph: ir.Graph, before: ir.Node, twice: ir.Value, made: dict[ir.Value, ir.Value]) -> ir.Value:
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
