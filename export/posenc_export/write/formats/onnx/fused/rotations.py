"""RotaryEmbedding of com.microsoft in the place of a rotation of heads: x cos + Concat(-x2, x1) sin.

Where the cosines of a token follow from its position alone, those of all positions are computed once, by the very nodes
of the graph, and stored; the operator looks them up. Where they follow from the whole call, as those of dynamic NTK
and longrope, the operator gets the rows of the call.

GroupQueryAttention could turn heads itself. In the first call of a text it takes the first position alone, and counts
on from there, so that padding on the left would get other positions than in the next call.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from posenc_export.write.formats.onnx.compatibility import MICROSOFT
from posenc_export.write.formats.onnx.fused.masks import Feeds, Sizes
from posenc_export.write.formats.onnx.fused.parts import GraphPart
from posenc_export.write.formats.onnx.fused.values import features_of, in_rows, sizes_of, stored
from posenc_export.write.formats.onnx.head_rotations import Columns, HeadRotation, rotation_in, slice_of
from posenc_export.write.formats.onnx.lengths import initializer, node
from posenc_export.write.formats.onnx.repeated_heads import maker_of

if TYPE_CHECKING:
    import onnx_ir as ir

    from posenc.ports import Array

OPERATOR = "RotaryEmbedding"
AT_ONCE = 8192
"""Positions whose cosines are computed in one call."""
LARGEST = 2**28
"""Bytes of cosines, or of sines, that are stored at most: longer contexts compute those of a call."""


class Rows(NamedTuple):
    """Cosines and sines as the operator takes them, (rows, pairs), and the row of each token, (batch, tokens)."""

    cos: ir.Value
    sin: ir.Value
    ids: ir.Value


@dataclass
class Rotations:
    """The rotations of a graph, with the rows that they share.

    Args:
        model: the graph.
        feeds: makes the inputs of a call.
        positions: how many positions there are; None where nobody says it.
    """

    model: ir.Model
    feeds: Feeds
    positions: int | None
    rows: dict[tuple[Columns, Columns], Rows] = field(default_factory=dict)
    casts: dict[Columns, ir.Value] = field(default_factory=dict)
    tables: list[ir.Value] = field(default_factory=list)

    def turned(self, before: ir.Node, heads: ir.Value) -> ir.Value:
        """Return heads as rows of tokens, (batch, tokens, heads x features); by the operator, if they are turned."""
        import onnx_ir as ir

        graph = self.model.graph
        turned = rotation_of(heads)
        if turned is None:
            return in_rows(graph, before, heads)
        found, width = turned
        rows = self._rows(before, found)
        x, sizes = in_rows(graph, before, found.x), sizes_of(heads, 4)
        attributes = {"interleaved": 1} if found.interleaved else {}
        if width != sizes[3]:
            attributes |= {"num_heads": features_of(sizes[1]), "rotary_embedding_dim": width}
        y = ir.Value(name=f"{heads.name}_turned", type=x.type, shape=x.shape)
        inputs = [x, rows.ids, rows.cos, rows.sin]
        turn = ir.node(OPERATOR, inputs, attributes, domain=MICROSOFT, outputs=[y], name=f"{heads.name}_turn")
        graph.insert_before(before, [turn])
        return y

    def _rows(self, before: ir.Node, rotation: HeadRotation) -> Rows:
        key = rotation.cos, rotation.sin
        if key not in self.rows:
            cos, sin = (each.narrow(self.model.graph, before, self.casts) for each in key)
            self.rows[key] = self._of_positions(cos, sin) or self._of_call(before, cos, sin)
        return self.rows[key]

    def _of_positions(self, cos: ir.Value, sin: ir.Value) -> Rows | None:
        """Return the rows of all positions, or None where they follow from more than a position each."""
        pairs = features_of(sizes_of(cos, 3)[2])
        if not self.positions or self.positions * pairs * 4 > LARGEST:
            return None
        try:
            parts = [GraphPart(self.model, value) for value in (cos, sin)]
        except ValueError:
            return None
        read = [*{each for part in parts for each in part.inputs}]
        ids = read[0] if len(read) == 1 else None
        if ids is None or ids.shape is None or len(ids.shape) != 2:
            return None
        tables = [_table(part, ids, self.positions, self.feeds) for part in parts]
        if any(table is None for table in tables):
            return None
        stored_rows = [self._table(name, table) for name, table in zip(("cos", "sin"), tables, strict=True)]
        return Rows(stored_rows[0], stored_rows[1], ids)

    def _table(self, name: str, table: Array | None) -> ir.Value:
        """Return stored rows, once for the same numbers."""
        assert table is not None
        for each in self.tables:
            assert each.const_value is not None
            if np.array_equal(each.const_value.numpy(), table):
                return each
        count = len(self.tables) // 2
        value = initializer(self.model.graph, f"{name}_cache{f'_{count}' if count else ''}", table)
        self.tables.append(value)
        return value

    def _of_call(self, before: ir.Node, cos: ir.Value, sin: ir.Value) -> Rows:
        """Return the rows of a call's tokens, one behind the other, and their numbers."""
        graph = self.model.graph
        flat = stored(graph, f"rows_of_pairs_{cos.name}", [-1, features_of(sizes_of(cos, 3)[2])])
        columns = [node("Reshape", f"{each.name}_rows", each, flat) for each in (cos, sin)]
        zero, one = (stored(graph, f"row_{number}", np.array(number, np.int64)) for number in (0, 1))
        count = node("Shape", f"{cos.name}_count", columns[0].outputs[0], start=0, end=1)
        end = node("Squeeze", f"{cos.name}_end", count.outputs[0])
        numbers = node("Range", f"{cos.name}_numbers", zero, end.outputs[0], one)
        sizes = node("Shape", f"{cos.name}_sizes", cos, start=0, end=2)
        ids = node("Reshape", f"{cos.name}_ids", numbers.outputs[0], sizes.outputs[0])
        graph.insert_before(before, [*columns, count, end, numbers, sizes, ids])
        return Rows(columns[0].outputs[0], columns[1].outputs[0], ids.outputs[0])


