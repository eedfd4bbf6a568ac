"""Tasks of images, sounds and choices: what goes in is known of the class, and small models are proved."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
import transformers

import posenc_export
from helpers.hf.small_classes import save
from posenc_models import ModelFolder
from posenc_models.whole.contents import PROCESSOR

CLASSES = {
    "BertForMultipleChoice": ("multiple-choice", ("input_ids", "attention_mask", "token_type_ids"), ("logits",)),
    "BertForNextSentencePrediction": (
        *("next-sentence-prediction", ("input_ids", "attention_mask", "token_type_ids")),
        ("logits",),
    ),
    "HubertForSequenceClassification": ("audio-classification", ("input_values",), ("logits",)),
    "ASTForAudioClassification": ("audio-classification", ("input_values",), ("logits",)),
    "ASTModel": ("feature-extraction", ("input_values",), ("last_hidden_state",)),
    "WavLMForAudioFrameClassification": ("audio-frame-classification", ("input_values",), ("logits",)),
    "Wav2Vec2ForXVector": ("audio-xvector", ("input_values",), ("logits", "embeddings")),
    "YolosForObjectDetection": ("object-detection", ("pixel_values",), ("logits", "pred_boxes")),
    "DetrForObjectDetection": ("object-detection", ("pixel_values",), ("logits", "pred_boxes")),
    "DepthAnythingForDepthEstimation": ("depth-estimation", ("pixel_values",), ("predicted_depth",)),
    "SegformerForSemanticSegmentation": ("semantic-segmentation", ("pixel_values",), ("logits",)),
    "Swin2SRForImageSuperResolution": ("image-to-image", ("pixel_values",), ("reconstruction",)),
}
"""The task of each class, what goes in, and what comes out."""
QUICK = ("SegformerForSemanticSegmentation", "BertForMultipleChoice")


RESNET = transformers.AutoConfig.for_model(
    "resnet", embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], out_features=["stage2"]
)
DINO = transformers.AutoConfig.for_model(
    "dinov2",
    hidden_size=16,
    num_hidden_layers=4,
    num_attention_heads=2,
    image_size=56,
    patch_size=14,
    out_features=["stage1", "stage2", "stage3", "stage4"],
    reshape_hidden_states=False,
)
CONFIGS: Mapping[str, transformers.PreTrainedConfig] = {
    # a model of its usual image takes ten minutes
    "Swin2SRForImageSuperResolution": transformers.Swin2SRConfig(
        image_size=16, embed_dim=8, depths=[1], num_heads=[2], window_size=4, mlp_ratio=1.0, upscale=2
    ),
    # their parts have sizes that fit each other
    "DetrForObjectDetection": transformers.DetrConfig(
        backbone_config=RESNET,
        d_model=16,
        num_queries=5,
        encoder_layers=1,
        decoder_layers=1,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
    ),
    "DepthAnythingForDepthEstimation": transformers.DepthAnythingConfig(
        backbone_config=DINO,
        reassemble_hidden_size=16,
        neck_hidden_sizes=[8, 8, 16, 16],
        fusion_hidden_size=8,
        head_in_index=-1,
        head_hidden_size=8,
    ),
}
"""Configurations of classes whose defaults, made small, do not serve."""


def saved(name: str, folder: Path) -> Path:
    if name in CONFIGS:
        torch.manual_seed(0)
        getattr(transformers, name)(CONFIGS[name]).save_pretrained(folder)
        if "image_size" not in CONFIGS[name].to_dict():
            (folder / PROCESSOR).write_text(json.dumps({"size": {"height": 56, "width": 56}}))
    else:
        save(name, 8, folder)
    return folder


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.exhaustive) for name in CLASSES]
)
def test_a_class_has_its_task_and_its_ports(tmp_path: Path, name: str) -> None:
    model = ModelFolder.load(saved(name, tmp_path))
    whole = model.build()
    ports = tuple(port.partition(":")[0] for port in whole.inputs)
    assert (model.task.name, ports, whole.outputs) == CLASSES[name]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CLASSES)
def test_a_small_model_is_proved(tmp_path: Path, name: str) -> None:
    model = ModelFolder.load(saved(name, tmp_path / "model"))
    result = posenc_export.export(model, to=tmp_path / "out", formats=("onnx",), proof="quick", runtimes=("ort-cpu",))
    assert result.passed


SEGFORMER = transformers.SegformerConfig(
    hidden_sizes=[8, 8, 8, 8], depths=[1] * 4, num_attention_heads=[1] * 4, decoder_hidden_size=8
)


@pytest.mark.parametrize(
    ("processor", "size"),
    [
        ({"size": {"height": 64, "width": 96}}, "64, 96"),
        (
            {"size": {"height": 9, "width": 9}, "crop_size": {"height": 32, "width": 32}, "do_center_crop": True},
            "32, 32",
        ),
        ({"size": 32}, "32, 32"),
        ({"size": {"shortest_edge": 800}}, ""),
        (None, ""),
    ],
)
def test_images_have_the_size_to_which_the_processor_brings_them(
    tmp_path: Path, processor: dict[str, object] | None, size: str
) -> None:
    transformers.SegformerForSemanticSegmentation(SEGFORMER).save_pretrained(tmp_path)
    if processor is not None:
        (tmp_path / PROCESSOR).write_text(json.dumps(processor))
    model = ModelFolder.load(tmp_path)
    if size:
        assert model.build().inputs == (f"pixel_values: float32[batch_size, 3, {size}]",)
        return
    text = "its config says no image_size, and no preprocessor_config.json beside it a height and a width"
    with pytest.raises(ValueError, match=text):
        model.build()
