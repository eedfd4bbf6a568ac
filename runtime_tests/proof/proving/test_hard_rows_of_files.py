"""Files of other exporters are called with hard rows, as exports are: a lost epsilon fails, and a right file passes."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from torch import nn

import posenc_export
from helpers.shared import Cli, Once
from helpers.small_numbers import ByAbsolutes, ByNorm, OwnLayerNorm, RootMeanSquare, Small
from posenc_export.proof.judging.verdict import AGREES
from posenc_export.proof.report.result import ValidateResult

X = "x: float32[batch, 8]"
TINY = 2e-5
"""No constant below this but an epsilon stands in these files."""


def traced(module: nn.Module, path: Path) -> Path:
    """Write a module by torch's older exporter."""
    names = {"x": {0: "batch"}}
    torch.onnx.export(
        module, (torch.randn(2, 8),), path, input_names=["x"], output_names=["y"], dynamic_axes=names, dynamo=False
    )
    return path


def constants(model: ModelProto) -> Mapping[str, float]:
    """The stored numbers of a graph, by the names of their tensors."""
    graph = model.graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    of_nodes = {node.output[0]: node.attribute[0].t for node in graph.node if node.op_type == "Constant"}
    arrays = {name: numpy_helper.to_array(tensor) for name, tensor in {**stored, **of_nodes}.items()}
    return {name: float(array.reshape(())) for name, array in arrays.items() if array.size == 1}


def without_epsilons(path: Path) -> Path:
    """Write a file beside another, with Identity in the place of each Add of a small number."""
    model = onnx.load(path)
    small = {name for name, number in constants(model).items() if 0 < abs(number) < TINY}
    dropped = [node for node in model.graph.node if node.op_type == "Add" and small & set(node.input)]
    assert dropped
    for node in dropped:
        _drop(node, small)
    onnx.save(model, path.with_name("dropped.onnx"))
    return path.with_name("dropped.onnx")


def _drop(node: NodeProto, small: set[str]) -> None:
    (kept,) = set(node.input) - small
    node.op_type = "Identity"
    node.input[:] = [kept]


def held(path: Path, module: nn.Module, *inputs: str) -> ValidateResult:
    return posenc_export.prove(path, module, inputs=inputs or (X,), runtimes="ort-cpu")


def failing(result: ValidateResult) -> set[str]:
    """The cases in which a file differs."""
    row = next(verdict for verdict in result.verdicts if verdict.check == AGREES)
    return {comparison.case for comparison in row.comparisons if not comparison.passed}


@pytest.mark.parametrize("epsilon", [1e-5, 1e-12])
@pytest.mark.parametrize("kind", [ByAbsolutes, RootMeanSquare, OwnLayerNorm, ByNorm])
def test_a_lost_epsilon_fails_and_the_file_with_it_passes(tmp_path: Path, kind: type[Small], epsilon: float) -> None:
    module = kind(epsilon).eval()
    path = traced(module, tmp_path / "theirs.onnx")
    result = held(path, module)
    assert result.passed, str(result)
    assert any(case.hard for case in result.manifest.cases)
    wrong = held(without_epsilons(path), module)
    usual = {case for case in failing(wrong) if "-hard-" not in case}
    assert usual != failing(wrong)
    # usual numbers never show so small a one
    assert epsilon > 1e-6 or not usual


@pytest.mark.parametrize("epsilon", [1e-5, 1e-12])
def test_an_optimizer_that_loses_an_epsilon_fails(tmp_path: Path, epsilon: float) -> None:
    path = traced(ByAbsolutes(epsilon).eval(), tmp_path / "theirs.onnx")
    for after, passed in ((path, True), (without_epsilons(path), False)):
        result = posenc_export.prove(after, str(path), inputs=(X,), runtimes="ort-cpu")
        assert result.passed == passed, str(result)


