"""Ids of tokens stay within the rows of a table that is quantised."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from posenc_export.read.graph.read import read_graph
from posenc_export.read.interpret.run import interpret


@pytest.mark.parametrize("operators", [("DequantizeLinear",), ("Cast", "Mul")])
def test_ids_are_rows_of_a_quantised_table(tmp_path: Path, operators: tuple[str, ...]) -> None:
    table, scale = np.ones((11, 8), np.int8), np.ones((), np.float32)
    nodes, name = [], "table"
    for operator in operators:
        casts = operator == "Cast"
        nodes.append(helper.make_node(operator, [name] if casts else [name, "scale"], [f"{operator}_out"]))
        nodes[-1].attribute.extend([helper.make_attribute("to", 1)] if casts else [])
        name = f"{operator}_out"
    nodes.append(helper.make_node("Gather", [name, "input_ids"], ["y"]))
    ids = helper.make_tensor_value_info("input_ids", onnx.TensorProto.INT64, ["batch", "seq"])
    stored = [numpy_helper.from_array(table, "table"), numpy_helper.from_array(scale, "scale")]
    graph = helper.make_graph(nodes, "graph", [ids], [onnx.ValueInfoProto(name="y")], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    run = interpret(read_graph(tmp_path / "m.onnx"))
    assert run.stopped is None
    shape = getattr(run.values["y"], "shape", None)
    assert shape is not None
    assert tuple(shape)[2:] == (8,)
