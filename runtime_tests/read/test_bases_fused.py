"""One table in the place of two: what the fusion of ONNX Runtime does to two layers, and how far off the second is."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import posenc_export
from helpers.foreign.fused_faults import exported, fuse
from helpers.foreign.two_thetas import HEAD, HEADS, TwoThetas, apply
from posenc_export.read.values import Array

ROWS = 2048
OFF = {16: 2.3, 2000: 5.2}
"""What was reported of queries of a model, by tokens; features drawn at random, of variance 1, are farther off."""


def rotated(model: onnx.ModelProto, node: onnx.NodeProto, x: Array) -> Array:
    """Return what a rotation of a file makes of features, (1, heads, tokens, features), with the tables of the file."""
    stored = [tensor for tensor in model.graph.initializer if tensor.name in node.input]
    alone = onnx.NodeProto()
    alone.CopyFrom(node)
    alone.input[0], alone.input[1], alone.output[0] = "x", "position_ids", "y"
    ports = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape),
        helper.make_tensor_value_info("position_ids", TensorProto.INT64, (1, x.shape[2])),
    ]
    out = [helper.make_tensor_value_info("y", TensorProto.FLOAT, x.shape)]
    graph = helper.make_graph([alone], "rotation", ports, out, stored)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    content = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": x, "position_ids": np.arange(x.shape[2])[None]})
    return np.asarray(y)


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore")
def test_the_second_layer_is_rotated_by_the_base_of_the_first(tmp_path: Path) -> None:
    module = TwoThetas(rows=ROWS).eval()
    exported(module, tmp_path / "before.onnx")
    fused = fuse(onnx.load(tmp_path / "before.onnx"))
    onnx.save(fused, tmp_path / "fused.onnx")
    nodes = [node for node in fused.graph.node if node.op_type == "RotaryEmbedding"]
    assert (len(nodes), {tuple(node.input[2:]) for node in nodes}) == (4, {tuple(nodes[0].input[2:])})
    assert {numpy_helper.to_array(t).shape for t in fused.graph.initializer if t.name in nodes[0].input} == {(ROWS, 8)}
    for tokens, reported in OFF.items():
        x = np.random.default_rng(0).standard_normal((1, HEADS, tokens, HEAD)).astype(np.float32)
        off = []
        for layer, node in zip(module.layers, (nodes[0], nodes[-1]), strict=True):
            cos, sin = layer.tables(tokens)  # type: ignore[operator]
            right = apply(torch.from_numpy(x), cos, sin, torch.arange(tokens)[None]).numpy()
            off.append(float(np.abs(rotated(fused, node, x) - right).max()))
        assert off[0] < 1e-5
        assert off[1] > reported
    inspection = posenc_export.inspect(tmp_path / "fused.onnx", against=tmp_path / "before.onnx")
    details = [entry.detail for entry in inspection.findings if entry.code == "PE207"]
    assert details == ["one table, rope_theta 10000, is used by layers 0-1; layer 1 had 1000000 before"]
    assert [e.parameters["rope_theta"] for e in inspection.encodings] == [1e4]
