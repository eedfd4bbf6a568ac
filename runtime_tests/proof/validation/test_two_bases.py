"""A graph of two bases stays one: optimizers leave both as they are, and a file whose bases are one is refused."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import onnxslim
import pytest
from onnx import numpy_helper

import posenc_export
from helpers.bundles import sign
from posenc.ports import Array
from posenc_export.bundle.schema import read_manifest
from posenc_export.proof.stored.rebuilding import NotHeld, rebuilt

TYPES = '{"far": {"head_dim": 16, "rope_theta": 1000000.0}, "near": {"head_dim": 16, "rope_theta": 10000.0}}'
POSITIONS = np.array([[0, 1, 7, 40, 63], [63, 2, 2, 30, 5]])
Optimizer = Callable[[Path, Path], None]


@pytest.fixture(scope="module", params=["baked", pytest.param("dynamic", marks=pytest.mark.exhaustive)])
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Export two bases of heads of one width: their tables have the same shape."""
    folder = tmp_path_factory.mktemp("bases") / str(request.param)
    result = posenc_export.export(
        "rope_layers",
        to=folder,
        layer_types=TYPES,
        mode=request.param,
        max_len=64,
        formats=["onnx"],
        runtimes=["ort-cpu"],
    )
    assert result.passed
    return folder


def expected() -> dict[str, Array]:
    """Return both bases' cosines and sines from the formula."""
    outputs: dict[str, Array] = {}
    for name, base in (("far", 1e6), ("near", 1e4)):
        angles = POSITIONS[..., None] * base ** (-np.arange(8) / 8)
        outputs |= {f"cos_{name}": np.cos(angles), f"sin_{name}": np.sin(angles)}
    return outputs


def outputs_of(model: Path, level: onnxruntime.GraphOptimizationLevel, to: Path | None = None) -> dict[str, Array]:
    """Return what ONNX Runtime gives at a level of optimization; `to` is where it writes the graph that it ran."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    if to is not None:
        options.optimized_model_filepath = str(to)
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"positions": POSITIONS}), strict=True))


def by_onnxruntime(model: Path, to: Path) -> None:
    outputs_of(model, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL, to)


def by_onnxscript(model: Path, to: Path) -> None:
    optimizer = pytest.importorskip("onnxscript.optimizer")
    onnx.save(optimizer.optimize(onnx.load(model)), to)


def by_onnxslim(model: Path, to: Path) -> None:
    onnx.save(onnxslim.slim(onnx.load(model)), to)


@pytest.mark.parametrize("optimizer", [by_onnxruntime, by_onnxscript, by_onnxslim])
def test_optimizers_leave_both_bases(bundle: Path, tmp_path: Path, optimizer: Optimizer) -> None:
    optimizer(bundle / "model.onnx", tmp_path / "optimized.onnx")
    outputs = outputs_of(tmp_path / "optimized.onnx", onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    assert list(outputs) == ["cos_far", "sin_far", "cos_near", "sin_near"]
    for name, values in expected().items():
        np.testing.assert_allclose(outputs[name], values, rtol=0, atol=3e-7, err_msg=name)


def merge(model: Path) -> None:
    """Give every table of the second type the numbers of the first, as an optimizer does that takes them for one."""
    graph = onnx.load(model)
    # equal shapes alone let one table stand for another
    tables = {table.name: table for table in graph.graph.initializer}
    second = [name for name in tables if name.startswith("layers.1.")]
    # both modes name the tables of a type by its place
    assert second
    for name in second:
        first = numpy_helper.to_array(tables[name.replace("layers.1.", "layers.0.")])
        tables[name].CopyFrom(numpy_helper.from_array(first, name))
    onnx.save(graph, model)


def wire_together(model: Path) -> None:
    """Read the outputs of the second type from those of the first."""
    graph = onnx.load(model).graph
    made = {output: node for node in graph.node for output in node.output}
    for part in ("cos", "sin"):
        node, output = made[f"{part}_near"], f"{part}_near"
        node.output[list(node.output).index(output)] = f"{output}_unread"
        graph.node.append(onnx.helper.make_node("Identity", [f"{part}_far"], [output], name=f"merged_{part}"))
    whole = onnx.load(model)
    whole.graph.CopyFrom(graph)
    onnx.save(whole, model)


@pytest.mark.parametrize("damage", [merge, wire_together])
def test_a_file_whose_bases_were_merged_is_refused(
    bundle: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    copied = shutil.copytree(bundle, tmp_path / "b")
    damage(copied / "model.onnx")
    # whoever merged them may have signed the file as well
    sign(copied, "model.onnx")
    result = posenc_export.validate(copied, runtimes=["ort-cpu"])
    assert not result.passed
    agrees = next(verdict for verdict in result.verdicts if verdict.check == "agrees")
    assert agrees.status == "fail"
    wrong = {comparison.output for comparison in agrees.comparisons if not comparison.passed}
    assert wrong == {"cos_near", "sin_near"}


def test_a_file_that_nobody_signed_is_refused_as_another(bundle: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(bundle, tmp_path / "b")
    merge(copied / "model.onnx")
    result = posenc_export.validate(copied, runtimes=["ort-cpu"])
    assert not result.passed
    assert "integrity" in {verdict.check for verdict in result.verdicts if verdict.status == "fail"}


def test_the_manifest_alone_makes_both_bases_again(bundle: Path) -> None:
    manifest = read_manifest(json.loads((bundle / "manifest.json").read_text(encoding="utf-8")))
    again = rebuilt(manifest, own=False)
    assert [port.name for port in again.outputs] == ["cos_far", "sin_far", "cos_near", "sin_near"]
    types = TYPES.replace('"head_dim": 16', '"head_dim": 1000000', 1)
    with pytest.raises(NotHeld, match="head_dim must be at most 65536, got 1000000"):
        rebuilt(replace(manifest, params={**manifest.params, "layer_types": types}), own=False)
