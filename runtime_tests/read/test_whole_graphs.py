"""A whole graph, read and computed node by node with kernels alone, gives what ONNX Runtime gives."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from posenc_export.read.graph import Graph
from posenc_export.read.graph.read import read_graph
from posenc_export.read.kernels import compute
from posenc_export.read.values import Array


def by_kernels(graph: Graph, feeds: dict[str, Array]) -> list[Array]:
    values = {**feeds, **{name: constant.load() for name, constant in graph.constants.items()}}
    for node in graph.nodes:
        outputs = compute(node, graph.opsets, [values[name] if name else None for name in node.inputs])
        values.update(zip(node.outputs, outputs, strict=True))
    return [values[name] for name in graph.outputs]


@pytest.mark.parametrize("start", [0, 7, 30])
def test_an_export_computed_node_by_node(small_bundle: Path, start: int) -> None:
    path = small_bundle / "model.onnx"
    feeds: dict[str, Array] = {
        "x": np.random.default_rng(25).standard_normal((2, 5, 8)).astype(np.float32),
        "start": np.array([start]),
    }
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for result, expected in zip(by_kernels(read_graph(path), feeds), session.run(None, feeds), strict=True):
        np.testing.assert_allclose(result.astype(np.float64), expected, rtol=1e-6, atol=1e-6)
