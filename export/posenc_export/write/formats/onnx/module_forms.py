"""Forms of what torch.onnx writes of a user's module with fewer nodes: for one token a node costs as much as its work.

Mul(x, Reciprocal(Sqrt(y))) becomes Div(x, Sqrt(y)): ONNX Runtime makes one operator of a norm that has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_export.write.formats.onnx.forms import put
from posenc_export.write.formats.onnx.lengths import node

if TYPE_CHECKING:
    import onnx_ir as ir


def shorten(model: ir.Model) -> None:
    """Write nodes of a graph in forms with fewer nodes, in place."""
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    for old in list(model.graph):
        if old.op_type == "Mul" and (quotient := _by_root(old)) is not None:
            put(model.graph, old, [quotient])
    RemoveUnusedNodesPass()(model)


def _by_root(product: ir.Node) -> ir.Node | None:
    """Return a division by a root for a product with its reciprocal; None for any other product."""
    for place, factor in enumerate(product.inputs):
        reciprocal = factor.producer() if factor is not None else None
        root = reciprocal.inputs[0] if reciprocal is not None and reciprocal.op_type == "Reciprocal" else None
        other, maker = product.inputs[1 - place], root.producer() if root is not None else None
        if root is not None and other is not None and maker is not None and maker.op_type == "Sqrt":
            return node("Div", f"{product.outputs[0].name}_by_root", other, root)
    return None
