"""Positions of prompts with images and videos: model types of transformers, their rules, and graphs of these."""

import importlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import CONFIG_MAPPING

from posenc.ports import Array
from posenc.spec import Spec
from posenc_export.proof.exporter.draft import Draft
from posenc_export.proof.exporter.options import ExportOptions
from posenc_export.proof.exporter.request import request_for
from posenc_export.proof.exporter.write import write_formats
from posenc_export.write.targets import Target
from posenc_export.write.targets.prompt_positions import prompt_positions
from posenc_models.vision import GridRule, Prompts, Sizes, random_prompts

OF_THINKERS = {"vision_start_token_id": 151652, "vision_end_token_id": 151653}
"""Keys that config.json of these models has, and their classes do not declare."""
TYPES: Mapping[str, Mapping[str, Any]] = {
    "cohere_compass": {},
    "cosmos3_edge": {},
    "cosmos3_omni": {},
    "ernie4_5_vl_moe": {},
    "glm46v": {},
    "glm4v": {},
    "glm4v_moe": {},
    "glm_ocr": {},
    "paddleocr_vl": {},
    "qwen2_5_omni_thinker": OF_THINKERS,
    "qwen2_5_vl": {},
    "qwen2_vl": {},
    "qwen3_5": {},
    "qwen3_5_moe": {},
    "qwen3_vl": {},
    "qwen3_vl_moe": {},
    "qwen4_exp": {},
}
"""Model types whose rule is known, with what their configs say beside the defaults."""
OTHERS = {
    "glm_image": "of a prompt with",
    "hunyuan_vl": "HunYuanVL expects at least 3 multimodal RoPE axes",
    "minicpmv4_7": "its config says no image_token_id",
    "qwen3_omni_moe_thinker": "its positions are float32",
}
"""Model types whose own function counts in another way, with what is said of them."""


def config_of(model_type: str) -> Any:
    """Return the default config of a model type."""
    said = TYPES.get(model_type, OF_THINKERS if model_type.endswith("thinker") else {})
    return CONFIG_MAPPING[model_type](**said)


def types_with_own_function() -> set[str]:
    """Return the folders of transformers' models whose modeling files define `get_rope_index`."""
    models = Path(importlib.import_module("transformers.models").__path__[0])
    files = models.glob("*/modeling_*.py")
    return {file.parent.name for file in files if re.search(r"def get_rope_index", file.read_text(encoding="utf-8"))}


def many(rule: GridRule, count: int, past: int = 1, seed: int = 0) -> list[Prompts]:
    """Return batches of prompts at random: to 3 texts, 5 images and 3 videos, with fewer than `past` tokens before."""
    rng = np.random.default_rng(seed)
    bounds = ((1, 4), (1, 120), (0, 6), (0, 4), (0, past))
    return [
        random_prompts(rule, Sizes(*(int(rng.integers(low, high)) for low, high in bounds)), rng) for _ in range(count)
    ]


def written(rule: GridRule, folder: Path) -> Path:
    """Write the graph of a rule's positions as the product does; return its file."""
    target = Target("positions", prompt_positions(rule), Spec(mode="dynamic", max_len=64), {}, file="positions")
    options = ExportOptions(formats=("onnx",), validate=False)
    write_formats(target, Draft(request_for(target, options), ""), options, folder)
    return folder / "positions.onnx"


def feeds_of(rule: GridRule, prompts: Prompts) -> dict[str, Array]:
    """Return what goes into a graph of a rule."""
    return {port.name: getattr(prompts, port.name) for port in prompt_positions(rule).inputs}


def small_model(folder: Path) -> None:
    """Write a small Qwen2-VL of random weights into FOLDER/model."""
    from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration

    torch.manual_seed(3)
    config = Qwen2VLConfig(
        text_config={
            "vocab_size": 64,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 512,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]},
            "initializer_range": 0.5,
            "bos_token_id": None,
            "eos_token_id": None,
        },
        vision_config={"depth": 1, "embed_dim": 16, "hidden_size": 32, "num_heads": 2, "patch_size": 4, "mlp_ratio": 2},
        image_token_id=60,
        video_token_id=61,
        vision_start_token_id=62,
        vision_end_token_id=63,
        tie_word_embeddings=False,
    )
    Qwen2VLForConditionalGeneration(config).save_pretrained(folder / "model")
