"""Forms of operators with positions that a runtime refuses: ids for a batch of one, ids that are left out."""

from __future__ import annotations

from collections.abc import Iterator

from posenc_export.read.findings import finding
from posenc_export.read.inspection import Finding
from posenc_export.read.values import Meeting, Position, Run, Unknown, Value

IDS = {
    ("com.microsoft", "RotaryEmbedding"): 1,
    ("", "RotaryEmbedding"): 3,
    ("com.microsoft", "EmbedLayerNormalization"): 8,
}
"""The operand with position ids, by the operator; it has as many rows as operand 0."""
REFUSED = (
    "position_ids are left out, with caches of three axes: some releases of ONNX Runtime refuse that form "
    "(issues 28604 and 29707 there), and none fuses it into GroupQueryAttention"
)


def form_findings(run: Run) -> Iterator[Finding]:
    """Yield the nodes of a run in forms that a runtime refuses, those of a kind in one finding."""
    narrow = [node for node in run.nodes if _is_for_batch_of_one(node)]
    if narrow:
        batch = _rows(narrow[0], 0)
        words = f"position_ids have 1 row, and the batch is {batch}: {narrow[0].op_type} takes no larger batch than 1"
        yield finding("batch-of-one", _names(narrow), words)
    without = [node for node in run.nodes if (node.domain, node.op_type) == ("", "RotaryEmbedding")]
    refused = [node for node in without if _operand(node, IDS["", "RotaryEmbedding"]) is None]
    if refused:
        yield finding("rejected-form", _names(refused), REFUSED)


def _names(nodes: list[Meeting]) -> str:
    return nodes[0].node + (f" and {len(nodes) - 1} more" if len(nodes) > 1 else "")


def _is_for_batch_of_one(node: Meeting) -> bool:
    place = IDS.get((node.domain, node.op_type))
    if place is None:
        return False
    batch, rows = _rows(node, 0), _rows(node, place)
    # ids of one axis are a start, which every sequence of the batch has
    return batch is not None and batch > 1 and rows == 1


def _rows(node: Meeting, place: int) -> int | None:
    """Return the first size of an operand of several axes; None where it has fewer, or is not there."""
    value = _operand(node, place)
    shape = None if value is None else _shape(value)
    return shape[0] if shape is not None and len(shape) > 1 else None


def _operand(node: Meeting, place: int) -> Value | None:
    operand = node.operands[place] if place < len(node.operands) else None
    return None if operand is None else operand.value


def _shape(value: Value) -> tuple[int, ...] | None:
    if isinstance(value, Unknown):
        return None
    return value.array.shape if isinstance(value, Position) else value.shape
