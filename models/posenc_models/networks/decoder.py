"""A causal language model with its cache, and positions by the name of any scheme of tokens."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from posenc_models.networks.layers import TokenNetwork


class Decoder(TokenNetwork):
    """Tokens to logits, with the inputs and outputs of whole models: posenc_models.whole.tasks, text-generation."""

    def head_of(self, width: int) -> nn.Module:
        """Return the map of features to logits."""
        return nn.Linear(width, self.vocabulary, bias=False)

    @property
    def posenc_inputs(self) -> tuple[str, ...]:
        """What goes in, as -i has it."""
        cached = f"float32[batch_size, {self.kv_heads}, past, {self.head_dim}]"
        return (
            f"input_ids: int64[batch_size, seq] < {self.vocabulary}",
            "attention_mask: int64[batch_size, past+seq] mask",
            f"position_ids: int64[batch_size, seq] positions < {self.max_len}",
            *(f"past_key_values.{name}: {cached}" for name in self._cache_names),
        )

    @property
    def posenc_outputs(self) -> tuple[str, ...]:
        """The names of what comes out."""
        return ("logits", *(f"present.{name}" for name in self._cache_names))

    @property
    def _cache_names(self) -> list[str]:
        return [f"{layer}.{half}" for layer in range(len(self.layers)) for half in ("key", "value")]

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
        return (self.head(self.norm(x)), *present)


__all__ = ["Decoder"]
