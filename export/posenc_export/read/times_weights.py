"""Tensors that are position values times weights: data, but as long as positions are."""

from __future__ import annotations

from posenc_export.read.interpret.state import is_data, is_positional
from posenc_export.read.values import Meeting, Run

SEAMS = {"Softmax", "LayerNormalization", "SkipLayerNormalization", "SimplifiedLayerNormalization", "LogSoftmax"}
"""Operators behind which data are no longer positions times a weight."""


def key_of(meeting: Meeting) -> str:
    """Return what tells a node from others: its outputs, which are unique, unless loops make them again."""
    return "|".join(meeting.outputs)


def touches_positions(run: Run) -> bool:
    """Return whether the node at which a run stopped takes a position value, or one times a weight."""
    if run.stopped is None or not run.nodes or run.nodes[-1].node != run.stopped[1]:
        return False
    operands = [operand for operand in run.nodes[-1].operands if operand]
    if any(is_positional(operand.value) for operand in operands):
        return True
    weighted = weighted_in(run)
    return any(operand.tensor in weighted for operand in operands)


def weighted_in(run: Run) -> set[str]:
    """Return the tensors that are positions times weights, and what follows from them within a layer."""
    weighted: set[str] = set()
    # a meeting without data is one of positions with a weight
    meetings = {key_of(meeting) for meeting in run.meetings}
    for node in run.nodes:
        operands = [operand for operand in node.operands if operand]
        made = key_of(node) in meetings and not any(is_data(operand.value) for operand in operands)
        if (made and node.op_type != "Gather") or any(operand.tensor in weighted for operand in operands):
            weighted.update(node.outputs if node.op_type not in SEAMS else ())
    return weighted
