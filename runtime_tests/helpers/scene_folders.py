"""Folders with small models that see, whose ids of pictures are among their few words."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from helpers.model_folders import MODELS, Small
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
MORE: Mapping[str, Mapping[str, Any]] = {"paligemma": {"projection_dim": 16}}
"""What texts alone do without."""


def _seeing(small: Small) -> Small:
    """Return a model whose ids of pictures are words that it has."""
    return replace(
        small,
        title=small.title.removesuffix("'s text"),
        config={**small.config, **PLACES, **MORE.get(small.kind, {})},
    )


SCENES: Mapping[str, Small] = {kind: _seeing(small) for kind, small in MODELS.items() if "'s text" in small.title}
"""The models, by their types."""


def saved_scene(once: Once, kind: str) -> Path:
    """A folder with a small model that sees, its weights at random."""
    return once(f"scene-{kind}", SCENES[kind].save)
