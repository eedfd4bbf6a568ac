"""`--any-image-size`: files whose images have any height and width that the model takes, and models that take one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

from helpers.image_writers import saved_writer
from helpers.model_folders import IMAGES, PICTURES, Small, saved
from helpers.shared import Cli, Once, one_of_each
from posenc_models import ModelFolder
from posenc_models.whole.image_sizes import STRETCHED

PLAIN = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"}
DETECTS: Mapping[str, Any] = {
    "use_timm_backbone": False,
    "use_pretrained_backbone": False,
    "backbone": None,
    "backbone_config": {**PLAIN, "model_type": "resnet", "out_features": ["stage2"]},
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "num_queries": 4,
}
MEASURES: Mapping[str, Any] = {
    "backbone_config": {
        **PICTURES,
        "model_type": "dinov2",
        "num_hidden_layers": 4,
        "image_size": 56,
        "patch_size": 14,
        "out_indices": [1, 2, 3, 4],
        "reshape_hidden_states": False,
    },
    "reassemble_hidden_size": 16,
    "neck_hidden_sizes": [4, 8, 8, 8],
    "fusion_hidden_size": 8,
    "head_hidden_size": 4,
    "patch_size": 14,
}
DENSE: Mapping[str, Any] = {
    **PICTURES,
    "num_hidden_layers": 4,
    "image_size": 32,
    "patch_size": 8,
    "backbone_out_indices": [0, 1, 2, 3],
    "neck_hidden_sizes": [4, 8, 8, 8],
    "fusion_hidden_size": 8,
    "is_hybrid": False,
}
STAGES: Mapping[str, Any] = {
    "hidden_sizes": [8, 8, 16, 16],
    "depths": [1] * 4,
    "decoder_hidden_size": 8,
    "num_attention_heads": [1, 1, 2, 2],
}
DETECTION = "AutoModelForObjectDetection"
FREE: Mapping[str, tuple[Small, str, tuple[int, int]]] = {
    small.title: (small, sides, size)
    for small, sides, size in (
        (Small("ViT", "vit", IMAGES, PICTURES), "% 4 >= 4", (20, 44)),
        (Small("DINOv2", "dinov2", IMAGES, PICTURES), "% 4 >= 4", (24, 12)),
        (Small("CLIP's vision", "clip_vision_model", "AutoModel", PICTURES), "% 4 >= 4", (20, 28)),
        (Small("ResNet", "resnet", IMAGES, PLAIN), ">= 1", (37, 21)),
        (
            Small("ConvNeXt", "convnext", IMAGES, {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2}),
            "% 4 >= 8",
            (28, 44),
        ),
        (Small("DETR", "detr", DETECTION, DETECTS), ">= 1", (41, 30)),
        (
            Small("YOLOS", "yolos", DETECTION, {**PICTURES, "image_size": [16, 24], "num_detection_tokens": 4}),
            "% 4 >= 4",
            (28, 20),
        ),
        (
            Small("SegFormer", "segformer", "AutoModelForSemanticSegmentation", STAGES),
            ">= 29",
            (45, 62),
        ),
        (Small("Depth Anything", "depth_anything", "AutoModelForDepthEstimation", MEASURES), "% 14 >= 14", (42, 84)),
    )
}
"""Models that take more than one size, what they say of sides, and a size that no graph was traced at."""


def saved_free(once: Once, title: str) -> Path:
    """A folder with a small model that takes images of more than one size."""
    return once(f"model-{title.lower().replace(' ', '-')}-any-size", FREE[title][0].save)


@pytest.mark.parametrize("title", FREE)
def test_which_sizes_it_takes_is_asked_of_the_model(once: Once, title: str) -> None:
    _, sides, (height, width) = FREE[title]
    whole = ModelFolder.load(saved_free(once, title), any_image_size=True).build()
    assert whole.inputs == (f"pixel_values: float32[batch_size, 3, height {sides}, width {sides}]",)
    assert any(line.startswith("images have any height and width, ") for line in whole.notes)
    model: Any = whole.module.model
    pixels = torch.randn(1, 3, height, width)
    stretched = {STRETCHED: True} if title in ("ViT", "CLIP's vision", "YOLOS") else {}
    with torch.no_grad():
        outputs, expected = whole.module(pixels), model(pixel_values=pixels, **stretched)
    for name, value in zip(whole.outputs, outputs, strict=True):
        torch.testing.assert_close(value, expected[name])


@pytest.mark.exhaustive  # each is exported
@pytest.mark.parametrize("title", one_of_each(FREE, str))
def test_the_file_answers_at_sizes_that_were_never_traced(once: Once, cli: Cli, title: str) -> None:
    folder, (_, sides, (height, width)) = saved_free(once, title), FREE[title]
    words = ("--any-image-size", "--max-len", "98" if "14" in sides else "64", "--proof", "quick", "-o", "whole")
    result = cli("export", "--model", str(folder), "--runtime", "ort-cpu", *words)
    assert result.exit_code == 0, result.output
    whole = ModelFolder.load(folder, any_image_size=True).build()
    pixels = np.random.default_rng(0).normal(size=(2, 3, height, width)).astype(np.float32)
    outputs = onnxruntime.InferenceSession("whole/model.onnx").run(whole.outputs, {"pixel_values": pixels})
    with torch.no_grad():
        expected = whole.module(torch.from_numpy(pixels))
    for array, tensor in zip(outputs, expected, strict=True):
        # a sum of numbers of this size is rounded to so much: depths are up to 80
        np.testing.assert_allclose(array, tensor, atol=1e-5 * max(1.0, float(tensor.abs().max())))


def test_a_model_of_one_size_says_which(tmp_path: Path) -> None:
    Small("DPT", "dpt", "AutoModelForDepthEstimation", DENSE).save(tmp_path)
    with pytest.raises(
        ValueError, match=r"^DPTForDepthEstimation takes images of one size alone, 32 x 32: leave out --any"
    ):
        ModelFolder.load(tmp_path, any_image_size=True).build()
    assert ModelFolder.load(tmp_path).build().inputs == ("pixel_values: float32[batch_size, 3, 32, 32]",)


def test_it_is_for_models_of_images(once: Once, cli: Cli) -> None:
    for folder, task in ((saved(once, "bert"), "fill-mask"), (saved_writer(once, "TrOCR"), "image-to-text")):
        with pytest.raises(ValueError, match=rf"^--any-image-size is for models .*, and {task} is for others: leave"):
            ModelFolder.load(folder, any_image_size=True)
    refused = cli("export", "rope", "--any-image-size")
    assert refused.exit_code == 2
    assert "--any-image-size is for a whole model of images: give --model with it" in refused.output
