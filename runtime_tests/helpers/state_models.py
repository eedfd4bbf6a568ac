"""Small decoders whose layers remember states of convolutions and recurrences, beside keys and values or without."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from helpers.model_folders import GROUPED, LATENT, WORDS, Small
from helpers.shared import Once

CONVOLVED = ["conv", "full_attention", "conv"]
LINEAR = ["linear_attention", "full_attention"]
WIDE: Mapping[str, Any] = {**GROUPED, "hidden_size": 32}
SSD: Mapping[str, Any] = {
    "mamba_d_state": 8,
    "mamba_n_heads": 4,
    "mamba_d_head": 16,
    "mamba_n_groups": 1,
    "mamba_chunk_size": 16,
}
"""Layers of Mamba-2 whose chunks are shorter than a call."""
DELTA: Mapping[str, Any] = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "layer_types": LINEAR,
}
SCANNED: Mapping[str, Any] = {**WORDS, "hidden_size": 16, "state_size": 4, "num_hidden_layers": 2, "eos_token_id": None}
STATES: Mapping[str, Small] = {
    small.kind: small
    for small in (
        Small("LFM2", "lfm2", config={**GROUPED, "num_hidden_layers": 3, "layer_types": CONVOLVED, "block_ff_dim": 64}),
        Small(
            "LFM2-MoE",
            "lfm2_moe",
            config={
                **GROUPED,
                "num_hidden_layers": 3,
                "layer_types": CONVOLVED,
                "num_experts": 4,
                "num_experts_per_tok": 2,
                "moe_intermediate_size": 16,
                "num_dense_layers": 1,
            },
        ),
        Small(
            "Mamba-2",
            "mamba2",
            config={**SCANNED, "state_size": 8, "num_heads": 4, "head_dim": 8, "n_groups": 2, "chunk_size": 16},
        ),
        Small("Falcon-H1", "falcon_h1", config={**WIDE, **SSD, "mamba_d_ssm": 64}),
        Small(
            "Granite 4",
            "granitemoehybrid",
            config={
                **WIDE,
                **SSD,
                "layer_types": ["mamba", "attention"],
                "num_local_experts": 0,
                "num_experts_per_tok": 0,
                "shared_intermediate_size": 24,
            },
        ),
        Small("Bamba", "bamba", config={**WIDE, **SSD, "mamba_n_groups": 2, "attn_layer_indices": [1]}),
        Small(
            "Nemotron-H",
            "nemotron_h",
            config={
                **WIDE,
                "num_hidden_layers": 3,
                "ssm_state_size": 8,
                "mamba_num_heads": 4,
                "mamba_head_dim": 16,
                "n_groups": 2,
                "chunk_size": 16,
                "layers_block_type": ["mamba", "attention", "mlp"],
            },
        ),
        Small(
            "Zamba2",
            "zamba2",
            config={
                **WIDE,
                "num_hidden_layers": 3,
                "mamba_d_state": 8,
                "n_mamba_heads": 4,
                "mamba_headdim": 16,
                "mamba_ngroups": 1,
                "chunk_size": 16,
                "layers_block_type": ["mamba", "hybrid", "mamba"],
                "num_mem_blocks": 1,
            },
        ),
        Small(
            "Qwen3-Next",
            "qwen3_next",
            config={**GROUPED, **DELTA, "num_experts": 0, "decoder_sparse_step": 1, "mlp_only_layers": [0, 1]},
        ),
        Small("Qwen3.5", "qwen3_5_text", config={**GROUPED, **DELTA}),
        Small("OLMo hybrid", "olmo_hybrid", config={**GROUPED, **DELTA, "linear_num_value_heads": 2}),
        Small(
            "Kimi Linear",
            "kimi_linear",
            config={
                **GROUPED,
                **LATENT,
                "num_key_value_heads": 4,
                "q_lora_rank": None,
                "linear_attn_config": {
                    "num_heads": 4,
                    "head_dim": 8,
                    "short_conv_kernel_size": 4,
                    "kda_layers": [1],
                    "full_attn_layers": [2],
                },
            },
        ),
        Small("Mamba", "mamba", config=SCANNED),
        Small("FalconMamba", "falcon_mamba", config=SCANNED),
        Small(
            "Jamba",
            "jamba",
            config={
                **WIDE,
                "mamba_d_state": 4,
                "mamba_dt_rank": 4,
                "attn_layer_period": 2,
                "attn_layer_offset": 1,
                "num_experts": 1,
                "num_experts_per_tok": 1,
            },
        ),
        Small(
            "Zamba",
            "zamba",
            config={
                **WIDE,
                "num_hidden_layers": 3,
                "mamba_d_state": 4,
                "mamba_dt_rank": 4,
                "n_mamba_heads": 2,
                "layers_block_type": ["mamba", "hybrid", "mamba"],
                "attention_hidden_size": 64,
                "attention_head_dim": 16,
            },
        ),
    )
}
"""The models with states that are exported, by their types."""


def saved_states(once: Once, kind: str) -> Path:
    """A folder with a small model of a type, its weights at random."""
    return once(f"model-{kind}", STATES[kind].save)
