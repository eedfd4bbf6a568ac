"""The dtypes of an ONNX graph: which it holds, and the same graph in half precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from posenc_export.common.arrays import numpy_dtype
from posenc_export.write.formats.onnx.inner_graphs import attributes_of, graphs_of
from posenc_export.write.formats.onnx.ordering import order_nodes

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, TensorProto

FLOAT, INT16, FLOAT16, DOUBLE, BFLOAT16 = 1, 5, 10, 11, 16
"""Numbers of onnx.TensorProto."""
NAMES_A_DTYPE = ("to", "dtype")
"""Attributes whose integer is a dtype: of Cast, and of operators without an input."""


def tensors_of(graph: GraphProto) -> Iterator[TensorProto]:
    """Yield the constants of a graph: initializers, and tensors that nodes hold."""
    yield from graph.initializer
    yield from (attribute.t for attribute in attributes_of(graph) if attribute.HasField("t"))


def holds_float64(model: ModelProto) -> bool:
    """Return whether an input, an output, a constant or a cast of a graph is float64."""
    return holds(model, DOUBLE)


def holds(model: ModelProto, dtype: int) -> bool:
    """Return whether an input, an output, a constant or a cast of a graph has a dtype."""
    for graph in graphs_of(model.graph):
        ports = (value.type.tensor_type.elem_type for value in (*graph.input, *graph.output))
        named = (a.i for a in attributes_of(graph) if a.name in NAMES_A_DTYPE)
        if dtype in (*ports, *(tensor.data_type for tensor in tensors_of(graph)), *named):
            return True
    return False


def to_float16(model: ModelProto) -> ModelProto:
    """Return a float32 model in float16, as ONNX Runtime's own converter makes it; the model itself may change.

    The converter may put a Cast behind the node that reads it: the nodes are put in order, which other runtimes want.
    """
    from onnxruntime.transformers.float16 import convert_float_to_float16

    converted: ModelProto = convert_float_to_float16(model, force_fp16_initializers=True)
    order_nodes(converted.graph)
    return converted


def to_bfloat16(model: ModelProto) -> ModelProto:
    """Return a model with bfloat16 wherever it has float32; the model itself changes."""
    for graph in graphs_of(model.graph):
        # it names the old dtypes
        del graph.value_info[:]
        for value in (*graph.input, *graph.output):
            if value.type.tensor_type.elem_type == FLOAT:
                value.type.tensor_type.elem_type = BFLOAT16
        for attribute in attributes_of(graph):
            _narrow_attribute(attribute)
        for tensor in tensors_of(graph):
            _narrow(tensor)
    return model


def _narrow_attribute(attribute: AttributeProto) -> None:
    """Make a float of a Constant a tensor, and float32 as the value of an attribute bfloat16, in place."""
    from onnx import helper

    if attribute.name in NAMES_A_DTYPE and attribute.i == FLOAT:
        attribute.i = BFLOAT16
    elif attribute.name in ("value_float", "value_floats"):
        is_scalar = attribute.name == "value_float"
        values, dims = ([attribute.f], []) if is_scalar else (list(attribute.floats), [len(attribute.floats)])
        attribute.CopyFrom(helper.make_attribute("value", helper.make_tensor("value", FLOAT, dims, values)))


def _narrow(tensor: TensorProto) -> None:
    from onnx import numpy_helper

    if tensor.data_type == FLOAT:
        array = numpy_helper.to_array(tensor).astype(numpy_dtype("bfloat16"))
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


HALVES: Mapping[str, Callable[[ModelProto], ModelProto]] = {"float16": to_float16, "bfloat16": to_bfloat16}
"""Conversions of a float32 file, by the name of the dtype."""
