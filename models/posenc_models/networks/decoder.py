"""A causal language model with its cache, and positions by the name of any scheme of tokens."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from posenc_models.networks.layers import Layer, Positions, check_sizes


class Decoder(nn.Module):
    """Tokens to logits, with the inputs and outputs of whole models: posenc_models.whole.tasks, text-generation.

    Args:
        encoding: a scheme that adds rows to tokens, turns queries and keys, or adds a bias to scores.
        encoding_parameters: further parameters of it, as JSON: '{"rope_theta": 500000.0}'.
        vocabulary: how many tokens there are.
        width: features of a token.
        heads: of queries.
        kv_heads: of keys and values, a divisor of `heads`.
        layers: how many.
        max_len: the last position + 1, where the scheme stores positions.
    """

    def __init__(
        self,
        *,
        encoding: str = "rope",
        encoding_parameters: str = "{}",
        vocabulary: int = 256,
        width: int = 64,
        heads: int = 4,
        kv_heads: int = 2,
        layers: int = 2,
        max_len: int = 512,
    ) -> None:
        super().__init__()
        check_sizes(width, heads, kv_heads)
        sizes = {"d_model": width, "head_dim": width // heads, "heads": heads}
        self.encoding = Positions(encoding, sizes, encoding_parameters, max_len)
        self.tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(width, heads, kv_heads, self.encoding) for _ in range(layers))
        self.norm, self.logits = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        cached = f"float32[batch_size, {kv_heads}, past, {width // heads}]"
        names = [f"{layer}.{half}" for layer in range(layers) for half in ("key", "value")]
        self.posenc_inputs = (
            f"input_ids: int64[batch_size, seq] < {vocabulary}",
            "attention_mask: int64[batch_size, past+seq] mask",
            f"position_ids: int64[batch_size, seq] positions < {max_len}",
            *(f"past_key_values.{name}: {cached}" for name in names),
        )
        self.posenc_outputs = ("logits", *(f"present.{name}" for name in names))

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, *past: Tensor
    ) -> tuple[Tensor, ...]:
        """Return logits (batch, seq, vocabulary), then keys and values (batch, kv_heads, past + seq, head_dim).

        Args:
            input_ids: (batch, seq).
            attention_mask: (batch, past + seq), 0 for tokens that are padding.
            position_ids: (batch, seq), one more from each token to the next.
            past: keys and values of earlier tokens, a pair a layer.
        """
        x: Tensor = self.tokens(input_ids)
        if self.encoding.kind == "rows":
            x = self.encoding({"x": x, "positions": position_ids})
        seq, total = input_ids.shape[1], attention_mask.shape[1]
        places = torch.arange(total, device=x.device)
        queries = places[:seq] + (total - seq)
        seen = (places[None, :] <= queries[:, None]) & (attention_mask[:, None, :] != 0)
        # a query that is padding sees itself: a softmax of nothing is no number
        seen = seen | (places[None, :] == queries[:, None])
        mask = torch.zeros((), dtype=x.dtype).masked_fill(~seen[:, None], float("-inf"))
        # the text has a position a token, in the cache too; those of padding are seen by nobody
        positions_k = (position_ids[:, -1:] - (total - 1) + places).clamp(min=0)
        present: list[Tensor] = []
        for number, layer in enumerate(self.layers):
            x, *cached = layer(x, mask, position_ids, positions_k, past[2 * number : 2 * number + 2])
            present += cached
        return (self.logits(self.norm(x)), *present)


__all__ = ["Decoder"]