class MaskedMean(nn.Module):
    """The mean of the tokens that a mask keeps, beside each token."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        kept = mask.to(x.dtype)[:, :, None]
        return x - (x * kept).sum(1, keepdim=True) / kept.sum(1, keepdim=True).clamp(min=1.0)


def test_a_file_need_not_answer_where_every_token_is_masked(tmp_path: Path) -> None:
    """Where a whole sequence is masked, this file divides by 0; nobody reads what it gives there."""
    module = MaskedMean()
    arguments = (torch.randn(2, 5, 8), torch.ones(2, 5, dtype=torch.int64))
    axes = {"x": {0: "batch", 1: "seq"}, "mask": {0: "batch", 1: "seq"}}
    path = tmp_path / "theirs.onnx"
    torch.onnx.export(
        module, arguments, path, input_names=["x", "mask"], output_names=["y"], dynamic_axes=axes, dynamo=False
    )
    model = onnx.load(path)
    for node in model.graph.node:
        if node.op_type == "Clip":
            node.op_type = "Identity"
            del node.input[1:]
    onnx.save(model, path)
    result = held(path, module, "x: float32[batch, seq, 8]", "mask: int64[batch, seq] mask")
    assert result.passed, str(result)


def in_half(path: Path, place: Path) -> Path:
    """Write a file with its weights, and what is computed of them, in half precision."""
    model = onnx.load(path)
    graph = model.graph
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            array = numpy_helper.to_array(tensor).astype(np.float16)
            # converters keep the smallest number that half has in the place of smaller ones
            array = np.where((array == 0) & (numpy_helper.to_array(tensor) > 0), np.float16(1e-7), array)
            tensor.CopyFrom(numpy_helper.from_array(array.astype(np.float16), tensor.name))
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].t.data_type == TensorProto.FLOAT:
            array = numpy_helper.to_array(node.attribute[0].t)
            narrow = array.astype(np.float16)
            narrow = np.where((narrow == 0) & (array > 0), np.float16(1e-7), narrow).astype(np.float16)
            node.attribute[0].t.CopyFrom(numpy_helper.from_array(narrow))
        if node.op_type == "Cast" and node.attribute[0].i == TensorProto.FLOAT:
            node.attribute[0].i = TensorProto.FLOAT16
        node.input[:] = ["x_half" if name == "x" else name for name in node.input]
        node.output[:] = ["y_half" if name == "y" else name for name in node.output]
    graph.node.insert(0, helper.make_node("Cast", ["x"], ["x_half"], to=TensorProto.FLOAT16))
    graph.node.append(helper.make_node("Cast", ["y_half"], ["y"], to=TensorProto.FLOAT))
    onnx.save(model, place)
    return place


@pytest.mark.parametrize("kind", [RootMeanSquare, OwnLayerNorm])
def test_half_precision_is_held_as_far_as_it_reaches(tmp_path: Path, kind: type[Small]) -> None:
    """Squares of 1e4 are infinite in half, in a right file too; a row of zeros needs its epsilon there as well."""
    module = kind(1e-5).eval()
    path = traced(module, tmp_path / "theirs.onnx")
    result = held(in_half(path, tmp_path / "half.onnx"), module)
    assert result.passed, str(result)
    assert any(case.hard for case in result.manifest.cases)
    wrong = held(in_half(without_epsilons(path), tmp_path / "wrong.onnx"), module)
    assert any("-hard-" in case for case in failing(wrong))


def llama_with_zeros(folder: Path) -> None:
    """A small Llama of which one word of many has an embedding of zeros, as padding has after training."""
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=4096,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=64,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=None,
    )
    model = transformers.LlamaForCausalLM(config)
    with torch.no_grad():
        model.model.embed_tokens.weight.normal_(std=0.3)
        model.model.embed_tokens.weight[-1] = 0
    model.save_pretrained(folder)


@pytest.mark.exhaustive  # an export and two proofs of a model
def test_a_model_s_file_without_its_epsilon_fails(once: Once, cli: Cli, tmp_path: Path) -> None:
    model = once("llama-with-zeros", llama_with_zeros)
    assert cli("export", "--model", str(model), "-o", "whole", "--no-validate").exit_code == 0
    theirs = tmp_path / "theirs.onnx"
    onnx.save(onnx.load(tmp_path / "whole" / "model.onnx"), theirs)
    words = ("--model", str(model), "--runtime", "ort-cpu", "--proof", "quick")
    right = cli("prove", str(theirs), *words)
    assert right.exit_code == 0, right.output
    wrong = cli("prove", str(without_epsilons(theirs)), *words)
    assert (wrong.exit_code, "-hard-rows-of-tokens" in wrong.output) == (1, True), wrong.output
