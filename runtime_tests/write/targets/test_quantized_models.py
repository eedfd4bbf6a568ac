"""Whole models whose weights are stored in few bits: a file holds the numbers of the module that judges it."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

import posenc_export
from helpers.model_folders import MODELS
from helpers.shared import Cli, Once
from posenc.ports import Array
from posenc_export.bundle.folder import Bundle, sha256
from posenc_export.common.errors import ExportFailed
from posenc_export.proof.callees import Callee
from posenc_export.proof.exporter import ExportOptions
from posenc_export.proof.exporter.settings import split
from posenc_export.proof.generation import TokenWriter, precision_cost, prompt_batch
from posenc_export.write.formats.onnx.quantized import compute_in, note_of_blocks, store_in_blocks
from posenc_export.write.inputs.ports import parse_ports
from posenc_models import ModelFolder
from posenc_models.whole import BITS, Quantize, blocks_of
from posenc_models.whole.quantized import round_inputs, round_linear

QUANTIZED = get_args(Quantize)


def normal(*shape: int, scale: float = 1.0, seed: int = 0) -> Array:
    array: Array = (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)
    return array


def unpacked(packed: Array, scales: Array, bits: int, rows: int) -> Array:
    """The weights of blocks by the operator's documentation, a number at a time: (rows, columns)."""
    columns, blocks, _ = packed.shape
    weights = np.zeros((blocks * 32, columns), np.float32)
    for column in range(columns):
        for row in range(blocks * 32):
            byte = int(packed[column, row // 32, row % 32 * bits // 8])
            number = byte if bits == 8 else (byte >> 4 if row % 2 else byte & 15)
            weights[row, column] = np.float32(number - 2 ** (bits - 1)) * np.float32(scales[column, row // 32])
    return weights[:rows]


# ---- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quantize", QUANTIZED)
@pytest.mark.parametrize("shape", [(64, 5), (70, 3), (7, 4)])
@pytest.mark.parametrize(("dtype", "scale"), [("float32", 1.0), ("float32", 1e-6), ("float16", 1.0), ("float16", 1e-3)])
def test_blocks_hold_what_is_near_and_hold_it_again(
    quantize: Quantize, shape: tuple[int, int], dtype: str, scale: float
) -> None:
    """Weights are off by half a step of their block, and by one at its positive end; rounded numbers do not change."""
    weights = normal(*shape, scale=scale).astype(dtype)
    weights[:, 0] = 0
    blocks = blocks_of(weights, quantize)
    rounded = blocks.weights
    assert rounded.dtype == weights.dtype
    np.testing.assert_array_equal(
        rounded, unpacked(blocks.packed, blocks.scales, BITS[quantize], shape[0]).astype(dtype)
    )
    steps = np.abs(blocks.scales.astype(np.float64)).repeat(32, 1)[:, : shape[0]].T
    off = np.abs(rounded.astype(np.float64) - weights)
    grain = np.finfo(dtype).eps * np.abs(weights).astype(np.float64) * 2 + np.finfo(dtype).smallest_subnormal * 128
    assert (off <= steps * 1.01 + grain).all()
    np.testing.assert_array_equal(blocks_of(rounded, quantize).weights, rounded)


class Tied(nn.Module):
    """A head that shares its weights with an embedding, behind both kinds of layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.middle, self.head = nn.Embedding(9, 64), Conv1D(64, 64), nn.Linear(64, 9, bias=False)
        self.head.weight = self.embed.weight


def test_linear_layers_are_rounded_and_what_they_share_is_not() -> None:
    torch.manual_seed(0)
    module = Tied()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    round_linear(module, "int4")
    assert torch.equal(module.embed.weight, before["embed.weight"])
    assert torch.equal(module.middle.bias, before["middle.bias"])
    for name, weight, across in (
        ("middle.weight", module.middle.weight, False),
        ("head.weight", module.head.weight, True),
    ):
        assert not torch.equal(weight, before[name])
        old, new = (tensor.detach().numpy() for tensor in (before[name], weight))
        expected = blocks_of(old.T if across else old, "int4").weights
        np.testing.assert_array_equal(new, expected.T if across else expected)


def test_the_quantizer_leaves_the_logs_of_a_program_alone() -> None:
    words = (
        "import logging, numpy; from posenc_models.whole import blocks_of; "
        "blocks_of(numpy.ones((32, 2), numpy.float32), 'int4'); logging.getLogger('a').info('said'); "
        "assert not logging.root.handlers"
    )
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# ---- graphs ----------------------------------------------------------------------------------------------------------


def products(weights: Array, other: Array, bias: Array) -> ir.Model:
    """Return a graph of a MatMul by rounded weights, a Gemm by their transpose, and a MatMul by others."""
    text = """
        <ir_version: 8, opset_import: ["" : 18]>
        graph (float[n, 64] x) => (float[n, 64] y) <float[64, 64] w, float[64, 64] t, float[64, 64] other, float[64] b>
        {
            first = MatMul(x, w)
            second = Gemm<transB = 1>(first, t, b)
            y = MatMul(second, other)
        }
    """
    model = onnx.parser.parse_model(text)
    arrays = {"w": weights, "t": np.ascontiguousarray(weights.T), "other": other, "b": bias}
    del model.graph.initializer[:]
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in arrays.items())
    return ir.from_proto(model)


@pytest.mark.parametrize("quantize", QUANTIZED)
def test_a_product_is_stored_in_blocks_where_that_changes_no_number(quantize: Quantize) -> None:
    """Numbers that were not rounded, as those of positions, stay as they are."""
    weights, other, bias = blocks_of(normal(64, 64), quantize).weights, normal(64, 64, seed=1), normal(64, seed=2)
    x = normal(5, 64, seed=3)
    model = products(weights, other, bias)
    store_in_blocks(model, quantize)
    written = ir.to_proto(model)
    onnx.checker.check_model(written, full_check=True)
    assert [node.op_type for node in written.graph.node] == ["MatMulNBits", "MatMulNBits", "Add", "MatMul"]
    stored = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in written.graph.initializer}
    assert not {"w", "t"} & stored.keys()
    np.testing.assert_array_equal(stored["other"], other)
    for node in written.graph.node[:2]:
        packed, scales = (stored[name] for name in node.input[1:3])
        np.testing.assert_array_equal(unpacked(packed, scales, BITS[quantize], 64), weights)
        assert {"accuracy_level": 1}.items() <= {one.name: one.i for one in node.attribute}.items()
    (actual,) = onnxruntime.InferenceSession(written.SerializeToString()).run(None, {"x": x})
    wide = weights.astype(np.float64)
    expected = (x @ wide @ wide + bias) @ other
    assert np.abs(actual - expected).max() <= 16 * np.finfo(np.float32).eps * np.abs(expected).max()
    words = note_of_blocks(written)
    assert words == f"2 products read weights of {BITS[quantize]} bits, in blocks of 32: 66% of all weights"


@pytest.mark.parametrize("rows", [64, 70])
@pytest.mark.parametrize("quantize", QUANTIZED)
def test_at_accuracy_level_4_a_kernel_rounds_as_the_layer_that_rounds_what_goes_in(
    quantize: Quantize, rows: int
) -> None:
    """An input at the edge of two numbers may fall to either side: twice the difference that rounding makes is room."""
    torch.manual_seed(0)
    layer = nn.Linear(rows, 48, bias=False)
    round_linear(layer, quantize)
    weights, x = layer.weight.detach().numpy().T, normal(5, rows, seed=3)
    x[1] = 0
    with torch.no_grad():
        exact = layer(torch.from_numpy(x)).numpy()
        round_inputs(layer)
        expected = layer(torch.from_numpy(x)).numpy()
    ports = f"(float[n, {rows}] x) => (float[n, 48] y) <float[{rows}, 48] w>"
    head = '<ir_version: 8, opset_import: ["" : 18]>'
    graph = onnx.parser.parse_model(f"{head} graph {ports} {{ y = MatMul(x, w) }}")
    del graph.graph.initializer[:]
    graph.graph.initializer.append(onnx.numpy_helper.from_array(np.ascontiguousarray(weights), "w"))
    model = ir.from_proto(graph)
    store_in_blocks(model, quantize, 4)
    written = ir.to_proto(model)
    (actual,) = onnxruntime.InferenceSession(written.SerializeToString()).run(None, {"x": x})
    move = np.abs(expected - exact).max()
    assert 1e-4 < move / np.abs(exact).max() < 0.02
    assert np.abs(actual - exact).max() <= 2 * move
    compute_in(written, 1)
    (in_floats,) = onnxruntime.InferenceSession(written.SerializeToString()).run(None, {"x": x})
    assert np.abs(in_floats - exact).max() <= 16 * np.finfo(np.float32).eps * np.abs(exact).max()


@pytest.mark.parametrize(
    ("quantize", "given", "level"),
    [
        ("int4", {"attention_op": "microsoft"}, 4),
        ("int4", {"attention_op": "microsoft", "accuracy_level": 1}, 1),
        ("int4", {"attention_op": "onnx"}, 1),
        ("int4", {"accuracy_level": 4}, 4),
        (None, {"attention_op": "microsoft"}, 1),
    ],
)
def test_level_4_is_the_default_where_onnx_runtime_alone_loads_the_file(
    once: Once, quantize: Quantize | None, given: dict[str, object], level: int
) -> None:
    folder = ModelFolder.load(str(once("model-llama", MODELS["llama"].save)), quantize=quantize)
    assert split(given, None, ExportOptions(), folder).options.accuracy_level == level


def test_an_accuracy_level_is_for_weights_in_blocks(once: Once, cli: Cli) -> None:
    folder = str(once("model-llama", MODELS["llama"].save))
    for words, text in (
        (("--model", folder, "--accuracy-level", "4"), "is for weights in blocks: give --quantize with it"),
        (("rope", "--accuracy-level", "4"), "--accuracy-level 4 is for weights in blocks, and rope has none"),
        (("--model", folder, "--quantize", "int4", "--accuracy-level", "3"), "accuracy_level must be 1 or 4, got 3"),
    ):
        result = cli("export", *words, "-o", "small")
        assert (result.exit_code, text in result.output) == (2, True), result.output


def test_a_graph_without_such_weights_is_refused() -> None:
    model = products(normal(64, 64), normal(64, 64, seed=1), normal(64, seed=2))
    with pytest.raises(ExportFailed, match="--quantize int4: the graph multiplies by no weights of linear layers"):
        store_in_blocks(model, "int4")


# ---- the whole way ---------------------------------------------------------------------------------------------------


def test_what_cannot_be_quantized_is_refused_in_a_line(once: Once, cli: Cli) -> None:
    folder = str(once("model-llama", MODELS["llama"].save))
    for words, text in (
        (("rope", "--quantize", "int4"), "--quantize is for the weights of a whole model: give --model with it"),
        (("--model", folder, "--quantize", "int4", "--dtype", "bf16"), "--quantize int4 is for --dtype fp32 or fp16"),
        (
            ("--model", folder, "--quantize", "int8", "-f", "onnx,pt2"),
            "--quantize int8 is for ONNX files: leave -f pt2",
        ),
        (("--model", folder, "--quantize", "int2"), "int2"),
    ):
        result = cli("export", *words)
        assert (result.exit_code, text in result.output) == (2, True), result.output


def test_the_cost_of_a_model_is_counted_along_the_tokens_of_the_precise_one() -> None:
    inputs = parse_ports(("input_ids: int64[batch, seq] < 8",))

    def says(token: int, more: float) -> TokenWriter:
        def call(feeds: Any) -> dict[str, Array]:
            logits = np.zeros((*feeds["input_ids"].shape, 8), np.float32)
            logits[..., token], logits[..., 5] = 2.0, 1.0 + more
            return {"logits": logits}

        return TokenWriter(Callee(call, inputs))

    same = precision_cost(says(3, 0.5), says(3, 0.0), prompt_batch([[1, 2], [4]]), 3)
    assert (same.count, same.changed, same.off) == (12, (), 0.25)
    other = precision_cost(says(3, 1.5), says(3, 0.0), prompt_batch([[1, 2], [4]]), 3)
    assert (other.count, len(other.changed)) == (12, 12)
    assert other.changed[0] == "token 0 is 5, not 3"
    assert other.changed[-1] == "token 2 of prompt 1 in a padded batch is 5, not 3"


@pytest.mark.exhaustive  # an export takes half a minute
@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        ("llama", ("int4", "fp32", 1)),
        ("llama", ("int4", "fp32", 4)),
        ("llama", ("int8", "fp16", 1)),
        ("gpt2", ("int8", "fp32", 4)),
        ("bert", ("int4", "fp32", 1)),
    ],
)
def test_a_quantized_model_is_certified(once: Once, cli: Cli, kind: str, numbers: tuple[Quantize, str, int]) -> None:
    """All checks pass beside the module of the file's own weights; the report says what float32 would give."""
    quantize, dtype, level = numbers
    folder = str(once(f"model-{kind}", MODELS[kind].save))
    words = ("--quantize", quantize, "--dtype", dtype, "--max-len", "24", "--runtime", "ort-cpu", "-o", "small")
    result = cli("export", "--model", folder, "--accuracy-level", str(level), *words)
    assert result.exit_code == 0, result.output
    assert f"the module of the file's own {quantize} weights, run in float64" in result.output
    assert re.search(rf"note: \d+ products read weights of {BITS[quantize]} bits, in blocks of 32", result.output)
    precision = quantize if dtype == "fp32" else f"{quantize} and {dtype}"
    precision += f" at accuracy level {level}" if level != 1 else ""
    costs = (
        "in {} it is off, of the largest" if kind == "bert" else "that the model writes in float32, it writes .* in {};"
    )
    assert re.search(costs.format(precision), result.output)
    assert cli("validate", "small", "--runtime", "ort-cpu").exit_code == 0

    # a number of a block is another one: the proof sees it
    path = Path("small/model.onnx")
    model = onnx.load(path)
    packed = next(node.input[1] for node in model.graph.node if node.op_type == "MatMulNBits")
    tensor = next(tensor for tensor in model.graph.initializer if tensor.name == packed)
    array = onnx.numpy_helper.to_array(tensor).copy()
    array.flat[:64] ^= 0x77
    tensor.CopyFrom(onnx.numpy_helper.from_array(array, packed))
    onnx.save(model, path)
    manifest = json.loads(Path("small/manifest.json").read_text())
    assert (manifest["quantize"], manifest["accuracy_level"]) == (quantize, level)
    assert any(case.get("room", 0.0) > 0 for case in manifest["cases"]) is (level != 1)
    (artifact,) = [one for one in manifest["artifacts"] if one["file"] == path.name]
    artifact |= {"sha256": sha256(path), "bytes": path.stat().st_size}  # as if it had been written so
    Path("small/manifest.json").write_text(json.dumps(manifest))
    checked = posenc_export.validate("small", runtimes=["ort-cpu"])
    failed = {(row.subject, row.check) for row in checked.verdicts if row.status == "fail"}
    assert ("ort-cpu", "agrees") in failed
    assert (("onnx", "float-products") in failed) is (level != 1)
    assert Bundle.open(Path("small")).manifest.reference.startswith("the module of the file's own")
