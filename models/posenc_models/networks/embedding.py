"""Bytes of text to vectors: a token embedding plus either positional encoding.

Sizes are those of small tutorials: 256 byte values, a short context. The encodings are posenc's own modules, so what
trains is what exports.
"""

from typing import Literal

import torch
from torch import Tensor, nn

import posenc

BYTES = 256


class ByteEmbedding(nn.Module):
    """Token embedding plus positional encoding: ids (batch, seq) of 0..255 -> (batch, seq, d_model)."""

    def __init__(self, encoding: nn.Module, d_model: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(BYTES, d_model)
        self.encoding = encoding

    def forward(self, ids: Tensor) -> Tensor:
        """Return embedded bytes with their positions added."""
        # (batch, seq) -> (batch, seq, d_model)
        x: Tensor = self.tokens(ids)
        out: Tensor = self.encoding(x)
        return out


def sinusoidal(
    *, d_model: int = 64, context_length: int = 512, mode: Literal["baked", "dynamic"] = "dynamic"
) -> ByteEmbedding:
    """Bytes with fixed sinusoidal positions; a dynamic one has no longest context (arXiv:1706.03762)."""
    spec = posenc.Spec(mode=mode, max_len=context_length)
    return ByteEmbedding(posenc.build("sinusoidal", spec, d_model=d_model).module, d_model)


def learned(*, d_model: int = 64, context_length: int = 512) -> ByteEmbedding:
    """Bytes with learned positions, trained together with the token embedding (arXiv:1705.03122)."""
    spec = posenc.Spec(max_len=context_length)
    return ByteEmbedding(posenc.build("learned", spec, d_model=d_model).module, d_model)


def to_ids(text: str) -> Tensor:
    """Return the UTF-8 bytes of a text as ids: (1, bytes)."""
    return torch.tensor([list(text.encode("utf-8"))], dtype=torch.int64)


__all__ = ["BYTES", "ByteEmbedding", "learned", "sinusoidal", "to_ids"]
