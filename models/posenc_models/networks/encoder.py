"""Encoders of tokens: with positions by the name of any scheme, and with `nn.TransformerEncoder`."""

import math

import torch
from torch import Tensor, nn

import posenc
from posenc_models.networks.layers import TokenNetwork


class Encoder(TokenNetwork):
    """Tokens to vectors, each of which reads all others but padding."""

    posenc_outputs = ("last_hidden_state",)

    @property
    def posenc_inputs(self) -> tuple[str, ...]:
        """What goes in, as -i has it."""
        return (
            f"input_ids: int64[batch_size, seq] < {self.vocabulary}",
            "attention_mask: int64[batch_size, seq] mask",
        )

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return (batch, seq, width), of tokens (batch, seq) and a mask (batch, seq) that is 0 for padding."""
        x: Tensor = self.tokens(input_ids)
        positions = torch.arange(input_ids.shape[1], device=x.device).expand(input_ids.shape[0], -1)
        if self.encoding.kind == "rows":
            x = self.encoding({"x": x, "positions": positions})
        # a query that is padding sees itself: a softmax of nothing is no number
        places = positions[:1]
        seen = (attention_mask[:, None, :] != 0) | (places[:, None, :] == places[:, :, None])
        mask = torch.zeros((), dtype=x.dtype).masked_fill(~seen[:, None], float("-inf"))
        for layer in self.layers:
            x, _, _ = layer(x, mask, positions, positions)
        out: Tensor = self.norm(x)
        return out


class TextEncoder(nn.Module):
    """Token embedding x sqrt(d_model), plus learned positions, into a stack of encoder layers (arXiv:1706.03762)."""

    def __init__(
        self, *, vocabulary: int = 10000, d_model: int = 512, max_seq_len: int = 512, heads: int = 8, layers: int = 6
    ) -> None:
        super().__init__()
        if d_model % heads:
            raise ValueError(f"d_model ({d_model}) must be divisible by heads ({heads})")
        self.scale = math.sqrt(d_model)
        self.tokens = nn.Embedding(vocabulary, d_model)
        spec = posenc.Spec(max_len=max_seq_len)
        self.positions = posenc.build("learned", spec, d_model=d_model).module
        layer = nn.TransformerEncoderLayer(d_model, heads, dim_feedforward=4 * d_model, batch_first=True)
        # nested tensors branch on the mask's values, which no graph can hold
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, ids: Tensor, src_mask: Tensor | None = None) -> Tensor:
        """Return encoded tokens: ids (batch, seq), mask (seq, seq) of 0 and -inf -> (batch, seq, d_model)."""
        # (batch, seq) -> (batch, seq, d_model); the scale is that of the paper's section 3.4
        x: Tensor = self.positions(self.tokens(ids) * self.scale)
        out: Tensor = self.encoder(x, src_mask, is_causal=False)
        return out
