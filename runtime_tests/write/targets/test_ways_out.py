"""Modules for which a right file exists get one, or a refusal of one line that says what to change."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn

import posenc_export
from helpers import ways_out
from helpers.shared import Cli, one_of_each
from posenc_export.common.errors import ExportFailed
from posenc_export.proof.report.result import ValidateResult
from posenc_export.write.formats.linspace import dynamic_linspace
from posenc_export.write.formats.resizing import dynamic_interpolate
from posenc_export.write.inputs.ports import parse_ports

TABLE = ("x: float32[batch, seq, 8]", "positions: int64[batch, seq] positions < 64")
IMAGE = "x: float32[batch, 3, height % 4{0}, width % 4{0}]"


def exported(module: nn.Module, *inputs: str, to: Path, max_len: int = 64) -> ValidateResult:
    return posenc_export.export(module, inputs=inputs, to=to, max_len=max_len, formats=["onnx"], runtimes=["ort-cpu"])


def session(folder: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(
    ("module", "text"),
    one_of_each(
        [
            (ways_out.Frames(), "x: float32[batch, frames, 8]"),
            (ways_out.Places(), "x: float32[batch, 4, height % 2, width % 2]"),
        ],
        str,
    ),
)
def test_linspace_is_right_at_every_size_one_included(tmp_path: Path, module: nn.Module, text: str) -> None:
    result = exported(module, text, to=tmp_path / "out")
    assert result.passed, str(result)
    least = [axis.allowed(1) for axis in parse_ports((text,))[0].axes if axis.is_length]
    assert any(list(case.sizes.values())[1:] == least for case in result.manifest.cases)


@pytest.mark.parametrize("steps", [1, 2, 3, 8, 11, 64])
@pytest.mark.parametrize("ends", [(0.0, 1.0), (-3.0, 17.0), (5.0, 5.0), (2, 9)])
def test_the_other_form_of_linspace_gives_its_numbers(steps: int, ends: tuple[float, float]) -> None:
    expected = torch.linspace(*ends, steps)
    with dynamic_linspace():
        count: Any = torch.tensor(steps)
        actual = torch.linspace(*ends, count)
    assert actual.dtype == expected.dtype
    scale = max(1.0, *map(abs, ends))
    assert float((actual - expected).abs().max()) <= 2 * torch.finfo(torch.float32).eps * scale


def test_a_negative_position_that_eager_refuses_is_refused_by_the_file(tmp_path: Path) -> None:
    result = exported(ways_out.Embedded(), *TABLE, to=tmp_path / "out")
    assert result.passed, str(result)
    assert any(case.refused and case.first < 0 for case in result.manifest.cases)
    x, loaded = np.zeros((1, 2, 8), np.float32), session(tmp_path / "out")
    loaded.run(None, {"x": x, "positions": np.array([[0, 63]])})
    for wrong in ([[0, -1]], [[-64, 0]], [[0, 64]]):
        with pytest.raises(Exception, match="indices element out of data bounds"):
            loaded.run(None, {"x": x, "positions": np.array(wrong)})


def test_a_negative_position_that_eager_takes_is_a_note_with_a_way_out(tmp_path: Path) -> None:
    result = exported(ways_out.Indexed(), *TABLE, to=tmp_path / "out")
    assert result.passed, str(result)
    (note,) = [note for note in result.manifest.notes if "answers out of range" in note]
    assert "position -1" in note
    assert "in 0..63" in note
    assert any(case.refused and case.first > 0 for case in result.manifest.cases), "the end is refused by both"
    said = TABLE[1].replace("positions < 64", "in 0..63")
    result = exported(ways_out.Indexed(), TABLE[0], said, to=tmp_path / "other")
    assert result.passed
    assert not any("answers out of range" in note for note in result.manifest.notes)


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", ["bicubic", "bilinear"])
def test_a_size_at_which_a_module_does_something_else_can_be_left_out(tmp_path: Path, mode: str) -> None:
    with pytest.raises(ExportFailed) as refusal:
        exported(ways_out.Resized(mode), IMAGE.format(""), to=tmp_path / "out")
    assert "leave that size out by 'height % 4 != 24' and 'width % 4 != 24' in -i" in refusal.value.message
    result = exported(ways_out.Resized(mode), IMAGE.format(" != 24"), to=tmp_path / "out")
    assert result.passed, str(result)
    assert not any(24 in (case.sizes["height"], case.sizes["width"]) for case in result.manifest.cases)
    assert posenc_export.validate(tmp_path / "out", runtimes=["ort-cpu"]).passed, "the manifest keeps it"
    loaded = session(tmp_path / "out")
    for height, width in ((16, 36), (28, 28), (4, 60)):
        x = torch.randn(1, 3, height, width)
        (actual,) = loaded.run(None, {"x": x.numpy()})
        np.testing.assert_allclose(actual, ways_out.Resized(mode)(x).detach().numpy(), atol=2e-5)
    for height, width in ((24, 24), (24, 28), (28, 24)):
        with pytest.raises(Exception, match="cannot be reshaped"):
            loaded.run(None, {"x": np.zeros((1, 3, height, width), np.float32)})


@pytest.mark.parametrize("mode", ["bicubic", "bilinear"])
@pytest.mark.parametrize("factor", [0.4, 0.75, 1.0, 1.85, 3.1])
def test_the_other_form_of_resizing_gives_its_numbers(mode: str, factor: float) -> None:
    # float64: in float32 a place between pixels rounds otherwise on each CPU, by more than any other form of a sum
    image = torch.randn(2, 3, 6, 7, dtype=torch.float64)
    expected = nn.functional.interpolate(image, scale_factor=(factor, 1.3), mode=mode, align_corners=False)
    with dynamic_interpolate():
        factors: Any = (torch.tensor(factor, dtype=torch.float64), torch.tensor(1.3, dtype=torch.float64))
        actual = nn.functional.interpolate(image, scale_factor=factors, mode=mode, align_corners=False)
    torch.testing.assert_close(actual, expected, atol=1e-12, rtol=0)


@pytest.mark.exhaustive  # a model with experts takes 8 s
def test_a_refusal_of_experts_is_one_line_that_says_what_to_set(tmp_path: Path, cli: Cli) -> None:
    ids = "ids: int64[batch, seq] < 50"
    words = (
        "export",
        "helpers.ways_out:Experts",
        "-i",
        ids,
        "--max-len",
        "16",
        "-f",
        "onnx",
        "-o",
        str(tmp_path / "a"),
    )
    result = cli(*words)
    assert result.exit_code == 4
    assert result.output.count("\n") == 1
    assert "experts_implementation='batched_mm'" in result.output


@pytest.mark.exhaustive
def test_experts_of_the_named_form_are_exported(tmp_path: Path) -> None:
    module = ways_out.Experts(experts_implementation="batched_mm")
    assert exported(module, "ids: int64[batch, seq] < 50", to=tmp_path / "b", max_len=16).passed


def test_sizes_that_never_come_are_read() -> None:
    (port,) = parse_ports(("x: float32[batch, height % 4 != 24 != 48 >= 8]",))
    axis = port.axes[1]
    assert (axis.without, axis.multiple, axis.least) == ((24, 48), 4, 8)
    assert [axis.allowed(size) for size in (1, 9, 21, 24, 45)] == [8, 12, 28, 28, 52]
    assert axis.allowed(24, 26) == 20
    with pytest.raises(ValueError, match="two lists of sizes that never come"):
        parse_ports(("x: float32[batch, n != 24]", "y: float32[batch, n != 25]"))
