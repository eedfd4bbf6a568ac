"""Small models of classes of images and sounds, whose default configurations do not serve all of them."""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
import transformers

from helpers.hf.small_classes import save
from posenc_models.whole.contents import PROCESSOR

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
NARROW = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
CONFIGS: Mapping[str, transformers.PreTrainedConfig] = {
    # a model of its usual image takes ten minutes
    "Swin2SRForImageSuperResolution": transformers.Swin2SRConfig(
        image_size=16, embed_dim=8, depths=[1], num_heads=[2], window_size=4, mlp_ratio=1.0, upscale=2
    ),
    "Owlv2ForObjectDetection": transformers.Owlv2Config(
        text_config={**NARROW, "vocab_size": 64, "max_position_embeddings": 16, "bos_token_id": 1, "eos_token_id": 2},
        vision_config={**NARROW, "image_size": 32, "patch_size": 8},
        projection_dim=16,
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


def save_task_model(name: str, folder: Path) -> Path:
    """Write the folder of a small model of a class; return it."""
    if name in CONFIGS:
        torch.manual_seed(0)
        getattr(transformers, name)(CONFIGS[name]).save_pretrained(folder)
        if "image_size" not in CONFIGS[name].to_dict():
            (folder / PROCESSOR).write_text(json.dumps({"size": {"height": 56, "width": 56}}))
    else:
        save(name, 8, folder)
    return folder
