"""SkipSimplifiedLayerNormalization of com.microsoft: a sum, and its norm by the root of its mean square.

s = x + y;  w s / Sqrt(ReduceMean(s^2) + eps)       the operator, whose fourth output is s
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_export.write.formats.onnx.compatibility import MICROSOFT
from posenc_export.write.formats.onnx.forms import integers_of, put_value
from posenc_export.write.formats.onnx.fused.values import number_of
from posenc_export.write.formats.onnx.repeated_heads import maker_of

if TYPE_CHECKING:
    import onnx_ir as ir

OPERATOR = "SkipSimplifiedLayerNormalization"


def fuse_norms(model: ir.Model) -> int:
    """Write sums and their norms as one operator, in place; return how many."""
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    count = sum(_fuse(model.graph, each) for each in list(model.graph) if each.op_type == "Mul")
    if count:
        model.graph.opset_imports.setdefault(MICROSOFT, 1)
        RemoveUnusedNodesPass()(model)
    return count


def _fuse(graph: ir.Graph, scaled: ir.Node) -> bool:
    import onnx_ir as ir

    for weight, normed in (scaled.inputs[:2], scaled.inputs[1::-1]):
        quotient = maker_of(normed, "Div")
        if weight is None or weight.const_value is None or len(weight.const_value.shape) != 1 or quotient is None:
            continue
        total, root = quotient.inputs[0], maker_of(quotient.inputs[1], "Sqrt")
        shifted = maker_of(root.inputs[0] if root is not None else None, "Add")
        mean = maker_of(shifted.inputs[0], "ReduceMean") if shifted is not None else None
        squares = maker_of(mean.inputs[0], "Pow") if mean is not None else None
        epsilon = number_of(shifted.inputs[1]) if shifted is not None else None
        if mean is None or squares is None or epsilon is None or total is None:
            continue
        made = maker_of(total, "Add")
        is_square = squares.inputs[0] is total and number_of(squares.inputs[1]) == 2.0
        if made is None or not is_square or integers_of(mean.inputs[1]) != [-1]:
            continue
        width = weight.const_value.shape[0]
        if any(
            each is None or each.shape is None or len(each.shape) != 3 or each.shape[2] != width for each in made.inputs
        ):
            continue
        name = scaled.outputs[0].name
        outputs = [
            ir.Value(name=f"{name}_fused"),
            ir.Value(name=""),
            ir.Value(name=""),
            ir.Value(name=f"{total.name}_sum"),
        ]
        fused = ir.node(
            OPERATOR,
            [*made.inputs, weight],
            {"epsilon": epsilon},
            domain=MICROSOFT,
            outputs=outputs,
            name=f"{name}_fused",
        )
        graph.insert_before(made, [fused])
        put_value(graph, scaled.outputs[0], outputs[0])
        put_value(graph, total, outputs[3])
        return True
    return False
