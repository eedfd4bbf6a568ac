"""A model that takes images is exported with the graph that counts their positions, and the proof sees a wrong one."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import posenc_export
from helpers.embedded import run
from helpers.prompt_graphs import config_of, small_model
from helpers.shared import Once, need
from posenc.spec import Spec
from posenc_export.proof.exporter import export_target
from posenc_export.proof.exporter.options import ExportOptions
from posenc_export.proof.judging.verdict import ValidateOptions
from posenc_export.proof.runtimes.runner_build import build
from posenc_export.write.targets import Target
from posenc_export.write.targets.prompt_positions import prompt_positions
from posenc_models import ModelFolder
from posenc_models.vision import rule_of

IMAGE, START, END = 60, 62, 63


@pytest.fixture
def folder(once: Once) -> Path:
    """A small Qwen2-VL, as save_pretrained writes it."""
    return once("qwen2-vl-small", small_model) / "model"


@pytest.mark.exhaustive
def test_an_export_has_the_graph_of_positions(folder: Path, tmp_path: Path) -> None:
    result = posenc_export.export(
        ModelFolder.load(folder), to=tmp_path / "out", max_len=24, formats=["onnx"], runtimes=["ort-cpu"]
    )
    assert not result.failed
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["parts"] == ["positions"]
    said = "positions of images and videos are those of Qwen2VLModel.get_rope_index, in 40 batches of prompts at random"
    assert f"positions: {said}" in manifest["notes"]
    of_part = json.loads((tmp_path / "out" / "positions" / "manifest.json").read_text())
    assert [port["name"] for port in of_part["inputs"]] == [
        "input_ids",
        "attention_mask",
        "past_rope_deltas",
        "image_grid_thw",
        "video_grid_thw",
    ]
    assert {port["carries"]["what"] for port in of_part["inputs"]} == {"prompt"}
    names = [case["name"] for case in of_part["cases"]]
    assert sum(name.endswith("refused") for name in names) == 3
    assert any("images0-videos0" in name for name in names)
    assert any("past0" in name for name in names)
    # the bundle still loads as one that writes text
    assert posenc_export.load(tmp_path / "out").generate([[1, 2, 3]], max_new_tokens=2)
    follows_generate(folder, tmp_path / "out" / "positions.onnx")


@pytest.mark.exhaustive
def test_a_class_in_cpp_counts_the_same(folder: Path, tmp_path: Path) -> None:
    """It replays the golden calls, refused ones too: grids that do not fit, images without a place."""
    need("ort-cpp")
    settings: Any = {"max_len": 24, "formats": ["onnx"], "validate": False, "cpp": True}
    posenc_export.export(ModelFolder.load(folder), to=tmp_path / "qwen", **settings)
    build(tmp_path / "qwen" / "positions" / "cpp", tmp_path, {})
    done = run("ctest", "--test-dir", tmp_path, "--output-on-failure")
    assert (done.returncode, "qwen_positions.hpp" in str(list(tmp_path.rglob("*.hpp")))) == (0, True), done.stdout


def follows_generate(folder: Path, file: Path) -> None:
    """Hold the graph's positions in each step against those that the model's own `generate` gives its text model."""
    from transformers import Qwen2VLForConditionalGeneration

    model = Qwen2VLForConditionalGeneration.from_pretrained(folder).eval()
    seen: list[Tensor] = []
    text_model: Any = model.model.language_model
    text_model.register_forward_pre_hook(
        lambda _, args, named: seen.append(named["position_ids"].clone()), with_kwargs=True
    )
    pictures = {(2, 4): 2, (4, 4): 4}
    picked = [[(2, 4), (4, 4)], [(4, 4)]]
    rows = [
        [5, 9, *(token for size in sizes for token in (START, *[IMAGE] * pictures[size], END)), 7, 8]
        for sizes in picked
    ]
    longest = max(map(len, rows))
    ids = np.array([[0] * (longest - len(row)) + row for row in rows])
    mask = np.array([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
    grids = np.array([[1, *size] for sizes in picked for size in sizes])
    torch.manual_seed(1)
    pixels = torch.randn(int(grids.prod(1).sum()), 3 * 2 * 4 * 4)
    model.generate(
        input_ids=torch.tensor(ids),
        attention_mask=torch.tensor(mask),
        pixel_values=pixels,
        image_grid_thw=torch.tensor(grids),
        mm_token_type_ids=torch.tensor((ids == IMAGE).astype(np.int64)),
        max_new_tokens=4,
        do_sample=False,
    )
    session = onnxruntime.InferenceSession(file)
    none, deltas = np.zeros((0, 3), np.int64), np.zeros((2, 1), np.int64)
    assert len(seen) == 4
    for step, expected in enumerate(seen):
        positions, deltas = session.run(
            None,
            {
                "input_ids": ids if step == 0 else np.full((2, 1), 5),
                "attention_mask": mask,
                "past_rope_deltas": deltas,
                "image_grid_thw": none if step else grids,
                "video_grid_thw": none,
            },
        )
        tokens = mask[:, -positions.shape[2] :].astype(bool)
        np.testing.assert_array_equal(positions[:, tokens], expected[-3:][:, torch.tensor(tokens)].numpy())
        mask = np.concatenate([mask, np.ones((2, 1), np.int64)], 1)


class Wrong(nn.Module):
    """Positions that somebody else counts wrongly.

    Args:
        right: The right ones.
        spoiled: Makes wrong ones of right ones, and of what goes in.
    """

    def __init__(self, right: nn.Module, spoiled: Callable[..., tuple[Tensor, Tensor]]) -> None:
        super().__init__()
        self.right, self.spoiled = right, spoiled

    def forward(self, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return wrong positions and deltas."""
        return self.spoiled(self.right, *inputs)


