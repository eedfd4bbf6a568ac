"""`required_operators.config`: what a reduced build of ONNX Runtime keeps, as ONNX Runtime's own tools have it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from helpers.bundles import edit
from helpers.shared import Cli
from posenc.spec import Spec
from posenc_export.proof.exporter import ExportOptions, export_target
from posenc_export.write.formats.onnx.operators import REQUIRED_OPERATORS, Operator, operators_of, required_operators
from posenc_export.write.targets.scheme import scheme_target

Config = dict[str, dict[int, set[str]]]


def read(path: Path) -> Config:
    """Read such a file with what ONNX Runtime's builds read it with."""
    from onnxruntime.tools.reduced_build_config_parser import parse_config

    config, types = parse_config(str(path))
    assert types is None
    return {domain: {opset: set(ops) for opset, ops in opsets.items()} for domain, opsets in config.items()}


def names(config: Config) -> dict[str, set[str]]:
    return {domain: {op for ops in opsets.values() for op in ops} for domain, opsets in config.items()}


def exported(folder: Path, scheme: str = "rope", op: Any = "decomposed", **params: Any) -> Path:
    spec, options = Spec("dynamic", max_len=70), ExportOptions(("onnx",), validate=False, rotary_op=op)
    return export_target(lambda: scheme_target(scheme, spec, params, 0), options, folder / "bundle").folder


def converted(bundle: Path, folder: Path) -> Config:
    """Convert the graph to .ort, with nothing optimised, by ONNX Runtime's tool; return the operators that it lists."""
    folder.mkdir()
    shutil.copy(bundle / "model.onnx", folder)
    words = [sys.executable, "-m", "onnxruntime.tools.convert_onnx_models_to_ort", str(folder)]
    env = {**os.environ, "ORT_CONVERT_ONNX_MODELS_TO_ORT_OPTIMIZATION_LEVEL": "disable"}
    words += ["--optimization_style", "Fixed"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (config,) = folder.glob("*.config")
    return read(config)


@pytest.mark.exhaustive
@pytest.mark.parametrize("op", ["decomposed", "onnx", "microsoft"])
def test_the_operators_are_those_of_the_tool_that_converts_to_ort(tmp_path: Path, op: str) -> None:
    bundle = exported(tmp_path, op=op, head_dim=16)
    assert names(read(bundle / REQUIRED_OPERATORS)) == names(converted(bundle, tmp_path / "ort"))


def test_a_bundle_has_the_file_and_lists_it(small_bundle: Path) -> None:
    opset, ops = read(small_bundle / REQUIRED_OPERATORS)["ai.onnx"].popitem()
    assert opset == 18
    graph = onnx.load(small_bundle / "model.onnx").graph
    assert ops == {node.op_type for node in graph.node} - {"Constant"}


def test_functions_and_inner_graphs_are_read_and_calls_of_functions_are_not() -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy")
    then = helper.make_graph([helper.make_node("Sin", ["x"], ["a"])], "then", [], [y])
    other = helper.make_graph([helper.make_node("Own", ["x"], ["a"], domain="mine")], "else", [], [y])
    nodes = [
        helper.make_node("Constant", [], ["c"], value=helper.make_tensor("c", TensorProto.BOOL, [], [1])),
        helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other),
        helper.make_node("Far", ["x"], ["z"], domain="com.example"),
    ]
    body = helper.make_node("Cos", ["x"], ["y"])
    own = helper.make_function("mine", "Own", ["x"], ["y"], [body], [helper.make_opsetid("", 17)])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("mine", 1)]
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=opsets, functions=[own])
    assert operators_of(model) == [
        *(Operator("ai.onnx", 17, "Cos"), Operator("ai.onnx", 18, "If"), Operator("ai.onnx", 18, "Sin")),
        Operator("com.example", 0, "Far"),
    ]
    assert required_operators(model).splitlines()[1:] == ["ai.onnx;17;Cos", "ai.onnx;18;If,Sin", "com.example;0;Far"]


def status(cli: Cli, bundle: Path) -> tuple[int, str]:
    done = cli("validate", str(bundle), "--runtime", "ort-cpu")
    return done.exit_code, done.output


def test_integrity_reads_it_where_the_manifest_lists_it(cli: Cli, bundle: Path) -> None:
    path = bundle / REQUIRED_OPERATORS
    before = path.read_text()
    path.write_text(before.replace("18", "19"))
    code, output = status(cli, bundle)
    assert code == 1
    assert f"{REQUIRED_OPERATORS} is not the file that was exported" in output
    path.unlink()
    code, output = status(cli, bundle)
    assert code == 1
    assert f"{REQUIRED_OPERATORS}, which the manifest lists, is no file of the bundle" in output


def test_a_link_is_not_read(cli: Cli, bundle: Path, tmp_path: Path) -> None:
    path = bundle / REQUIRED_OPERATORS
    shutil.move(path, tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    code, output = status(cli, bundle)
    assert code == 1
    assert "is no file of the bundle" in output


def test_a_bundle_without_it_is_valid(cli: Cli, bundle: Path) -> None:
    def unlist(manifest: dict[str, Any]) -> None:
        manifest["files"] = [file for file in manifest["files"] if file["file"] != REQUIRED_OPERATORS]

    (bundle / REQUIRED_OPERATORS).unlink()
    edit(bundle, unlist)
    assert status(cli, bundle)[0] == 0
