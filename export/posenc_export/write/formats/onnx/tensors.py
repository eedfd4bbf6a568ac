"""The tensors that an ONNX graph stores, and the look-ups that read some of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from posenc.ports import Array

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

MAX_SMALL = 16
"""Tensors up to this many numbers are shapes, axes and factors, which every call reads."""
SAME_ROWS = ("Identity", "Cast")
"""Operators whose output has the rows of their input."""
Values = Mapping[str, Array]
Rows = Callable[[Values], Array]


@dataclass(frozen=True)
class LookUp:
    """A node that reads some rows of a stored tensor.

    Attributes:
        table: The name of the tensor.
        axis: The axis of the rows.
        needs: Values of the graph that say which rows.
        rows: The values of a call -> indices of the rows that it reads, in the shape of its output.
    """

    table: str
    axis: int
    needs: tuple[str, ...]
    rows: Rows


def stored_tensors(model: ModelProto, folder: Path) -> dict[str, Array]:
    """Return the tensors that a graph stores, by name, but small ones; weights beside the file are read."""
    tensors = [(tensor.name, tensor) for tensor in model.graph.initializer]
    tensors += [(n.output[0], a.t) for n in model.graph.node for a in n.attribute if a.HasField("t")]
    large = ((name, tensor) for name, tensor in tensors if np.prod(list(tensor.dims), dtype=object) > MAX_SMALL)
    return {name: _array(tensor, folder) for name, tensor in large}


def _array(tensor: TensorProto, folder: Path) -> Array:
    """Return the numbers of a tensor; those that lie in a file beside the graph are mapped, not copied."""
    from onnx import helper, numpy_helper
    from onnx.external_data_helper import ExternalDataInfo, uses_external_data

    if uses_external_data(tensor):
        place = ExternalDataInfo(tensor)
        dtype, size = helper.tensor_dtype_to_np_dtype(tensor.data_type), int(np.prod(tensor.dims, dtype=object))
        # numbers of less than a byte are packed; onnx itself decides on what lies elsewhere
        if place.length == dtype.itemsize * size and place.location == Path(place.location).name:
            path = folder / place.location
            return np.memmap(path, dtype, "r", place.offset or 0, tuple(tensor.dims))
    return numpy_helper.to_array(tensor, str(folder))


def look_ups(graph: GraphProto, table: str, shape: Sequence[int]) -> list[LookUp] | None:
    """Return the nodes that read some rows of a stored tensor; None where another node reads it whole."""
    lookups: list[LookUp] = []
    if table in (output.name for output in graph.output):
        return None
    for node in (node for node in graph.node if table in node.input):
        if node.op_type in SAME_ROWS:
            # the copy has the same rows: follow its readers
            more = look_ups(graph, node.output[0], shape)
        else:
            more = READERS[node.op_type](node, table, shape) if node.op_type in READERS else None
            more = _sliced(graph, node, table, shape) if node.op_type == "Slice" else more
        if more is None:
            return None
        lookups += more
    return lookups


def _attribute(node: NodeProto, name: str, default: int) -> int:
    return next((attribute.i for attribute in node.attribute if attribute.name == name), default)


def _gather(node: NodeProto, table: str, shape: Sequence[int]) -> list[LookUp] | None:
    if node.input[0] != table:
        return None
    axis, index = _attribute(node, "axis", 0) % len(shape), node.input[1]
    # negative indices count from the end
    count = shape[axis]
    return [LookUp(table, axis, (index,), lambda values: values[index] % count)]


def _gather_nd(node: NodeProto, table: str, shape: Sequence[int]) -> list[LookUp] | None:
    if node.input[0] != table or _attribute(node, "batch_dims", 0):
        return None
    index = node.input[1]
    return [LookUp(table, 0, (index,), lambda values: values[index][..., 0] % shape[0])]


def _sliced(graph: GraphProto, node: NodeProto, table: str, shape: Sequence[int]) -> list[LookUp] | None:
    """Return what a Slice reads along the first of its axes; its other axes are columns."""
    if node.input[0] != table:
        return None
    starts, ends, *more = node.input[1:]
    needs = tuple(name for name in (starts, ends, *more) if name)

    def bounds(values: Values) -> Iterator[tuple[int, slice]]:
        # Slice(data, starts, ends, axes?, steps?)
        axes = values[more[0]] if more and more[0] else np.arange(len(values[starts]))
        steps = values[more[1]] if len(more) > 1 and more[1] else np.ones(len(axes), int)
        for axis, start, end, step in zip(axes, values[starts], values[ends], steps, strict=True):
            yield int(axis) % len(shape), slice(int(start), int(end), int(step))

    rows_axis = _first_axis(graph, more[0] if more else "") % len(shape)

    def rows(values: Values) -> Array:
        picked = dict(bounds(values)).get(rows_axis, slice(None))
        return np.arange(shape[rows_axis])[picked]

    return [LookUp(table, rows_axis, needs, rows)]


def _first_axis(graph: GraphProto, name: str) -> int:
    """Return the first of the axes that a graph stores under a name; 0 where it stores none."""
    from onnx import numpy_helper

    named = (tensor for tensor in graph.initializer if tensor.name == name)
    return next((int(numpy_helper.to_array(tensor).flat[0]) for tensor in named), 0)


def _split(node: NodeProto, table: str, shape: Sequence[int]) -> list[LookUp] | None:
    if node.input[0] != table or len(node.input) < 2 or not node.input[1]:
        return None
    axis, sizes = _attribute(node, "axis", 0) % len(shape), node.input[1]
    return [LookUp(table, axis, (sizes,), lambda values: np.arange(int(values[sizes][0])))]


READERS: Mapping[str, Callable[[NodeProto, str, Sequence[int]], list[LookUp] | None]] = {
    "Gather": _gather,
    "GatherND": _gather_nd,
    "Split": _split,
}
