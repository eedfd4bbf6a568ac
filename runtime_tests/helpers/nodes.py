"""Single nodes: as the reader gives them, and computed by ONNX Runtime or the onnx package's reference."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper
from onnx.reference import ReferenceEvaluator

from posenc_export.read.graph import Node
from posenc_export.read.graph.attributes import attributes
from posenc_export.read.graph.store import Store
from posenc_export.read.values import Array

Arrays = Sequence[Array | None]


def proto_of(operator: str, arrays: Arrays, outputs: int = 1, domain: str = "", **values: Any) -> onnx.NodeProto:
    inputs = [f"i{place}" if array is not None else "" for place, array in enumerate(arrays)]
    return helper.make_node(
        operator, inputs, [f"o{place}" for place in range(outputs)], "node", domain=domain, **values
    )


def node_of(proto: onnx.NodeProto) -> Node:
    values = attributes(proto, proto.name, Store(Path("model.onnx")))
    return Node(proto.name, proto.op_type, proto.domain, tuple(proto.input), tuple(proto.output), values, proto)


def model_of(proto: onnx.NodeProto, arrays: Arrays, opset: int) -> onnx.ModelProto:
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in zip(proto.input, arrays, strict=True)
        if array is not None
    ]
    graph = helper.make_graph([proto], "node", inputs, [onnx.ValueInfoProto(name=name) for name in proto.output])
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _feeds(proto: onnx.NodeProto, arrays: Arrays) -> dict[str, Array]:
    return {name: array for name, array in zip(proto.input, arrays, strict=True) if array is not None}


def by_runtime(proto: onnx.NodeProto, arrays: Arrays, opset: int) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    content = model_of(proto, arrays, opset).SerializeToString()
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return [np.asarray(value) for value in session.run(None, _feeds(proto, arrays))]


def by_reference(proto: onnx.NodeProto, arrays: Arrays, opset: int) -> list[Array]:
    values = ReferenceEvaluator(model_of(proto, arrays, opset)).run(None, _feeds(proto, arrays))
    assert isinstance(values, list)
    return [np.asarray(value) for value in values]