def counted_on(right: nn.Module, ids: Tensor, mask: Tensor, deltas: Tensor, *grids: Tensor) -> tuple[Tensor, Tensor]:
    """Count on through images, as a model of text does."""
    positions, found = right(ids, mask, deltas, *grids)
    counted = (mask.cumsum(1) - 1)[:, -ids.shape[1] :] + deltas
    return torch.where(mask[:, -ids.shape[1] :] != 0, counted, 0).expand_as(positions), found


def exchanged(right: nn.Module, *inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Exchange rows and columns."""
    positions, found = right(*inputs)
    return positions[[0, 2, 1]], found


def forgotten(right: nn.Module, ids: Tensor, mask: Tensor, deltas: Tensor, *grids: Tensor) -> tuple[Tensor, Tensor]:
    """Forget what the text before a call has added."""
    positions, found = right(ids, mask, deltas * 0, *grids)
    return positions, found


def transposed(right: nn.Module, ids: Tensor, mask: Tensor, deltas: Tensor, *grids: Tensor) -> tuple[Tensor, Tensor]:
    """Take the rows of each image for its columns."""
    images, videos, *seconds = grids
    positions, found = right(ids, mask, deltas, images[:, [0, 2, 1]], videos, *seconds)
    return positions, found


@pytest.mark.exhaustive
@pytest.mark.parametrize("spoiled", [counted_on, exchanged, forgotten, transposed])
def test_the_proof_sees_wrong_positions(spoiled: Callable[..., tuple[Tensor, Tensor]], tmp_path: Path) -> None:
    rule, _ = rule_of(config_of("qwen2_vl"), asked=5)
    right = prompt_positions(rule)

    def module() -> nn.Module:
        return Wrong(right.module, spoiled).eval()

    encoding = replace(right, module=module(), fresh=module)
    target = Target("positions", encoding, Spec(mode="dynamic", max_len=64), {}, file="positions")
    options = ExportOptions(formats=("onnx",), validation=ValidateOptions(runtimes=("ort-cpu",)))
    result = export_target(lambda: target, options, tmp_path / "out")
    assert result.failed
    differ = [one for verdict in result.verdicts for one in verdict.comparisons if not one.passed]
    assert {one.against for one in differ} == {"reference"}
