"""Tensors that a GPU's provider copies from the CPU: no two of them are known to have one shape.

Where ONNX Runtime knows that two tensors have one shape, it puts the second where the first was. The older WebGPU
provider of onnxruntime-web (JSEP) copies at once what the CPU has computed, while the kernels that read the first
tensor may still wait: they then read the second. So

    axes of such a tensor have no names          only by its name is the length of a call known to be one
    two Casts to float32, both of shape (1,)     Squeeze(Cast(Unsqueeze(x))): the second is of shape (1, 1)

Integers, flags and float64 are computed on the CPU, and so are float32 rows that are computed from float64.
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

    counts: Counter[tuple[int, ...]] = Counter()
    on_gpu = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
    values = [value for old in model.graph for value in old.outputs]
    all_on_cpu = any(value.dtype == ir.DataType.DOUBLE for value in values)
    for old in list(model.graph):
        for value in old.outputs:
            if old.op_type == "Cast" and value.dtype in on_gpu:
                _keep_shape_apart(model.graph, old, counts)
            if all_on_cpu or old.op_type == "Cast" or value.dtype not in on_gpu:
                _unname_axes(model.graph, value)


def _unname_axes(graph: ir.Graph, value: ir.Value) -> None:
    import onnx_ir as ir

    if value.shape is not None and value not in graph.outputs:
        value.shape = ir.Shape([size if isinstance(size, int) else None for size in value.shape])


def _keep_shape_apart(graph: ir.Graph, cast: ir.Node, counts: Counter[tuple[int, ...]]) -> None:
    """Give a Cast of a fixed shape more axes of one than each Cast before it with that shape."""
    import onnx_ir as ir

    source, value = cast.inputs[0], cast.outputs[0]
    sizes = tuple(size for size in value.shape or (None,) if isinstance(size, int))
    if source is None or len(sizes) != len(value.shape or (None,)) or value in graph.outputs:
        return
    more, name = counts[sizes], str(value.name)
    counts[sizes] += 1
    if more:
        axes = initializer(graph, f"{name}_more_axes", range(more))
        users = list(value.uses())
        wide = node("Unsqueeze", f"{name}_unsqueezed", source, axes)
        narrow = node("Squeeze", f"{name}_squeezed", value, axes)
        graph.insert_before(cast, [wide])
        graph.insert_after(cast, [narrow])
        cast.replace_input_with(0, wide.outputs[0])
        for user in users:
            user.node.replace_input_with(user.idx, narrow.outputs[0])
        narrow.outputs[0].shape, narrow.outputs[0].type = value.shape, value.type
        value.shape = ir.Shape([*[1] * more, *sizes])
