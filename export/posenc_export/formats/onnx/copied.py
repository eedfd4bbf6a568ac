"""Tensors that a GPU's provider copies from the CPU: their axes have no names in a file.

By the names of axes ONNX Runtime sees that two tensors have one size, and puts the second where the first was. The
older WebGPU provider of onnxruntime-web (JSEP) copies at once what the CPU has computed, while the kernels that read the
first tensor may still wait: they then read the second. Without names every such tensor has a place of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir


def unname_copied_axes(model: ir.Model) -> None:
    """Take the names of axes from integers, flags, float64 and their casts, which GPUs leave to the CPU, in place."""
    import onnx_ir as ir

    on_gpu = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
    outputs = set(model.graph.outputs)
    for node in model.graph:
        for value in node.outputs:
            is_copied = node.op_type == "Cast" or value.dtype not in on_gpu
            if is_copied and value.shape is not None and value not in outputs:
                value.shape = ir.Shape([size if isinstance(size, int) else None for size in value.shape])
