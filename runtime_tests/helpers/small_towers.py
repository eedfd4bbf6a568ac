"""Models of transformers that read images, small and with random weights, and images of unlike sizes for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import CONFIG_MAPPING, AutoModelForImageTextToText

SIDE = 4
"""Rows and columns of pixels in a patch."""
OF_TOWERS: Mapping[str, Any] = {
    "depth": 2,
    "embed_dim": 32,
    "fullatt_block_indexes": [1],
    "deepstack_visual_indexes": [0, 1],
    "head_dim": 16,
    "hidden_size": 32,
    "image_size": 5 * SIDE,
    "intermediate_size": 32,
    "num_attention_heads": 2,
    "num_heads": 2,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "num_position_embeddings": 25,
    "out_hidden_size": 32,
    "patch_size": SIDE,
    "window_size": 6 * SIDE,
}
"""What a tower's config says, where it has such keys."""
OF_TEXTS: Mapping[str, Any] = {
    "bos_token_id": 1,
    "eos_token_id": 2,
    "head_dim": 8,
    "hidden_size": 32,
    "intermediate_size": 32,
    "layer_types": None,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "moe_intermediate_size": 32,
    "moe_num_experts": 4,
    "n_routed_experts": 4,
    "num_attention_heads": 4,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "num_local_experts": 4,
    "pad_token_id": 0,
    "vocab_size": 128,
}
"""What a decoder's config says, where it has such keys."""


def small(model_type: str, tower: Mapping[str, Any] = {}, text: Mapping[str, Any] = {}, **said: Any) -> nn.Module:
    """Return a model of a type, small and with random weights."""
    whole = CONFIG_MAPPING[model_type]
    default = whole()
    parts = {
        "vision_config": {**_known(default.vision_config, OF_TOWERS), **tower},
        "text_config": {**_known(default.text_config, OF_TEXTS), **text},
    }
    for key, part in parts.items():
        part.setdefault("model_type", getattr(default, key).model_type)
    torch.manual_seed(0)
    config = whole(**parts, **said)
    model = AutoModelForImageTextToText.from_config(config).eval()
    for weight in model.parameters():
        if weight.dim() > 1:  # larger than the model draws them, so that a patch in a wrong place shows
            nn.init.normal_(weight, std=0.2)
    return model


def _known(config: Any, keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return those keys that a config has."""
    return {key: value for key, value in keys.items() if hasattr(config, key)}
