"""Rows of positions that meet the features of several tokens: a Reshape stands where a Transpose belongs."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import posenc_export
from helpers.attention_graphs import HEADS, WIDTH, added_file, mixed_file, windows_file
from posenc_export.read.inspection import Inspection

LLAMA = {
    "model_type": "llama",
    "hidden_size": HEADS * WIDTH,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "num_hidden_layers": 1,
    "head_dim": WIDTH,
    "max_position_embeddings": 128,
    "rope_theta": 10000.0,
}


def said(found: Inspection) -> list[str]:
    """The words of errors, with their names."""
    return [f"{entry.name}: {entry.detail}" for entry in found.findings if entry.severity == "error"]


@pytest.mark.parametrize("norm", [False, True], ids=["plain", "normed"])
@pytest.mark.parametrize("operator", [False, True], ids=["products", "operator"])
def test_a_rotation_of_several_tokens_is_an_error(tmp_path: Path, norm: bool, operator: bool) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    right = mixed_file(tmp_path / "right.onnx", is_mixed=False, norm=norm, operator=operator)
    found = posenc_export.inspect(right, config=tmp_path)
    assert (said(found), found.compared[0].agrees) == ([], True)
    wrong = mixed_file(tmp_path / "wrong.onnx", is_mixed=True, norm=norm, operator=operator)
    errors = said(posenc_export.inspect(wrong, config=tmp_path))
    # heads of 13 tokens: row 0 of head 1 is of token 13 / 4
    words = "a row of positions meets features of several tokens: that of position 0 those of tokens 0, 3, 6, ..."
    assert len(errors) == 2, errors
    assert all(error.startswith(f"mixed-tokens: {words}") for error in errors)


def test_rows_that_are_added_to_several_tokens_are_an_error(tmp_path: Path) -> None:
    assert said(posenc_export.inspect(added_file(tmp_path / "right.onnx", is_mixed=False))) == []
    (error,) = said(posenc_export.inspect(added_file(tmp_path / "wrong.onnx", is_mixed=True)))
    assert error.startswith("mixed-tokens: a row of positions meets features of several tokens: that of position 0")


def test_several_layers_are_quiet(tmp_path: Path) -> None:
    assert said(posenc_export.inspect(windows_file(tmp_path / "model.onnx", (None, None)))) == []


def test_frames_that_are_stacked_are_tokens_of_their_own(tmp_path: Path) -> None:
    """A Reshape before the weight that makes tokens mixes none of them: sound is stacked so, and so are patches."""
    rng = np.random.default_rng(0)
    stored = {
        "stacked": np.array([1, -1, 32]),
        "weight": rng.standard_normal((32, 32)).astype(np.float32),
        "table": rng.standard_normal((64, 32)).astype(np.float32),
        "zero": np.int64(0),
        "one": np.int64(1),
    }
    nodes = [
        helper.make_node("Reshape", ["frames", "stacked"], ["stack"]),
        helper.make_node("MatMul", ["stack", "weight"], ["tokens"]),
        helper.make_node("Shape", ["tokens"], ["shape"]),
        helper.make_node("Gather", ["shape", "one"], ["length"]),
        helper.make_node("Range", ["zero", "length", "one"], ["places"]),
        helper.make_node("Gather", ["table", "places"], ["rows"]),
        helper.make_node("Add", ["tokens", "rows"], ["y"]),
    ]
    frames = helper.make_tensor_value_info("frames", TensorProto.FLOAT, ["batch", "length", 16])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "stacks", 32])
    constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in stored.items()]
    graph = helper.make_graph(nodes, "frames", [frames], [y], constants)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "model.onnx"
    )
    found = posenc_export.inspect(tmp_path / "model.onnx")
    assert "mixed-tokens" not in [entry.name for entry in found.findings]
