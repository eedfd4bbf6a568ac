"""ONNX files of a few nodes, well made and damaged."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from posenc_export.common.errors import BadInput
from posenc_export.read.graph.read import read_graph

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
Nodes = Sequence[onnx.NodeProto]


def value(name: str, kind: int = FLOAT, *dims: str | int | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, dims)


def tensor(name: str, *numbers: float) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(numbers, np.float32), name)


def node(operator: str, inputs: str, outputs: str, name: str = "", domain: str = "", **values: Any) -> onnx.NodeProto:
    """Return a node whose inputs and outputs are separated by blanks."""
    return helper.make_node(operator, inputs.split(), outputs.split(), name, domain=domain, **values)


def graph(nodes: Nodes, inputs: str, outputs: str, constants: Sequence[onnx.TensorProto] = ()) -> onnx.GraphProto:
    ends = [[value(name) for name in names.split()] for names in (inputs, outputs)]
    return helper.make_graph(nodes, "graph", ends[0], ends[1], list(constants))


def function(name: str, inputs: str, outputs: str, nodes: Nodes, attributes: Sequence[str] = ()) -> onnx.FunctionProto:
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    return helper.make_function("local", name, inputs.split(), outputs.split(), nodes, opsets, list(attributes))


def save(path: Path, content: onnx.GraphProto, functions: Sequence[onnx.FunctionProto] = ()) -> Path:
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    model = helper.make_model(content, opset_imports=opsets, ir_version=8, functions=list(functions))
    path.write_bytes(model.SerializeToString())
    return path


def outside(name: str, location: str, **entries: str) -> onnx.TensorProto:
    """Return a tensor of four floats that lies in another file."""
    proto = TensorProto(name=name, dims=[4], data_type=FLOAT, data_location=TensorProto.EXTERNAL)
    for key, text in {"location": location, **entries}.items():
        proto.external_data.add(key=key, value=text)
    return proto


def refused(path: Path) -> str:
    """Return what is said of a file that cannot be read, without its path."""
    with pytest.raises(BadInput) as error:
        read_graph(path)
    text = str(error.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    return text.removeprefix(f"{path}: ")
