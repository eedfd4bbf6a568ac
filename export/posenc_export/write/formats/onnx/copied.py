"""Tensors that a GPU's provider copies from the CPU: no two of them are known to have one shape.

Where ONNX Runtime knows that two tensors have one shape, it puts the second where the first was. The older WebGPU
provider of onnxruntime-web (JSEP) copies at once what the CPU has computed, while the kernels that read the first
tensor may still wait: they then read the second. So

    axes of such a tensor have no names          only by its name is the length of a call known to be one
    two Casts to float32 of one shape, (1,)      Squeeze(Cast(Unsqueeze(x))): the second is of shape (1, 1)
    two Gathers by indices of three axes         Squeeze(Gather(rows, Unsqueeze(indices))): ONNX Runtime finds the
                                                 names of their axes itself, from the inputs that they come from

Integers, flags and float64 are computed on the CPU, and so are their Casts.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from posenc_export.write.formats.onnx.lengths import initializer, node

if TYPE_CHECKING:
    import onnx_ir as ir

LEAST = 3
"""Axes of indices: fewer of them are copied, and none of them from inputs that name their axes."""


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
    _keep_indices_apart(model.graph)


def _keep_indices_apart(graph: ir.Graph) -> None:
    """Give indices more axes of one than those of a Gather before it have, and take them away behind the Gather."""
    numbered: list[ir.Value] = []
    for gather in [old for old in graph if old.op_type == "Gather" and _reads_rows(graph, old)]:
        indices, rows = gather.inputs[1], gather.outputs[0]
        assert indices is not None
        if indices not in numbered:
            numbered.append(indices)
        more, name = numbered.index(indices), str(rows.name)
        if more:
            first = gather.attributes["axis"].as_int() if "axis" in gather.attributes else 0
            wide = node("Unsqueeze", f"{name}_indices", indices, initializer(graph, f"{name}_before", range(more)))
            behind = initializer(graph, f"{name}_behind", range(first, first + more))
            _put_around(graph, gather, wide, 1, node("Squeeze", f"{name}_squeezed", rows, behind))


def _reads_rows(graph: ir.Graph, gather: ir.Node) -> bool:
    """Return whether a Gather reads rows on a GPU, by computed indices of three axes or more."""
    import onnx_ir as ir

    indices, rows = gather.inputs[1], gather.outputs[0]
    on_gpu = rows.dtype in (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
    is_computed = indices is not None and indices.producer() is not None and len(indices.shape or ()) >= LEAST
    return on_gpu and is_computed and rows not in graph.outputs


def _put_around(graph: ir.Graph, middle: ir.Node, before: ir.Node, place: int, after: ir.Node) -> None:
    """Put one node before an input of another, and one behind its output, which gives what that output was."""
    value, made = middle.outputs[0], after.outputs[0]
    graph.insert_before(middle, [before])
    graph.insert_after(middle, [after])
    middle.replace_input_with(place, before.outputs[0])
    for user in list(value.uses()):
        if user.node is not after:
            user.node.replace_input_with(user.idx, made)
    made.shape, made.type = value.shape, value.type
    value.shape = None


def _widen(graph: ir.Graph, cast: ir.Node, more: int) -> None:
    """Have a Cast give a tensor with more axes of one, which the next node takes away."""
    import onnx_ir as ir

    source, value = cast.inputs[0], cast.outputs[0]
    if not more or source is None or value.shape is None:
        return
    shape = value.shape
    axes = initializer(graph, f"{value.name}_more_axes", range(more))
    wide = node("Unsqueeze", f"{value.name}_unsqueezed", source, axes)
    _put_around(graph, cast, wide, 0, node("Squeeze", f"{value.name}_squeezed", value, axes))
    value.shape = ir.Shape([*[1] * more, *shape])
