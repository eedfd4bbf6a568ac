"""A file that ONNX Runtime refuses to load is said to be one before all else; what other libraries may load is not."""

from pathlib import Path

import onnx
import pytest
from onnx import NodeProto, TensorProto, helper

from helpers.shared import Cli
from posenc_export.read.loading import Loading

MINE = ("my.ops", 1)
GRAPHS: dict[str, tuple[NodeProto, tuple[str, int]]] = {
    "an unknown operator": (helper.make_node("Nothing", ["x"], ["y"]), MINE),
    "an unknown operator of Microsoft's": (helper.make_node("Nothing", ["x"], ["y"], domain="com.microsoft"), MINE),
    "two types": (helper.make_node("Add", ["x", "whole"], ["y"]), MINE),
    "sizes that misfit": (helper.make_node("MatMul", ["x", "square"], ["y"]), MINE),
    "an unknown attribute": (helper.make_node("Abs", ["x"], ["y"], unknown=1), MINE),
}
OTHERS: dict[str, tuple[NodeProto, tuple[str, int]]] = {
    "right": (helper.make_node("Abs", ["x"], ["y"]), MINE),
    "an operator of somebody's own": (helper.make_node("Nothing", ["x"], ["y"], domain="my.ops"), MINE),
    "a newer opset": (helper.make_node("Abs", ["x"], ["y"]), ("", 99)),
}


def written(folder: Path, node: NodeProto, opset: tuple[str, int]) -> Path:
    """Return a file of one node."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in "xy")
    stored = [
        helper.make_tensor("whole", TensorProto.INT64, [1], [1]),
        helper.make_tensor("square", 1, [3, 3], [0.0] * 9),
    ]
    graph = helper.make_graph([node], "one", [x], [y], [one for one in stored if one.name in node.input])
    imports = {"": 20, "com.microsoft": 1, **dict([opset])}
    opsets = [helper.make_opsetid(*each) for each in imports.items()]
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path


@pytest.mark.parametrize("kind", GRAPHS)
def test_a_refused_file_is_said_to_be_one_first(cli: Cli, tmp_path: Path, kind: str) -> None:
    result = cli("inspect", str(written(tmp_path, *GRAPHS[kind])))
    first, second = result.output.splitlines()[:2]
    assert (result.exit_code, "posenc explain PE224" in first) == (1, True), result.output
    assert second.startswith("PE224 error  refused: ONNX Runtime ")
    assert "refuses to load it: " in second


@pytest.mark.parametrize("kind", OTHERS)
def test_what_may_be_loaded_elsewhere_is_not_called_refused(cli: Cli, tmp_path: Path, kind: str) -> None:
    assert "PE224" not in cli("inspect", str(written(tmp_path, *OTHERS[kind]))).output


def test_a_proof_begins_with_it(cli: Cli, tmp_path: Path) -> None:
    path = written(tmp_path, *GRAPHS["two types"])
    result = cli("prove", str(path), "--against", "rope")
    assert (result.exit_code, "refuses to load it: Type Error" in result.output) == (2, True), result.output


def test_a_file_that_is_too_large_is_not_loaded(tmp_path: Path) -> None:
    path = written(tmp_path, *GRAPHS["two types"])
    assert Loading(path, 1.0).refusal()
    (tmp_path / "model.onnx.data").write_bytes(bytes(2**20))
    assert Loading(path, 2**20 / 2**30).refusal() == ""
