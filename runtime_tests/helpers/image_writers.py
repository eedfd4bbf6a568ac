"""Small models that write text about an image: an encoder of images of one type, and a decoder of another."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from helpers.model_folders import PICTURES, SMALL, TWO_STACKS, Small
from helpers.shared import Once

TALKS = "AutoModelForImageTextToText"
SHIFTED: Mapping[str, Any] = {
    "model_type": "donut-swin",
    "image_size": [32, 48],
    "patch_size": 2,
    "embed_dim": 8,
    "depths": [2, 2],
    "num_heads": [2, 4],
    "window_size": 4,
}
DECODES: Mapping[str, Any] = {"is_decoder": True, "add_cross_attention": True, "max_position_embeddings": 64}
BEHIND: Mapping[str, Any] = {
    **TWO_STACKS,
    **DECODES,
    "is_encoder_decoder": False,
    "eos_token_id": None,
    "forced_eos_token_id": None,
}


def _pair(title: str, encoder: Mapping[str, Any], decoder: Mapping[str, Any], seed: int = 3) -> Small:
    """A model whose encoder and decoder are models of two types, which their configs say."""
    config = {"encoder": encoder, "decoder": decoder, "decoder_start_token_id": 1, "pad_token_id": 0}
    return Small(title, "vision-encoder-decoder", TALKS, {**config, "tie_word_embeddings": False}, seed=seed)


IMAGE_WRITERS: Mapping[str, Small] = {
    small.title: small
    for small in (
        _pair("Donut", SHIFTED, {**BEHIND, "model_type": "mbart", "encoder_layers": 3}),
        _pair("TrOCR", {**PICTURES, "model_type": "deit"}, {**BEHIND, "model_type": "trocr"}, 1),
        _pair("ViT and BERT", {**PICTURES, "model_type": "vit"}, {**SMALL, **DECODES, "model_type": "bert"}),
        _pair(
            "ViT and GPT-2",
            {**PICTURES, "model_type": "vit"},
            # wider than the encoder: a layer between them brings its states to this width
            {**SMALL, **DECODES, "model_type": "gpt2", "n_embd": 24, "n_layer": 2, "n_head": 2, "n_positions": 64},
        ),
        _pair(
            "Swin and BART", {**SHIFTED, "model_type": "swin", "image_size": 32}, {**BEHIND, "model_type": "bart"}, 2
        ),
    )
}


def saved_writer(once: Once, title: str) -> Path:
    """A folder with a small model that writes text about images, its weights at random."""
    return once(f"model-{title.lower().replace(' ', '-')}", IMAGE_WRITERS[title].save)
