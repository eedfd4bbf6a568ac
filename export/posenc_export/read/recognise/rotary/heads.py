"""How wide heads are: what is put beside the turned features."""

from __future__ import annotations

from collections.abc import Iterator

from posenc_export.read.recognise.flow import Flow
from posenc_export.read.values import Data, Meeting, Value


def head_widths(flow: Flow, outputs: tuple[str, ...], rotated: int) -> list[int]:
    """Return the widths that turned features have, alone and beside features that pass."""
    # a head is at least as wide as what is turned of it
    widths = [rotated]
    for node in flow.moved_on(outputs):
        widths += _widths(node, flow.run.values.get(node.outputs[0]), rotated)
    return widths


def _widths(node: Meeting, value: Value | None, rotated: int) -> Iterator[int]:
    """Yield the width of heads where a node puts the features that pass beside the turned ones."""
    if not isinstance(value, Data) or not value.shape:
        return
    if node.op_type == "Concat" and node.attributes.get("axis") in (-1, len(value.shape) - 1):
        yield value.shape[-1]
    if node.op_type in ("ScatterND", "ScatterElements") and node.operands[-1] is not None:
        # exporters move the axis of features to the front before they scatter
        put = node.operands[-1].value
        shape = put.shape if isinstance(put, Data) else ()
        yield from (size for size, part in zip(value.shape, shape, strict=False) if part == rotated < size)
