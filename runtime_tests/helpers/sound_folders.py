"""Folders with small models that hear beside text, whose id of sounds is among their few words."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from helpers.model_folders import GROUPED, SEQ2SEQ, SQUARE, Small
from helpers.scene_folders import QUERIES
from helpers.shared import Once

SOUND = 5
"""The id of the places of sounds."""
HEARS = "audio-text-to-text"
MULTIMODAL = "AutoModelForMultimodalLM"
SPECTRUM: Mapping[str, Any] = {
    "num_mel_bins": 8,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_source_positions": 16,
}
OF_QWEN: Mapping[str, Any] = {
    "num_mel_bins": 8,
    "d_model": 16,
    "encoder_ffn_dim": 32,
    "encoder_layers": 2,
    "encoder_attention_heads": 2,
    "max_source_positions": 16,
}
OF_BLOCKS: Mapping[str, Any] = {
    "hidden_dim": 16,
    "num_layers": 2,
    "num_heads": 2,
    "output_dim": 12,
    "context_size": 10,
    "max_pos_emb": 12,
    "conv_kernel_size": 5,
}
HEARING: Mapping[str, Small] = {
    small.kind: small
    for small in (
        Small(
            "Voxtral",
            "voxtral",
            MULTIMODAL,
            {"text_config": {**GROUPED, "model_type": "llama"}, "audio_config": SPECTRUM, "audio_token_id": SOUND},
        ),
        Small(
            "Audio Flamingo 3",
            "audioflamingo3",
            SEQ2SEQ,
            {"text_config": {**GROUPED, "model_type": "qwen2"}, "audio_config": SPECTRUM, "audio_token_id": SOUND},
        ),
        Small(
            "Qwen2-Audio",
            "qwen2_audio",
            MULTIMODAL,
            {
                "text_config": {**GROUPED, "model_type": "qwen2"},
                "audio_config": OF_QWEN,
                "audio_token_index": SOUND,
            },
        ),
        Small(
            "GLM-ASR",
            "glmasr",
            MULTIMODAL,
            {
                "text_config": {**GROUPED, "model_type": "llama"},
                # four places become one
                "audio_config": {**SPECTRUM, "max_position_embeddings": 16, "intermediate_size": 64},
                "audio_token_id": SOUND,
            },
        ),
        Small(
            "Qwen3-ASR",
            "qwen3_asr",
            MULTIMODAL,
            {
                "text_config": {**GROUPED, "model_type": "qwen3"},
                "audio_config": {
                    **OF_QWEN,
                    "downsample_hidden_size": 8,
                    "output_dim": 16,
                    "max_source_positions": 100,
                    "n_window_infer": 200,
                },
                "audio_token_id": SOUND,
            },
            seed=18,
        ),
        Small(
            "Granite Speech",
            "granite_speech",
            MULTIMODAL,
            {
                "text_config": {**SQUARE, "model_type": "granite"},
                "encoder_config": {**OF_BLOCKS, "input_dim": 8},
                "projector_config": {**QUERIES, "encoder_hidden_size": 16, "model_type": "blip_2_qformer"},
                "downsample_rate": 3,
                "window_size": 6,
                "has_lora_adapter": False,
                "tie_word_embeddings": False,
                "audio_token_index": SOUND,
            },
        ),
    )
}
"""The models, by their types: sounds of one length, sounds whose masks say which frames are there, and blocks."""

TEXT_ALONE: Mapping[str, Small] = {
    small.kind: small
    for small in (
        Small(
            "Music Flamingo",
            "musicflamingo",
            SEQ2SEQ,
            {
                "text_config": {**GROUPED, "model_type": "qwen2"},
                "audio_config": {**SPECTRUM, "model_type": "audioflamingo3_encoder"},
                "audio_token_id": SOUND,
            },
        ),
    )
}
"""Models whose towers of sounds are not exported, by their types."""


def saved_hearing(once: Once, kind: str) -> Path:
    """A folder with a small model that hears, its weights at random."""
    return once(f"hearing-{kind}", {**HEARING, **TEXT_ALONE}[kind].save)
