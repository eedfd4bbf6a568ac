"""Tensors that a GPU's provider copies from the CPU: no two of them are known to have one shape.

Where ONNX Runtime knows that two tensors have one shape, it puts the second where the first was. The older WebGPU
provider of onnxruntime-web (JSEP) copies at once what the CPU has computed, while the kernels that read the first
tensor may still wait: they then read the second. So

    axes of such a tensor have no names          only by its name is the length of a call known to be one
    two Casts to float32 of one shape, (1,)      Squeeze(Cast(Unsqueeze(x))): the second is of shape (1, 1)

Integers, flags and float64 are computed on the CPU, and so are their Casts.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from posenc_export.formats.onnx.lengths import initializer, node

if TYPE_CHECKING:
    import onnx_ir as ir


def keep_copies_apart(model: ir.Model) -> None:
    """Take the names of axes from tensors that are copied, and the shape that two Casts have in common, in place."""
    import onnx_ir as ir

    on_gpu = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
    casts: Counter[str] = Counter()  # by shape
    for old in list(model.graph):
        for value in old.outputs:
            is_cast = old.op_type == "Cast"
            if value.shape is None or value in model.graph.outputs or (value.dtype in on_gpu and not is_cast):
                continue
            shape = str(value.shape)
            if is_cast and value.dtype in on_gpu:
                _widen(model.graph, old, casts[shape])
                casts[shape] += 1
            value.shape = ir.Shape([size if isinstance(size, int) else None for size in value.shape])


def _widen(graph: ir.Graph, cast: ir.Node, more: int) -> None:
    """Have a Cast give a tensor with more axes of one, which the next node takes away."""
    import onnx_ir as ir

    source, value = cast.inputs[0], cast.outputs[0]
    if not more or source is None or value.shape is None:
        return
    axes = initializer(graph, f"{value.name}_more_axes", range(more))
    users = list(value.uses())
    wide = node("Unsqueeze", f"{value.name}_unsqueezed", source, axes)
    narrow = node("Squeeze", f"{value.name}_squeezed", value, axes)
    graph.insert_before(cast, [wide])
    graph.insert_after(cast, [narrow])
    cast.replace_input_with(0, wide.outputs[0])
    for user in users:
        user.node.replace_input_with(user.idx, narrow.outputs[0])
    narrow.outputs[0].shape, narrow.outputs[0].type = value.shape, value.type
    value.shape = ir.Shape([*[1] * more, *value.shape])
