"""What a runtime checks beside shapes: indices within tables, numbers of elements, tables as long as the tokens."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from onnx import defs

from posenc_export.read.graph import Node
from posenc_export.read.interpret.budget import Stopped
from posenc_export.read.interpret.shapes import schema_of
from posenc_export.read.interpret.state import shape_of, size_of, small_numbers
from posenc_export.read.values import Operand

Operands = Sequence[Operand | None]


def require_fit(node: Node, operands: Operands) -> None:
    """Raise Stopped where a node cannot run with the numbers that are known."""
    check = CHECKS.get((node.domain, node.op_type))
    if check is not None and operands and operands[0] is not None:
        reason = check(node, operands)
        if reason is not None:
            raise Stopped(reason, node.name)


def require_inputs(node: Node, opsets: Mapping[str, int]) -> None:
    """Raise Stopped where a node lacks an input of its operator, or has more than it takes: no runtime loads it."""
    needed, max_count = _inputs_of(node.op_type, node.domain, opsets.get(node.domain, opsets.get("", 1)))
    lacks = next((place for place in needed if place >= len(node.inputs) or not node.inputs[place]), None)
    if lacks is not None:
        raise Stopped(f"{node.op_type} needs input {lacks}, which is left out", node.name)
    if len(node.inputs) > max_count:
        raise Stopped(f"{node.op_type} has {len(node.inputs)} inputs, and takes {max_count}", node.name)


@functools.cache
def _inputs_of(op_type: str, domain: str, version: int) -> tuple[tuple[int, ...], float]:
    """Return the places of the inputs that an operator needs, and how many it takes at most."""
    schema = schema_of(op_type, domain, version)
    if schema is None:
        return (), math.inf
    single = defs.OpSchema.FormalParameterOption.Single
    return tuple(place for place, item in enumerate(schema.inputs) if item.option == single), schema.max_input


def _outside(indices: Operand | None, rows: int, table: str) -> str | None:
    """Return what is wrong with indices, if any is outside of the rows of a table."""
    array = small_numbers(indices.value) if indices else None
    if array is None or not array.size:
        return None
    # NumPy counts negative indices from the end, as ONNX does
    low, high = int(np.min(array)), int(np.max(array))
    if -rows <= low and high < rows:
        return None
    return f"index {high if high >= rows else low} is outside of the {rows} rows of {table!r}"


def _gathered(node: Node, operands: Operands) -> str | None:
    # ONNX Runtime's own form of the operator names its axis otherwise
    name = "gather_axis" if node.op_type == "GatherBlockQuantized" else "axis"
    axis = node.attributes.get(name, 0)
    shape = shape_of(operands[0].value) if operands[0] else None
    if shape is None or not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
        return None
    return _outside(operands[1], shape[axis], node.inputs[0])


def _reshaped(node: Node, operands: Operands) -> str | None:
    """Return what is wrong with a new shape: it must hold as many elements, and know all sizes but one."""
    data, sizes_in = operands[0], operands[1] if len(operands) > 1 else None
    if data is None:
        return None
    shape = shape_of(data.value)
    target = small_numbers(sizes_in.value) if sizes_in else node.attributes.get("shape")
    if shape is None or target is None:
        return None
    sizes = [int(size) for size in np.ravel(np.asarray(target))]
    # 0 stands for the size that the axis had
    if not node.attributes.get("allowzero", 0):
        if any(size == 0 and i >= len(shape) for i, size in enumerate(sizes)):
            return f"{shape} cannot take the shape {sizes}"
        sizes = [shape[i] if size == 0 else size for i, size in enumerate(sizes)]
    known, count = math.prod(size for size in sizes if size != -1), size_of(data.value)
    fits = known == count if -1 not in sizes else known > 0 and count % known == 0
    return None if fits else f"{shape} cannot take the shape {sizes}"


def _rotated(node: Node, operands: Operands) -> str | None:
    """Return what is wrong with ids of a rotary operator: they must be within its cosines."""
    ids, cos = (1, 2) if node.domain else (3, 1)
    places, table, data = (operands[i] if i < len(operands) else None for i in (ids, cos, 0))
    if places is None or table is None or data is None:
        return None
    rows = (shape_of(table.value) or (0,))[0]
    array, shape = small_numbers(places.value), shape_of(data.value) or ()
    if node.domain and array is not None and array.size == 1 and array.ndim <= 1 and len(shape) > 2:
        # one number is the position of the first token
        array = np.asarray(array, np.int64) + shape[-2] - 1
    if array is None or not array.size or (int(np.min(array)) >= 0 and int(np.max(array)) < rows):
        return None
    return f"position {int(np.max(array))} is outside of the {rows} rows of {node.inputs[cos]!r}"


Check = Callable[[Node, Operands], str | None]
CHECKS: dict[tuple[str, str], Check] = {
    ("", "Gather"): _gathered,
    ("", "GatherElements"): _gathered,
    ("com.microsoft", "GatherBlockQuantized"): _gathered,
    ("", "Reshape"): _reshaped,
    ("", "RotaryEmbedding"): _rotated,
    ("com.microsoft", "RotaryEmbedding"): _rotated,
    ("com.microsoft", "MRotaryEmbedding"): _rotated,
}
"""By domain and operator."""
