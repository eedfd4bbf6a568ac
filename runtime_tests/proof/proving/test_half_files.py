"""Files that converters made half: held by what half precision costs their target, and no wrong one passes."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

import posenc_export
from posenc_export.proof.foreign.in_half import half_of
from posenc_export.proof.judging.verdict import AGREES, Comparison
from posenc_export.proof.report.result import ValidateResult
from posenc_export.write.formats.onnx.foreign import read_foreign

WORDS, WIDTH, LONGEST = 16, 8, 96
IDS = f"ids: int64[batch, seq] < {WORDS}"


class Rotated(nn.Module):
    """Tokens turned by angles that grow with the position, then mixed."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.words = nn.Embedding(WORDS, WIDTH, _weight=torch.randn(WORDS, WIDTH, generator=generator))
        self.mix = nn.Parameter(torch.randn(WIDTH, WIDTH, generator=generator))
        self.register_buffer("inv_freq", 10000.0 ** (-torch.arange(WIDTH) / WIDTH))

    def forward(self, ids: Tensor) -> Tensor:
        assert isinstance(self.inv_freq, Tensor)
        angles = torch.arange(ids.shape[1])[:, None] * self.inv_freq
        mixed: Tensor = torch.tanh((self.words(ids) * angles.cos()) @ self.mix)
        return mixed


def half_file(path: Path, *, angles_in_half: bool = False, order: tuple[int, ...] = tuple(range(9))) -> Path:
    """Write the module with half weights, angles in single precision unless it is said, nodes in some order."""
    module = Rotated()
    assert isinstance(module.inv_freq, Tensor)
    half, single = TensorProto.FLOAT16, TensorProto.FLOAT
    nodes = [
        helper.make_node("Gather", ["words", "ids"], ["tokens"]),
        helper.make_node("Shape", ["ids"], ["length"], start=1, end=2),
        helper.make_node("Squeeze", ["length"], ["end"]),
        helper.make_node("Range", ["zero", "end", "one"], ["positions"]),
        helper.make_node("Unsqueeze", ["positions", "axis"], ["column"]),
        helper.make_node("Cast", ["column"], ["floats"], to=half if angles_in_half else single),
        helper.make_node("Mul", ["floats", "inv_freq"], ["angles"]),
        helper.make_node("Cast", ["angles"], ["wide"], to=single),
        helper.make_node("Cos", ["wide"], ["wide_cos"]),
        helper.make_node("Cast", ["wide_cos"], ["cos"], to=half),
        helper.make_node("Mul", ["tokens", "cos"], ["turned"]),
        helper.make_node("MatMul", ["turned", "mix"], ["mixed"]),
        helper.make_node("Tanh", ["mixed"], ["out"]),
        helper.make_node("Cast", ["out"], ["y"], to=single),
    ]
    stored = {
        "words": module.words.weight.detach().numpy().astype(np.float16),
        "mix": module.mix.detach().numpy().astype(np.float16),
        "inv_freq": module.inv_freq.numpy().astype(np.float16 if angles_in_half else np.float32),
        "zero": np.array(0),
        "one": np.array(1),
        "axis": np.array([1]),
    }
    graph = helper.make_graph(
        [nodes[place] for place in order] + nodes[len(order) :],
        "half",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "seq"])],
        [helper.make_tensor_value_info("y", single, ["batch", "seq", WIDTH])],
        [numpy_helper.from_array(array, name) for name, array in stored.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def held(path: Path) -> ValidateResult:
    return posenc_export.prove(path, Rotated, inputs=(IDS,), max_len=LONGEST, runtimes="ort-cpu")


def agreement(result: ValidateResult) -> tuple[Comparison, ...]:
    return tuple(next(verdict for verdict in result.verdicts if verdict.check == AGREES).comparisons)


def test_a_right_file_in_half_passes_near_its_own_roundings(tmp_path: Path) -> None:
    # converters to half put their casts at the end, and leave the order to whoever reads it
    path = half_file(tmp_path / "half.onnx", order=(1, 3, 2, 0, 4, 6, 5, 7, 8))
    result = held(path)
    assert result.passed, str(result)
    assert half_of(read_foreign(path).model) == "float16"
    assert "nodes of the file come before what they take: put in order" in result.manifest.notes
    allowed = max(case.tolerance.atol for case in result.manifest.cases)
    worst = max(comparison.max_abs for comparison in agreement(result))
    # wide enough by a factor that the derivation explains, and no wider
    assert allowed / 8 < worst < allowed
    assert allowed < 2**-6


def test_angles_in_half_fail_where_they_are_noise(tmp_path: Path) -> None:
    result = held(half_file(tmp_path / "angles.onnx", angles_in_half=True))
    sizes = {case.name: case.sizes["seq"] for case in result.manifest.cases}
    wrong = {sizes[comparison.case] for comparison in agreement(result) if not comparison.passed}
    assert LONGEST in wrong
    # short calls have angles of few digits
    assert wrong.isdisjoint({1, 2, 3})


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["words", "mix"])
def test_a_wrong_weight_fails_in_half_too(tmp_path: Path, name: str) -> None:
    path = half_file(tmp_path / "half.onnx")
    model = onnx.load(path)
    tensor = next(tensor for tensor in model.graph.initializer if tensor.name == name)
    array = numpy_helper.to_array(tensor).copy()
    array[1, 1] += np.float16(0.25)
    tensor.CopyFrom(numpy_helper.from_array(array, name))
    onnx.save(model, path)
    assert not held(path).passed
