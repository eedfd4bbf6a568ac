"""Shapes of heads are stored in a graph, and it still refuses what a shape put together refused."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from posenc.spec import Spec
from posenc_export.proof.exporter import ExportOptions, export_target
from posenc_export.write.targets.scheme import scheme_target


def test_shapes_of_heads_are_stored_and_unlike_batches_and_wrong_positions_are_refused(tmp_path: Path) -> None:
    spec, options = Spec("dynamic", positions="explicit", max_len=16), ExportOptions(("onnx",), validate=False)
    export_target(lambda: scheme_target("rope", spec, {"head_dim": 8}, 0), options, tmp_path / "bundle")
    model = onnx.load(tmp_path / "bundle" / "model.onnx")
    made_by = {name: node.op_type for node in model.graph.node for name in node.output}
    shapes = [made_by.get(node.input[1], "stored") for node in model.graph.node if node.op_type == "Reshape"]
    assert sorted(shapes) == ["Mul", "Mul", "stored", "stored", "stored", "stored"]  # the two checks compare lengths
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings)

    def call(batch_of_q: int, batch_of_k: int, position: int) -> None:
        q, k = (np.zeros((batch, 3, 1, 8), np.float32) for batch in (batch_of_q, batch_of_k))
        session.run(None, {"q": q, "k": k, "positions": np.full((1, 1), position)})

    call(2, 2, 2**24 - 1)
    for q, k in ((1, 2), (2, 1)):
        with pytest.raises(Exception, match="cannot be reshaped"):
            call(q, k, 0)
    for position in (-1, -(2**24) - 2**15, -(2**30), -(2**63), 2**24, 2**30, 2**62, 2**63 - 1):
        with pytest.raises(Exception, match="out of data bounds"):
            call(1, 1, position)