def rotation_of(heads: ir.Value) -> tuple[HeadRotation, int] | None:
    """Return the rotation that heads are the result of, and how many features are turned; None where none are.

    The first ones are turned, and the others pass: Concat(turned, others), behind two Slices of what goes in.
    """
    maker = heads.producer()
    if maker is None or heads.shape is None or len(heads.shape) != 4:
        return None
    found = rotation_in(maker)
    if found is not None:
        return found, features_of(heads.shape[3])
    if maker.op_type != "Concat" or len(maker.inputs) != 2 or maker.attributes["axis"].as_int() not in (-1, 3):
        return None
    turned = maker.inputs[0].producer() if maker.inputs[0] is not None else None
    found, rest = rotation_in(turned) if turned is not None else None, maker_of(maker.inputs[1], "Slice")
    first = maker_of(found.x, "Slice") if found is not None else None
    x = first.inputs[0] if first is not None else None
    if found is None or first is None or rest is None or x is None or x.shape is None or x.shape[3] != heads.shape[3]:
        return None
    width = features_of(sizes_of(found.x, 4)[3])
    ends = slice_of(first, x), slice_of(rest, x)
    return (found._replace(x=x), width) if ends == ((0, width), (width, heads.shape[3])) else None


def _table(part: GraphPart, ids: ir.Value, positions: int, feeds: Feeds) -> Array | None:
    """Return a row a position, (positions, pairs); None where a row is another in another call."""
    name = str(ids.name)
    _, shapes = feeds(Sizes(1, 1, 0), "none")
    blocks = [np.arange(start, min(start + AT_ONCE, positions))[None] for start in range(0, positions, AT_ONCE)]
    some = np.random.default_rng(0).integers(positions, size=(3, 7))
    some[:, 0] = positions - 1
    # a call of short texts, and of longer ones: longrope has other frequencies from some length on
    shorter = [np.arange(2**power)[None] for power in range(max(positions - 1, 1).bit_length())]
    calls = [*blocks, some, some[:, ::-1] // 3, *shorter]
    try:
        values = part.values([{name: each} for each in calls], [{**shapes, name: each.shape} for each in calls])
    except Exception:  # it needs more than positions, or has no such position
        return None
    table: Array = np.concatenate([each[0] for each in values[: len(blocks)]])
    tries = zip(calls[len(blocks) :], values[len(blocks) :], strict=True)
    return table if all(np.array_equal(table[ids], rows) for ids, rows in tries) else None
