"""Caches that a file takes and gives: which output continues which input is known by names and by numbers."""

from pathlib import Path

import onnx
import pytest
import torch
from onnx import TensorProto, helper
from torch import Tensor, nn

import posenc_export
from posenc_export.proof.foreign.continued import plain_name
from posenc_export.proof.report.result import ValidateResult

CACHE = "float32[batch, 2, past, 4]"
INPUTS = ("x: float32[batch, 2, seq, 4]", f"past_0_key: {CACHE}", f"past_0_value: {CACHE}")


class Layer(nn.Module):
    """A sum over keys and values, which come out longer; keys come before values."""

    def forward(self, x: Tensor, past_0_key: Tensor, past_0_value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        keys, values = torch.cat([past_0_key, x], 2), torch.cat([past_0_value, x + x], 2)
        return x + values.mean(2, keepdim=True), keys, values


def layer_file(path: Path, outputs: tuple[str, ...]) -> Path:
    """Write the layer with its outputs in an order."""
    past: list[str | int | None] = ["batch", 2, "past", 4]
    tokens: list[str | int | None] = ["batch", 2, "seq", 4]
    nodes = [
        helper.make_node("Add", ["x", "x"], ["double"]),
        helper.make_node("Concat", ["past.0.key", "x"], ["present.0.key"], axis=2),
        helper.make_node("Concat", ["past.0.value", "double"], ["present.0.value"], axis=2),
        helper.make_node("ReduceMean", ["present.0.value"], ["mean"], axes=[2], keepdims=1),
        helper.make_node("Add", ["x", "mean"], ["hidden"]),
    ]
    inputs = [("x", tokens), ("past.0.key", past), ("past.0.value", past)]
    graph = helper.make_graph(
        nodes,
        "layer",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def held(path: Path) -> ValidateResult:
    return posenc_export.prove(path, Layer, inputs=INPUTS, max_len=8, runtimes="ort-cpu")


def test_caches_in_another_order_than_the_modules_are_matched(tmp_path: Path) -> None:
    # a builder lists keys of all layers before values, a wrapper of a model layer by layer
    path = layer_file(tmp_path / "model.onnx", ("hidden", "present.0.value", "present.0.key"))
    result = held(path)
    assert result.passed, str(result)
    assert "hidden is y0, present.0.key is y1, present.0.value is y2" in " ".join(result.manifest.notes)


@pytest.mark.exhaustive
def test_names_that_the_user_gives_are_stronger(tmp_path: Path) -> None:
    path = layer_file(tmp_path / "model.onnx", ("hidden", "present.0.value", "present.0.key"))
    said = ("present.0.value=y1", "present.0.key=y2")
    result = posenc_export.prove(path, Layer, inputs=(*INPUTS, *said), max_len=8, runtimes="ort-cpu")
    row = next(verdict for verdict in result.verdicts if verdict.check == "agrees")
    assert {comparison.output for comparison in row.comparisons if not comparison.passed} == {"y1", "y2"}


@pytest.mark.exhaustive
def test_caches_that_are_exchanged_fail(tmp_path: Path) -> None:
    path = layer_file(tmp_path / "model.onnx", ("hidden", "present.0.key", "present.0.value"))
    model = onnx.load(path)
    for node in model.graph.node[1:3]:
        node.output[0] = {"present.0.key": "present.0.value", "present.0.value": "present.0.key"}[node.output[0]]
    model.graph.node[3].input[0] = "present.0.key"
    onnx.save(model, path)
    row = next(verdict for verdict in held(path).verdicts if verdict.check == "agrees")
    assert {comparison.output for comparison in row.comparisons if not comparison.passed} == {"y1", "y2"}


RENAMED = (
    {"present.0.key": "cache.0.key", "present.0.value": "cache.0.value"},
    {"present.0.key": "a", "present.0.value": "b"},
)


@pytest.mark.parametrize("names", RENAMED, ids=["another side", "no word of a cache"])
def test_caches_whose_names_do_not_say_it_are_those_that_the_graph_continues(
    names: dict[str, str], tmp_path: Path
) -> None:
    path = layer_file(tmp_path / "model.onnx", ("hidden", "present.0.value", "present.0.key"))
    model = onnx.load(path)
    for node in model.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    for value in model.graph.output:
        value.name = names.get(value.name, value.name)
    onnx.save(model, path)
    result = held(path)
    assert result.passed, str(result)
    key, value = names.values()
    assert f"{key} is y1, {value} is y2" in " ".join(result.manifest.notes)


def test_caches_that_go_in_under_another_beginning_are_matched(tmp_path: Path) -> None:
    # transformers 5.24 says past_key_values.layers.0.keys for input.past_key_values.layers.0.keys
    path = layer_file(tmp_path / "model.onnx", ("hidden", "present.0.value", "present.0.key"))
    model = onnx.load(path)
    renamed = {"past.0.key": "input.past_key_values.0.key", "past.0.value": "input.past_key_values.0.value"}
    for node in model.graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]
    for value in model.graph.input:
        value.name = renamed.get(value.name, value.name)
    onnx.save(model, path)
    result = held(path)
    assert result.passed, str(result)


@pytest.mark.parametrize(
    ("past", "present"),
    [
        ("past_key_values.0.key", "present.0.key"),
        ("past_key_values.0.key", "present_key_values.0.key"),
        ("past.0.k", "present.0.k"),
        ("input_past_key_values_layers_0_keys", "output_past_key_values_layers_0_keys"),
        ("past_key_self_1", "present_key_self_1"),
        ("past_key_values.layers.0.keys", "cache.layers.0.keys"),
        ("past_key_values.0.key", "output.past_key_values.layers.0.keys"),
        ("past_key_values.1.value", "cache.layers.1.values"),
    ],
)
def test_names_of_caches_before_and_after_a_call(past: str, present: str) -> None:
    assert plain_name(past) == plain_name(present) != ""
