"""Small transformers models with large weights, and what they are run on."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor, nn
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPTJConfig,
    GPTJForCausalLM,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    Qwen2VLTextConfig,
    Qwen2VLTextModel,
    Qwen3VLTextConfig,
    Qwen3VLTextModel,
)

from posenc.encoding import eps

transformers.logging.set_verbosity(50)
transformers.logging.disable_progress_bar()

VOCAB, LONGEST = 50, 70
LENGTHS = (1, 2, 7, 33, LONGEST)
"""None is the traced one."""
SWITCH = 16
"""The context after which longrope and dynamic models have other frequencies."""
LLAMA3: dict[str, Any] = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}

# Weights are large, so that what a token attends to, and with it every logit, depends on the positions.
SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": VOCAB,
    "initializer_range": 0.3,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GROUPED: dict[str, Any] = {**SIZES, "num_key_value_heads": 2}


def llama(max_position_embeddings: int = 2048, **rope: Any) -> nn.Module:
    rope = {"rope_type": "default", "rope_theta": 1e4, **rope}
    return LlamaForCausalLM(
        LlamaConfig(**GROUPED, max_position_embeddings=max_position_embeddings, rope_parameters=rope)
    )


def gptj() -> nn.Module:
    config = GPTJConfig(
        n_embd=32,
        n_layer=2,
        n_head=4,
        rotary_dim=4,
        n_positions=128,
        vocab_size=VOCAB,
        initializer_range=0.3,
        bos_token_id=1,
        eos_token_id=2,
    )
    return GPTJForCausalLM(config)


def phi3() -> nn.Module:
    short, long = [1.0, 1.1, 1.2, 1.3], [1.5, 2.0, 3.0, 4.0]
    rope = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": short, "long_factor": long}
    sizes = {**GROUPED, "max_position_embeddings": 64, "original_max_position_embeddings": SWITCH}
    return Phi3ForCausalLM(Phi3Config(**sizes, rope_parameters=rope))


def gemma3() -> nn.Module:
    layers = ["sliding_attention", "full_attention"]
    return Gemma3ForCausalLM(Gemma3TextConfig(**GROUPED, head_dim=8, layer_types=layers, sliding_window=16))


def qwen2_vl() -> nn.Module:
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}
    return Qwen2VLTextModel(Qwen2VLTextConfig(**{**GROUPED, "hidden_size": 64}, rope_parameters=rope))


def qwen3_vl() -> nn.Module:
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 2, 2], "mrope_interleaved": True}
    sizes = {**GROUPED, "hidden_size": 64, "head_dim": 16}
    return Qwen3VLTextModel(Qwen3VLTextConfig(**sizes, rope_parameters=rope))


MODELS: dict[str, tuple[Callable[[], nn.Module], dict[str, str]]] = {
    "llama": (llama, {"model.rotary_emb": "LlamaRotaryEmbedding (default)"}),
    "llama3": (
        lambda: llama(rope_type="llama3", **LLAMA3),
        {"model.rotary_emb": "LlamaRotaryEmbedding (llama3)"},
    ),
    "llama-dynamic": (
        lambda: llama(SWITCH, rope_type="dynamic", factor=4.0),
        {"model.rotary_emb": "LlamaRotaryEmbedding (dynamic)"},
    ),
    "gpt-neox": (
        lambda: GPTNeoXForCausalLM(GPTNeoXConfig(**{**SIZES, "hidden_size": 64})),
        {"gpt_neox.rotary_emb": "GPTNeoXRotaryEmbedding (default)"},
    ),
    "gptj": (gptj, {f"transformer.h.{i}.attn": "GPTJAttention (default)" for i in range(2)}),
    "phi3-longrope": (phi3, {"model.rotary_emb": "Phi3RotaryEmbedding (longrope)"}),
    "gemma3": (
        gemma3,
        {"model.rotary_emb": "Gemma3RotaryEmbedding (full_attention default, sliding_attention default)"},
    ),
    "qwen2-vl": (qwen2_vl, {"rotary_emb": "Qwen2VLRotaryEmbedding (default, mrope)"}),
    "qwen3-vl": (qwen3_vl, {"rotary_emb": "Qwen3VLTextRotaryEmbedding (default, mrope)"}),
}
AXES = {"qwen2-vl": (3,), "qwen3-vl": (3,)}
"""The positions that a token has, where it has several."""


def model_of(name: str) -> nn.Module:
    torch.manual_seed(0)
    return MODELS[name][0]().eval()


class Whole(nn.Module):
    """A model from tokens, positions and a mask of what is no padding, all (batch, seq), to logits or hidden states."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, positions: Tensor, mask: Tensor | None = None) -> Tensor:
        mask = torch.ones_like(ids) if mask is None else mask
        out = self.model(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False)
        first: Tensor = out[0]
        return first


def tokens(name: str, batch: int, length: int, least: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens, positions and mask: sequence b padded on its left by 3 b, but for the last `least` tokens."""
    ids = torch.randint(0, VOCAB, (batch, length), generator=torch.Generator().manual_seed(length))
    padding = (3 * torch.arange(batch)).clamp(max=length - least)
    mask = (torch.arange(length) >= padding[:, None]).long()
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    if name in AXES:  # height and width run apart from time, as in an image
        positions = torch.stack([positions, positions // 2, positions % 5])
    return ids, positions, mask


def run(module: nn.Module, *args: Tensor) -> np.ndarray[Any, np.dtype[Any]]:
    with torch.no_grad():
        return np.asarray(module(*args).numpy())


def parity(exact: np.ndarray[Any, Any], eager: np.ndarray[Any, Any]) -> float:
    """What a graph may be off by: four times what eager itself is, and 16 eps of the peak."""
    own, peak = float(np.abs(eager - exact).max()), float(np.abs(eager).max())
    return 4 * own + 16 * eps("float32") * peak
