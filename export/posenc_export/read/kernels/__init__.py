"""One node on concrete arrays: kernels in NumPy, the onnx package's reference, ONNX Runtime, within a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from posenc_export.read.graph import Node
from posenc_export.read.kernels import (
    casts,
    elementwise,
    elsewhere,
    gathering,
    making,
    moving,
    padding,
    products,
    reducing,
)
from posenc_export.read.kernels.call import BUDGET, Elsewhere, Kernel, KernelCall, NoKernel, TooLarge
from posenc_export.read.values import Array

__all__ = ["BUDGET", "NoKernel", "TooLarge", "compute"]

PARTS = (casts, elementwise, gathering, making, moving, padding, products, reducing)
KERNELS: dict[str, Kernel] = {name: kernel for part in PARTS for name, kernel in part.KERNELS.items()}
"""Kernels of ONNX's own operators, by name."""
ALSO = {
    ("com.microsoft", name)
    for name in ("Range", "Trilu", "GatherND", "DequantizeLinear", "QuantizeLinear", "FusedMatMul")
}  # fmt: skip
"""Operators that ONNX Runtime has in its own domain, most of them since before ONNX had them."""
MOVES = {*moving.KERNELS, *gathering.KERNELS}
"""Operators that move elements of any type."""
MALFORMED = (TypeError, IndexError, OverflowError, ZeroDivisionError)
"""What NumPy and Python raise, beside ValueError, where inputs or attributes are not those of the operator."""
NEWEST = onnx.defs.onnx_opset_version()
"""A version for a domain that the file does not import: the newest form of each operator."""


def compute(node: Node, opsets: Mapping[str, int], arrays: Sequence[Array | None], budget: int = BUDGET) -> list[Array]:
    """Return the outputs of a node, in its own element types, without those at the end that nobody asked for.

    Raises TooLarge where the outputs would take more than the budget, NoKernel where nothing computes the operator, and
    ValueError where the arrays do not fit it. Outputs may be views of inputs: none may be written to.

    Args:
        node: the node.
        opsets: versions of operators, by domain.
        arrays: its inputs in order; None for an input that is left out.
        budget: bytes that its outputs may take.
    """
    call = KernelCall(node, opsets.get(node.domain, NEWEST), arrays, budget)
    kernel = KERNELS.get(node.op_type) if not node.domain or (node.domain, node.op_type) in ALSO else None
    if kernel is None or _has_others(call):
        return elsewhere.compute(call)
    try:
        # overflow and division by zero have results in a runtime, too
        with np.errstate(all="ignore"):
            return kernel(call)[: len(node.outputs)]
    except Elsewhere:
        return elsewhere.compute(call)
    except MALFORMED as error:
        text = str(error).strip().splitlines()
        raise ValueError(f"{node.op_type} cannot be computed: {text[0] if text else type(error).__name__}") from error
    except MemoryError as error:
        raise TooLarge(f"{node.op_type} takes more memory than there is") from error


def _has_others(call: KernelCall) -> bool:
    # texts and complex numbers are moved as others are, and computed with by nothing here
    can_move = call.node.op_type in MOVES
    return not can_move and any(array.dtype.kind in "Oc" for array in call.present())
