"""A Hugging Face causal language model whose rotary modules are ours: it exports with dynamic batch and sequence."""

from typing import Any

import torch
from torch import Tensor, nn

from posenc_models import replace_rotary


class CausalLM(nn.Module):
    """Tokens and their positions to logits, by a model of the transformers package.

    model: the folder of a saved model; without one, a Llama with random weights, of `layers` layers and `vocabulary`
        tokens, to try things with.
    """

    def __init__(self, *, model: str | None = None, vocabulary: int = 256, layers: int = 2) -> None:
        super().__init__()
        self.model = _load(model) if model is not None else _tiny(vocabulary, layers)
        self.replaced = replace_rotary(self.model)

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Return logits: twice (batch, seq) -> (batch, seq, vocabulary); no token is padding."""
        # the mask of a batch without padding: a graph would make one of the length it was traced at
        seen = torch.ones_like(ids)
        logits: Tensor = self.model(input_ids=ids, attention_mask=seen, position_ids=positions, use_cache=False).logits
        return logits


def _load(folder: str) -> Any:
    from transformers import AutoModelForCausalLM

    # float32: the proof compares with float64, beside which half precision is noise
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def _tiny(vocabulary: int, layers: int) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    return LlamaForCausalLM(config).eval()
