"""Folders with small models that see, whose ids of pictures are among their few words."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from helpers.model_folders import GROUPED, MODELS, PICTURES, READ, SMALL, SQUARE, T5, TALKS, TOWER, Small, _sections
from helpers.shared import Once

IMAGE, VIDEO, START, END = 5, 6, 7, 8
"""Ids of the places of images and of videos, and of what stands before and behind them."""
PLACES: Mapping[str, Any] = {
    "image_token_id": IMAGE,
    "image_token_index": IMAGE,
    "video_token_id": VIDEO,
    "vision_start_token_id": START,
    "vision_end_token_id": END,
}
TASK = "image-text-to-text"
VISION: Mapping[str, Any] = {**PICTURES, "model_type": "clip_vision_model"}
ANY_SIZE: Mapping[str, Any] = {"image_grid_pinpoints": [[16, 32], [32, 16], [32, 32]], "vision_feature_layer": -1}
MORE: Mapping[str, Mapping[str, Any]] = {
    "paligemma": {"projection_dim": 16},
    "mistral3": {"spatial_merge_size": 2, "vision_feature_layer": -1},
}
"""What texts alone do without."""
QUERIES: Mapping[str, Any] = {key: size for key, size in PICTURES.items() if key not in ("image_size", "patch_size")}
OTHERS = (
    Small(
        "Idefics3", "idefics3", TALKS, {"text_config": {**GROUPED, "model_type": "llama"}, "vision_config": PICTURES}
    ),
    Small(
        "LLaVA-NeXT",
        "llava_next",
        TALKS,
        {"text_config": {**GROUPED, "model_type": "llama"}, "vision_config": VISION, **ANY_SIZE},
    ),
    Small(
        "LLaVA-OneVision",
        "llava_onevision",
        TALKS,
        {
            "text_config": {**GROUPED, "model_type": "qwen2"},
            "vision_config": {**PICTURES, "model_type": "siglip_vision_model", "vision_use_head": False},
            **ANY_SIZE,
        },
    ),
    Small(
        "GLM-4V",
        "glm4v",
        TALKS,
        {
            "text_config": {**SQUARE, **_sections(1, 1, 2), "model_type": "glm4v_text"},
            "vision_config": {**TOWER, "out_hidden_size": 32, "image_size": 16},
        },
    ),
    Small(
        "PaddleOCR-VL",
        "paddleocr_vl",
        TALKS,
        {
            "text_config": {**GROUPED, **_sections(1, 1, 2)},
            "vision_config": {**PICTURES, "spatial_merge_size": 2},
        },
    ),
    Small(
        "Florence-2",
        "florence2",
        TALKS,
        {
            "text_config": {**READ, "tie_word_embeddings": False, "model_type": "bart"},
            "tie_word_embeddings": False,
            "vision_config": {
                "depths": [1, 1],
                "patch_size": [3, 3],
                "patch_stride": [2, 2],
                "patch_padding": [1, 1],
                "patch_prenorm": [False, True],
                "embed_dim": [8, 16],
                "num_heads": [2, 2],
                "num_groups": [2, 2],
                "window_size": 3,
                "projection_dim": 16,
            },
        },
        processor={"size": {"height": 16, "width": 16}},
        seed=142,
    ),
    Small(
        "BLIP-2",
        "blip-2",
        TALKS,
        {
            "text_config": {**SMALL, "ffn_dim": 24, "word_embed_proj_dim": 16, "model_type": "opt"},
            "vision_config": PICTURES,
            "qformer_config": {**QUERIES, "encoder_hidden_size": 16},
            "num_query_tokens": 3,
        },
    ),
)
"""Models whose texts alone are like those of others."""


TEXT_ALONE: Mapping[str, Small] = {
    small.kind: small
    for small in (
        Small(
            "Kosmos-2.5",
            "kosmos-2.5",
            TALKS,
            {
                "text_config": {
                    "vocab_size": 32,
                    "embed_dim": 16,
                    "layers": 2,
                    "ffn_dim": 24,
                    "attention_heads": 2,
                    "max_position_embeddings": 256,
                    "pad_token_id": 1,
                    "bos_token_id": 0,
                    "eos_token_id": None,
                },
                "vision_config": {
                    "hidden_size": 16,
                    "patch_embed_hidden_size": 48,
                    "intermediate_size": 24,
                    "head_dim": 8,
                    "num_hidden_layers": 2,
                    "num_attention_heads": 2,
                    "max_num_patches": 32,
                },
                "latent_query_num": 3,
                "tie_word_embeddings": False,
            },
            # at which it writes no padding, which its own code counts as no token
            seed=102,
        ),
    )
}
"""Models whose towers are not exported, by their types."""


def _seeing(small: Small) -> Small:
    """Return a model whose ids of pictures are words that it has."""
    return replace(
        small,
        title=small.title.removesuffix("'s text"),
        config={**small.config, **PLACES, **MORE.get(small.kind, {})},
    )


OF_TEXTS = [small for small in MODELS.values() if "'s text" in small.title]
OF_T5: Mapping[str, Any] = {"text_config": {**T5, "model_type": "t5", "tie_word_embeddings": False}}
SCENES: Mapping[str, Small] = {
    **{small.kind: _seeing(small) for small in (*OF_TEXTS, *OTHERS)},
    "blip-2/t5": _seeing(replace(OTHERS[-1], config={**OTHERS[-1].config, **OF_T5}, seed=40)),
}
"""The models, by their types; behind a slash, the type of their text."""


def save_scene(kind: str, folder: Path) -> None:
    """Write a folder with a small model that sees, its weights at random.

    Args:
        kind: A type of `SCENES` or `TEXT_ALONE`, or a kind of `small_towers.READERS`, whose config says no more than
            its tower needs.
        folder: Where it is written.
    """
    if small := {**SCENES, **TEXT_ALONE}.get(kind):
        small.save(folder)
        return
    from helpers.small_towers import READERS
    from helpers.small_towers import small as small_reader

    model: Any = small_reader(kind.split("/", maxsplit=1)[0], **{**READERS[kind].said, **PLACES})
    model.generation_config.eos_token_id = None
    model.save_pretrained(folder)


def saved_scene(once: Once, kind: str) -> Path:
    """A folder with a small model that sees."""
    return once(f"scene-{kind}", lambda folder: save_scene(kind, folder))
