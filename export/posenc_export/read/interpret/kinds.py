"""What the outputs of a node are: shapes and element types, by the onnx package or by the table of other operators."""

from __future__ import annotations

from collections.abc import Sequence

from posenc_export.read.graph import Node
from posenc_export.read.interpret.contrib import contributed
from posenc_export.read.interpret.shapes import Kind, inferred, schema_of
from posenc_export.read.interpret.state import State
from posenc_export.read.values import Operand


def kinds_of(state: State, node: Node, operands: Sequence[Operand | None]) -> list[Kind | None]:
    """Return what each output of a node is; None where it is not known; raises Stopped where sizes misfit."""
    opsets = state.graph.opsets
    version = opsets.get(node.domain, opsets.get("", 1))
    if schema_of(node.op_type, node.domain, version) is None:
        return contributed(node, operands, opsets)
    return inferred(node, operands, opsets)
