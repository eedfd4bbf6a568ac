"""Decoders of text: ids and a mask of what is no padding, and a cache where a row has one."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache

from whole import VOCABULARY, Whole, built, text

SIZES: Mapping[str, Any] = {**text.SIZES, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GROUPED: Mapping[str, Any] = {**SIZES, "num_key_value_heads": 2, "head_dim": 8}
SLIDING = {"sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"]}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128, "n_inner": 48}
CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "gpt2": {**SIZES, **GPT2},
    "gptj": {**SIZES, **GPT2, "rotary_dim": 4},
    "gpt_neox": {**SIZES, "rotary_pct": 0.5},
    "gpt_neo": {
        **SIZES,
        "num_layers": 2,
        "num_heads": 4,
        "attention_types": [[["global", "local"], 1]],
        "window_size": 16,
    },
    "bloom": {**SIZES, "n_layer": 2, "n_head": 4},
    "mpt": {**SIZES, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 128},
    "opt": {**SIZES, "ffn_dim": 48, "word_embed_proj_dim": 32},
    "falcon": {**SIZES, "ffn_hidden_size": 48},
    "llama": GROUPED,
    "mistral": {**GROUPED, "sliding_window": 16},
    "qwen3": GROUPED,
    "gemma2": {**GROUPED, **SLIDING, "query_pre_attn_scalar": 8},
    "gemma3_text": {**GROUPED, **SLIDING, "query_pre_attn_scalar": 8},
    "phi3": {**SIZES, "num_key_value_heads": 2},
    "stablelm": {**SIZES, "num_key_value_heads": 2, "partial_rotary_factor": 0.5},
    "olmo2": {**SIZES, "num_key_value_heads": 2},
    "granite": {**SIZES, "num_key_value_heads": 2, "attention_multiplier": 0.35, "residual_multiplier": 0.5},
    "cohere": {**SIZES, "num_key_value_heads": 2, "use_qk_norm": True},
}


class Tokens(nn.Module):
    """Ids and a mask to hidden states, without a cache."""

    def __init__(self, model: str) -> None:
        super().__init__()
        self.model = built(model, CONFIGS[model])

    def forward(self, ids: Tensor, attention_mask: Tensor) -> Tensor:
        hidden: Tensor = self.model(input_ids=ids, attention_mask=attention_mask, use_cache=False).last_hidden_state
        return hidden


class Step(Tokens):
    """A step that goes on from a cache: `past` holds keys and values, (layers, 2, batch, heads, past, dim)."""

    def forward(self, ids: Tensor, attention_mask: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        cache = DynamicCache()
        for layer, (keys, values) in enumerate(past):
            cache.update(keys, values, layer)
        out = self.model(input_ids=ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
        layers: Any = cache.layers
        return out.last_hidden_state, torch.stack([torch.stack([layer.keys, layer.values]) for layer in layers])


IDS, MASK = f"ids: int64[batch, seq] < {VOCABULARY}", "attention_mask: int64[batch, seq]"


def row(name: str, model: str) -> Whole:
    return Whole(name, "whole.decoders:Tokens", model, (IDS, MASK))


def step(name: str, model: str, heads: int) -> Whole:
    past = f"past: float32[2, 2, batch, {heads}, past, 8]"
    return Whole(
        f"{name}, a step with its cache",
        "whole.decoders:Step",
        model,
        (IDS, "attention_mask: int64[batch, past+seq]", past),
    )


ROWS = (
    row("GPT-2", "gpt2"),
    step("GPT-2", "gpt2", 4),
    row("GPT-J", "gptj"),
    row("GPT-NeoX", "gpt_neox"),
    row("GPT-Neo", "gpt_neo"),
    row("BLOOM", "bloom"),
    row("MPT", "mpt"),
    row("OPT", "opt"),
    row("Falcon", "falcon"),
    row("Llama", "llama"),
    step("Llama", "llama", 2),
    row("Mistral", "mistral"),
    row("Qwen3", "qwen3"),
    step("Qwen3", "qwen3", 2),
    row("Gemma 2", "gemma2"),
    row("Gemma 3", "gemma3_text"),
    row("Phi-3", "phi3"),
    row("StableLM", "stablelm"),
    row("OLMo 2", "olmo2"),
    row("Granite", "granite"),
    row("Cohere", "cohere"),
)
