"""Rotations of heads, as models compute them: pairs are a feature and the one half a head further on, or neighbours.

    x cos + Concat(-x2, x1) sin                          halves; cosines: Concat(c, c)
    Concat(x1 c - x2 s, x2 c + x1 s)                     halves, each on its own
    x cos + Reshape([-x[1::2], x[::2]], features) sin    neighbours; cosines: Reshape(Expand(Unsqueeze(c))), each twice

c has a column a pair, (batch, tokens, pairs), as the operators take it.
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


class Columns(NamedTuple):
    """Cosines or sines, a column a pair: (batch, tokens, pairs).

    Args:
        value: as the graph has them.
        cast: what the graph casts them to, where it does so after it has put them side by side.
    """

    value: ir.Value
    cast: int | None = None

    def narrow(self, graph: ir.Graph, before: ir.Node, made: dict[Columns, ir.Value]) -> ir.Value:
        """Return them in the dtype of the heads; `made` keeps the casts that there are."""
        if self.cast is None:
            return self.value
        if self not in made:
            import onnx_ir as ir

            cast = node("Cast", f"{self.value.name}_narrow", self.value, to=self.cast)
            cast.outputs[0].shape, cast.outputs[0].dtype = self.value.shape, ir.DataType(self.cast)
            graph.insert_before(before, [cast])
            made[self] = cast.outputs[0]
        return made[self]


class HeadRotation(NamedTuple):
    """A rotation of all features of heads.

    Args:
        x: the heads that are turned, (batch, heads, tokens, features).
        cos: cosines.
        sin: sines.
        interleaved: whether neighbours make a pair; else a feature and the one half a head further on.
    """

    x: ir.Value
    cos: Columns
    sin: Columns
    interleaved: bool = False


def rotation_in(node_: ir.Node) -> HeadRotation | None:
    """Return the rotation that a sum or a Concat is; None where it is none, or none that an operator computes."""
    found = _sum(node_) if node_.op_type == "Add" else _halves_apart(node_) if node_.op_type == "Concat" else None
    # the operators have no double, and repeat no cosines for a batch
    if found is None or found.x.dtype is None or found.x.dtype.name not in FLOATS:
        return None
    return found if all(_is_a_row_a_token(each.value, found.x) for each in (found.cos, found.sin)) else None


def _sum(total: ir.Node) -> HeadRotation | None:
    """Return the rotation x cos + y sin, where y has the features of x turned by a quarter."""
    products = [maker_of(value, "Mul") for value in total.inputs]
    for plain, turned in (products, products[::-1]):
        if plain is None or turned is None:
            return None
        for x, cos in (plain.inputs[:2], plain.inputs[1::-1]):
            for quarter, sin in (turned.inputs[:2], turned.inputs[1::-1]):
                if x is None:
                    continue
                for columns, is_turned, interleaved in (
                    (_side_by_side, _is_turned, False),
                    (_each_twice, _are_neighbours, True),
                ):
                    of_cos, of_sin = columns(cos), columns(sin)
                    if of_cos is not None and of_sin is not None and is_turned(quarter, x):
                        return HeadRotation(x, of_cos, of_sin, interleaved)
    return None


def _halves_apart(concat: ir.Node) -> HeadRotation | None:
    """Return the rotation Concat(x1 cos - x2 sin, x2 cos + x1 sin) of the halves that a Split makes of x."""
    if len(concat.inputs) != 2 or not _is_last(concat, 4):
        return None
    less, more = maker_of(concat.inputs[0], "Sub"), maker_of(concat.inputs[1], "Add")
    products = [maker_of(value, "Mul") for each in (less, more) if each is not None for value in each.inputs]
    factors = [each.inputs[:2] for each in products if each is not None]
    if len(factors) != 4:
        return None
    (x1, cos), (x2, sin), *others = map(tuple, factors)
    split = x1.producer() if x1 is not None else None
    if split is None or split.op_type != "Split" or [*split.outputs] != [x1, x2] or others != [(x2, cos), (x1, sin)]:
        return None
    x, *wide = split.inputs[0], maker_of(cos, "Unsqueeze"), maker_of(sin, "Unsqueeze")
    once = [each.inputs[0] for each in wide if each is not None and integers_of(each.inputs[1]) == [1]]
    if x is None or len(once) != 2 or once[0] is None or once[1] is None:
        return None
    return HeadRotation(x, Columns(once[0]), Columns(once[1]))


def _side_by_side(value: ir.Value | None) -> Columns | None:
    """Return c of Unsqueeze(Concat(c, c)), (batch, 1, tokens, 2 pairs), or of a cast of it."""
    inner, cast = _without_heads(value)
    concat = maker_of(inner, "Concat")
    if concat is None or len(concat.inputs) != 2 or concat.inputs[0] is not concat.inputs[1]:
        return None
    once = concat.inputs[0]
    return Columns(once, cast) if once is not None and _is_last(concat, 3) else None


def _each_twice(value: ir.Value | None) -> Columns | None:
    """Return c of numbers of which each comes twice in a row: Unsqueeze(Reshape(Expand(Unsqueeze(c)))), or of a cast.

    Also of the first half of numbers side by side: Reshape(Expand(Unsqueeze(Slice(Unsqueeze(Concat(c, c)))))).
    """
    inner, cast = _without_heads(value)
    single = _doubled(inner)
    if single is not None:
        return Columns(single, cast) if single.shape is not None and len(single.shape) == 3 else None
    half = maker_of(_doubled(value), "Slice")
    columns = half.inputs[0] if half is not None else None
    if half is None or columns is None or columns.shape is None or len(columns.shape) != 4:
        return None
    width = columns.shape[3]
    is_first = isinstance(width, int) and slice_of(half, columns) == (0, width // 2)
    return _side_by_side(columns) if is_first else None


def _without_heads(value: ir.Value | None) -> tuple[ir.Value | None, int | None]:
    """Return what gets an axis of heads, without a cast, and what the cast is to."""
    unsqueeze = maker_of(value, "Unsqueeze")
    if unsqueeze is None or integers_of(unsqueeze.inputs[1]) != [1]:
        return None, None
    cast = maker_of(unsqueeze.inputs[0], "Cast")
    return (unsqueeze.inputs[0], None) if cast is None else (cast.inputs[0], cast.attributes["to"].as_int())


def _doubled(value: ir.Value | None) -> ir.Value | None:
    """Return numbers of which a value has each twice in a row along the last axis: Reshape(Expand(Unsqueeze(c)))."""
    joined = maker_of(value, "Reshape")
    expand = maker_of(joined.inputs[0] if joined is not None else None, "Expand")
    single = maker_of(expand.inputs[0] if expand is not None else None, "Unsqueeze")
    once = single.inputs[0] if single is not None else None
    if joined is None or expand is None or once is None or once.shape is None:
        return None
    wide, twice = expand.outputs[0].shape, joined.outputs[0].shape
    pairs = once.shape[-1]
    if wide is None or twice is None or not isinstance(pairs, int):
        return None
    right = [*wide][len(once.shape) - 1 :] == [pairs, 2] and twice[-1] == 2 * pairs and len(twice) == len(once.shape)
    return once if right else None


def _is_last(concat: ir.Node, rank: int) -> bool:
    """Return whether a Concat of so many axes joins along the last."""
    axes = len(concat.outputs[0].shape or ())
    return axes == rank and concat.attributes["axis"].as_int() in (-1, rank - 1)


def _is_a_row_a_token(angles: ir.Value, x: ir.Value) -> bool:
    """Return whether (batch, tokens, pairs) of cosines are those of x, (batch, heads, tokens, features)."""
    if angles.shape is None or x.shape is None or (len(angles.shape), len(x.shape)) != (3, 4):
        return False
    return [size_of(angles.shape[axis]) for axis in (0, 1)] == [size_of(x.shape[axis]) for axis in (0, 2)]


def _is_turned(value: ir.Value | None, x: ir.Value) -> bool:
    """Return whether a value is the second half of x, negative, before the first: (batch, heads, tokens, features)."""
    concat = maker_of(value, "Concat")
    if concat is None or len(concat.inputs) != 2 or x.shape is None or len(x.shape) != 4:
        return False
    negative, first = maker_of(concat.inputs[0], "Neg"), maker_of(concat.inputs[1], "Slice")
    second, width = maker_of(negative.inputs[0] if negative is not None else None, "Slice"), x.shape[3]
    if (
        first is None
        or second is None
        or not isinstance(width, int)
        or concat.attributes["axis"].as_int() not in (-1, 3)
    ):
        return False
    starts = [slice_of(part, x) for part in (first, second)]
    return width % 2 == 0 and starts == [(0, width // 2), (width // 2, width)]


def _are_neighbours(value: ir.Value | None, x: ir.Value) -> bool:
    """Return whether a value has the neighbours of x by turns, the second negative before the first."""
    joined = maker_of(value, "Reshape")
    concat = maker_of(joined.inputs[0] if joined is not None else None, "Concat")
    if concat is None or len(concat.inputs) != 2 or x.shape is None or len(x.shape) != 4 or not _is_last(concat, 5):
        return False
    width = x.shape[3]
    singles = [maker_of(part, "Unsqueeze") for part in concat.inputs]
    single = [each.inputs[0] for each in singles if each is not None and integers_of(each.inputs[1]) in ([-1], [4])]
    negative = maker_of(single[0], "Neg") if len(single) == 2 else None
    second = maker_of(negative.inputs[0] if negative is not None else None, "Slice")
    first = maker_of(single[1], "Slice") if len(single) == 2 else None
    if first is None or second is None or not isinstance(width, int):
        return False
    return [slice_of(part, x, 2) for part in (first, second)] == [(0, width), (1, width)]


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
