"""Values of a graph by what makes them: single numbers, casts, heads that are split and joined."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_export.write.formats.onnx.lengths import initializer, node
from posenc_export.write.formats.onnx.repeated_heads import maker_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from posenc.ports import Array

HEADS_FIRST = (0, 2, 1, 3)
"""How heads and tokens change places."""


def number_of(value: ir.Value | None) -> float | None:
    """Return the one number that a stored value holds, or the cast of one; None for any other value."""
    value = without_casts(value)
    if value is None or value.const_value is None or value.const_value.size != 1:
        return None
    return float(value.const_value.numpy().reshape(()))


def without_casts(value: ir.Value | None) -> ir.Value | None:
    """Return what is cast, as often as it is."""
    while (cast := maker_of(value, "Cast") or maker_of(value, "CastLike")) is not None:
        value = cast.inputs[0]
    return value


def sizes_of(value: ir.Value | None, rank: int) -> Sequence[int | ir.SymbolicDim]:
    """Return the sizes of a value that has so many axes."""
    assert value is not None
    assert value.shape is not None
    assert len(value.shape) == rank
    return [*value.shape]


def features_of(size: int | ir.SymbolicDim) -> int:
    """Return a size that no call changes."""
    assert isinstance(size, int)
    return size


def is_swap(swap: ir.Node | None) -> bool:
    """Return whether a node has heads and tokens change places."""
    return swap is not None and tuple(swap.attributes["perm"].as_ints()) == HEADS_FIRST


def in_rows(graph: ir.Graph, before: ir.Node, value: ir.Value) -> ir.Value:
    """Return heads (batch, heads, tokens, features) as rows of tokens, (batch, tokens, heads x features).

    Where the heads were split from such rows, these are returned.
    """
    import onnx_ir as ir

    sizes = sizes_of(value, 4)
    width = features_of(sizes[1]) * features_of(sizes[3])
    swap = maker_of(value, "Transpose")
    if swap is None or not is_swap(swap):
        swap = node("Transpose", f"{value.name}_by_token", value, perm=list(HEADS_FIRST))
        graph.insert_before(before, [swap])
    by_token = swap.inputs[0] if swap.outputs[0] is value else swap.outputs[0]
    split = maker_of(by_token, "Reshape")
    rows = split.inputs[0] if split is not None else None
    if rows is not None and rows.shape is not None and len(rows.shape) == 3 and rows.shape[2] == width:
        return rows
    assert by_token is not None
    joined = node("Reshape", f"{value.name}_rows", by_token, stored(graph, f"rows_of_{width}", [0, 0, width]))
    joined.outputs[0].type, joined.outputs[0].shape = value.type, ir.Shape([sizes[0], sizes[2], width])
    graph.insert_before(before, [joined])
    return joined.outputs[0]


def stored(graph: ir.Graph, name: str, numbers: Sequence[int] | Array) -> ir.Value:
    """Return a constant that a graph stores, once for each name; a sequence becomes int64."""
    return graph.initializers[name] if name in graph.initializers else initializer(graph, name, numbers)
