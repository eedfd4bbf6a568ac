"""One ONNX file is held against another, as before and after an optimizer."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import posenc_export
from helpers.foreign_files import ROWS, changed, embedding_file
from posenc_export.common.errors import BadInput
from posenc_export.proof.foreign.derived import identifiers, port_texts
from posenc_export.proof.report.result import ValidateResult
from posenc_export.write.formats.onnx.foreign import read_foreign


def held(path: Path, before: Path, max_len: int = ROWS) -> ValidateResult:
    return posenc_export.prove(path, before, runtimes="ort-cpu", max_len=max_len)


def test_a_file_is_equal_to_itself_under_other_names(tmp_path: Path) -> None:
    before = embedding_file(tmp_path / "before.onnx")
    after = onnx.load(before)
    after.graph.node.append(helper.make_node("Identity", ["last_hidden_state"], ["out.0"]))
    after.graph.output[0].name = "out.0"
    onnx.save(after, tmp_path / "after.onnx")
    result = held(tmp_path / "after.onnx", before)
    assert result.passed, str(result)
    assert "input of before.onnx: input_ids: int64[b, s] < 16" in result.manifest.notes
    assert result.manifest.reference == "no reference: another ONNX file has no float64 form"
    assert {case.sizes["s"] for case in result.manifest.cases} >= {1, 2, ROWS}


@pytest.mark.exhaustive
def test_a_changed_file_is_not_equal(tmp_path: Path) -> None:
    before = embedding_file(tmp_path / "before.onnx")
    wrong = held(changed(embedding_file(tmp_path / "wrong.onnx"), "table", 20), before)
    assert "against eager in b3-s24: off by 1.16 at [0, 20, 3]" in str(wrong)


def test_a_file_that_ends_says_up_to_where_it_can_be_held(tmp_path: Path) -> None:
    before = embedding_file(tmp_path / "before.onnx")
    with pytest.raises(BadInput, match=f"it takes calls of up to {ROWS}: give max_len={ROWS}"):
        posenc_export.prove(before, before, runtimes="ort-cpu", max_len=64)


def cached(path: Path) -> Path:
    """Write an attention with a cache: names with dots, a sum of axes, a mask, an input of numbers."""
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Concat", ["past.key", "x"], ["present.key"], axis=2),
        helper.make_node("MatMul", ["present.key", "w"], ["mixed"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "axes"], ["columns"]),
        helper.make_node("Mul", ["mixed", "columns"], ["y"]),
    ]
    generator = np.random.default_rng(0)
    stored = {"w": generator.standard_normal((4, 8)).astype(np.float32), "axes": np.array([1, 3])}
    inputs = [
        value("past.key", TensorProto.FLOAT, ["batch_size", 2, "past_len", 4]),
        value("x", TensorProto.FLOAT, ["batch_size", 2, "seq_len", 4]),
        value("attention_mask", TensorProto.INT64, ["batch_size", "past_len + seq_len"]),
    ]
    outputs = [value(name, TensorProto.FLOAT, None) for name in ("present.key", "y")]
    constants = [numpy_helper.from_array(array, name) for name, array in stored.items()]
    graph = helper.make_graph(nodes, "cached", inputs, outputs, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def test_what_a_file_says_of_its_inputs_has_sums_of_axes(tmp_path: Path) -> None:
    path = cached(tmp_path / "cached.onnx")
    texts = ("past_key: float32[batch_size:batch, 2, past_len, 4]", "x: float32[batch_size:batch, 2, seq_len, 4]")
    assert port_texts(read_foreign(path)) == (*texts, "attention_mask: int64[batch_size:batch, past_len+seq_len]")


@pytest.mark.exhaustive
def test_a_cache_and_its_mask_vary_together(tmp_path: Path) -> None:
    path = cached(tmp_path / "cached.onnx")
    result = held(path, path, max_len=9)
    assert result.passed, str(result)
    sizes = {(case.sizes["past_len"], case.sizes["seq_len"]) for case in result.manifest.cases}
    assert len({past for past, _ in sizes}) > 2
    assert len({length for _, length in sizes}) > 2
    assert str(result.manifest.inputs[2].axes[1]) == "past_len+seq_len"
    assert [port.name for port in result.manifest.outputs] == ["present_key", "y"]


def test_names_that_bundles_do_not_take_get_others_that_differ() -> None:
    assert identifiers(["a.b", "a/b", "0", "é"]) == ["a_b", "a_b_1", "_0", "_"]


def test_what_is_no_number_that_can_be_fed_is_said(tmp_path: Path) -> None:
    path = embedding_file(tmp_path / "bytes.onnx", dtype=TensorProto.UINT8)
    with pytest.raises(
        BadInput, match=r"bytes.onnx takes input_ids: uint8.b, s., expected known axes and one of float32"
    ):
        held(path, path)


def test_an_operator_of_a_library_of_its_own_is_not_run(tmp_path: Path) -> None:
    path = embedding_file(tmp_path / "custom.onnx")
    model = onnx.load(path)
    model.graph.node[3].domain = "my.library"
    model.opset_import.append(helper.make_opsetid("my.library", 1))
    onnx.save(model, path)
    with pytest.raises(BadInput, match=r"custom.onnx cannot be run, so that nothing is held against it: .*my.library"):
        held(path, path)
