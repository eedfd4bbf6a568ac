"""A whole small transformer: tokens and learned positions into `nn.TransformerEncoder`."""

import math

from torch import Tensor, nn

import posenc


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
