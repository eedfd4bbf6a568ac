"""Videos, poses and segments: what models see answers in one graph, and is what transformers answers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

from helpers.model_folders import PICTURES, Small
from helpers.shared import Cli, Once, one_of_each
from posenc_models import ModelFolder

VIDEOS, POSES = "AutoModelForVideoClassification", "AutoModelForPoseEstimation"
POSED: Mapping[str, Any] = {
    "backbone_config": {
        **PICTURES,
        "model_type": "vitpose_backbone",
        "image_size": [64, 48],
        "patch_size": [16, 16],
        "out_indices": [2],
    },
    "num_labels": 5,
}
PARTED: Mapping[str, Any] = {
    "backbone_config": {
        "model_type": "swin",
        "embed_dim": 8,
        "depths": [1, 1, 1, 1],
        "num_heads": [1, 2, 2, 2],
        "window_size": 4,
        "image_size": 64,
        "patch_size": 2,
        "out_features": ["stage1", "stage2", "stage3", "stage4"],
    },
    "decoder_config": {
        "model_type": "detr",
        "d_model": 32,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "decoder_ffn_dim": 16,
        "num_queries": 4,
        "use_timm_backbone": False,
        "backbone_config": {"model_type": "resnet"},
    },
    "fpn_feature_size": 32,
    "mask_feature_size": 32,
}
SEEN: Mapping[str, tuple[Small, str, str]] = {
    small.title: (small, task, port)
    for small, task, port in (
        (Small("VideoMAE", "videomae", VIDEOS, {**PICTURES, "num_frames": 4}), "video-classification", "4, 3, 16, 16"),
        (
            Small("TimeSformer", "timesformer", VIDEOS, {**PICTURES, "num_frames": 4}),
            "video-classification",
            "4, 3, 16, 16",
        ),
        (
            Small("ViViT", "vivit", VIDEOS, {**PICTURES, "num_frames": 4, "tubelet_size": [2, 4, 4]}),
            "video-classification",
            "4, 3, 16, 16",
        ),
        (Small("ViTPose", "vitpose", POSES, POSED), "keypoint-detection", "3, 64, 48"),
        (
            Small("MaskFormer", "maskformer", "AutoModelForUniversalSegmentation", PARTED),
            "image-segmentation",
            "3, 64, 64",
        ),
    )
}


@pytest.fixture(autouse=True)
def without_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    """MaskFormer asks for scipy where it is made, for a loss that no answer needs."""
    from transformers.models.maskformer import modeling_maskformer

    monkeypatch.setattr(modeling_maskformer, "requires_backends", lambda *_: None)


def saved_seen(once: Once, title: str) -> Path:
    """A folder with a small model, its weights at random."""
    return once(f"model-{title.lower()}", SEEN[title][0].save)


@pytest.mark.parametrize("title", SEEN)
def test_what_goes_in_and_comes_out(once: Once, title: str) -> None:
    _, task, port = SEEN[title]
    folder = ModelFolder.load(saved_seen(once, title))
    assert folder.task.name == task
    whole = folder.build()
    assert whole.inputs == (f"pixel_values: float32[batch_size, {port}]",)
    model: Any = whole.module.model
    pixels = torch.randn(2, *map(int, port.split(", ")))
    with torch.no_grad():
        expected = model(pixel_values=pixels)
        for name, value in zip(whole.outputs, whole.module(pixels), strict=True):
            torch.testing.assert_close(value, expected[name])


@pytest.mark.exhaustive  # each is exported
@pytest.mark.parametrize("title", one_of_each(SEEN, str))
def test_it_is_certified(once: Once, cli: Cli, title: str) -> None:
    folder = saved_seen(once, title)
    result = cli("export", "--model", str(folder), "--runtime", "ort-cpu", "--proof", "quick", "-o", "whole")
    assert result.exit_code == 0, result.output
    whole = ModelFolder.load(folder).build()
    model: Any = whole.module.model
    pixels = np.random.default_rng(0).normal(size=(2, *map(int, SEEN[title][2].split(", ")))).astype(np.float32)
    outputs = onnxruntime.InferenceSession("whole/model.onnx").run(whole.outputs, {"pixel_values": pixels})
    with torch.no_grad():
        expected = model(pixel_values=torch.from_numpy(pixels))
    for name, array in zip(whole.outputs, outputs, strict=True):
        scale = max(1.0, float(expected[name].abs().max()))
        np.testing.assert_allclose(array, expected[name], atol=1e-5 * scale)
