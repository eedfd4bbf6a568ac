"""What a decoder and an encoder are made of: positions by the name of a scheme, attention, and a layer."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

import posenc

FAMILIES = {"additive": "rows", "rotary": "turned", "bias": "scores"}
"""Where positions enter a network of tokens, by the family of a scheme."""

OF_TOKENS = frozenset(("x", "q", "k", "scores", "positions", "positions_q", "positions_k"))
TOKEN_SCHEMES = ("sinusoidal", "learned", "rope", "xpos", "alibi", "t5_bias", "clipped_relative")


class TokenPositions(nn.Module):
    """A scheme by its name: rows added to tokens, queries and keys that are turned, or a bias on scores.

    Args:
        scheme: as `posenc-export` has it, one of TOKEN_SCHEMES or of your own.
        sizes: the width of tokens, of a head and the number of heads, by the names that schemes have for them.
        parameters: further parameters of the scheme, as JSON: '{"rope_theta": 500000.0}'.
        max_len: how many positions there are, where a scheme stores them.

    Raises ValueError, in one line, for a scheme that is not one of tokens.
    """

    def __init__(self, scheme: str, sizes: Mapping[str, int], parameters: str, max_len: int) -> None:
        super().__init__()
        known = posenc.SCHEMES[scheme]
        values: dict[str, Any] = {name: size for name, size in sizes.items() if name in known.parameters}
        mode: Literal["baked", "dynamic"] = "baked" if "dynamic" in known.unsupported.modes else "dynamic"
        spec = posenc.Spec(mode=mode, positions="explicit", max_len=max_len)
        encoding = posenc.build(scheme, spec, **values, **json.loads(parameters))
        self.takes = tuple(port.name for port in encoding.inputs)
        places = {port.name: len(port.axes) for port in encoding.inputs if port.name.startswith("positions")}
        kind = FAMILIES.get(encoding.family, "")
        if (
            not kind
            or set(places.values()) != {2}
            or not OF_TOKENS.issuperset(self.takes)
            or self.takes == ("positions",)
        ):
            raise ValueError(f"{scheme} is no scheme of tokens in a row: give one of {', '.join(TOKEN_SCHEMES)}")
        self.kind, self.module = kind, encoding.module

    def forward(self, given: Mapping[str, Tensor]) -> Any:
        """Return what the scheme gives, of what it takes: x, q, k, scores, positions, positions_q or positions_k."""
        return self.module(*(given[name] for name in self.takes))


class GroupedAttention(nn.Module):
    """Attention with grouped queries, (batch, seq, width) -> the same: arXiv:2305.13245.

    Args:
        width: features of a token.
        heads: of queries.
        kv_heads: of keys and values, a divisor of `heads`.
        encoding: positions, where they enter an attention.
    """

    def __init__(self, width: int, heads: int, kv_heads: int, encoding: TokenPositions) -> None:
        super().__init__()
        self.head_dim, self.heads, self.kv_heads = width // heads, heads, kv_heads
        self.queries = nn.Linear(width, heads * self.head_dim, bias=False)
        self.keys = nn.Linear(width, kv_heads * self.head_dim, bias=False)
        self.values = nn.Linear(width, kv_heads * self.head_dim, bias=False)
        self.output = nn.Linear(heads * self.head_dim, width, bias=False)
        self.encoding = encoding if encoding.kind in ("turned", "scores") else None

    def forward(
        self, x: Tensor, mask: Tensor, positions: Tensor, positions_k: Tensor, past: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the output, and all keys and values (batch, kv_heads, past + seq, head_dim).

        Args:
            x: (batch, seq, width).
            mask: (batch, 1, seq, past + seq), 0 for keys that are seen, minus infinity for others.
            positions: (batch, seq).
            positions_k: (batch, past + seq).
            past: earlier keys and values.
        """
        q, k, v = (
            layer(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for layer in (self.queries, self.keys, self.values)
        )
        encoding = self.encoding
        if encoding is not None and encoding.kind == "turned":
            q, k = encoding({"q": q, "k": k, "positions": positions})
        if past is not None:
            k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        # queries that share a key head stand behind each other: (batch, kv_heads, group * seq, head_dim)
        grouped = q.unflatten(1, (self.kv_heads, -1)).flatten(2, 3)
        scores = (grouped @ k.transpose(2, 3) / math.sqrt(self.head_dim)).unflatten(2, (-1, q.shape[2])).flatten(1, 2)
        if encoding is not None and encoding.kind == "scores":
            places = {"positions_q": positions, "positions_k": positions_k}
            given = encoding({"q": q, "scores": scores, **places})
            scores = given if "scores" in encoding.takes else scores + given
        weights = functional.softmax(scores + mask, -1)
        read = weights.unflatten(1, (self.kv_heads, -1)).flatten(2, 3) @ v
        heads = read.unflatten(2, (-1, q.shape[2])).flatten(1, 2)
        return self.output(heads.transpose(1, 2).flatten(2)), k, v


class TransformerLayer(nn.Module):
    """Attention and two linear maps, each behind a norm and added to what came in."""

    def __init__(self, width: int, heads: int, kv_heads: int, encoding: TokenPositions) -> None:
        super().__init__()
        self.attention = GroupedAttention(width, heads, kv_heads, encoding)
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(
        self, x: Tensor, mask: Tensor, positions: Tensor, positions_k: Tensor, past: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return as `GroupedAttention` does."""
        read, keys, values = self.attention(self.before(x), mask, positions, positions_k, past)
        x = x + read
        return x + self.mlp(self.between(x)), keys, values


class TokenNetwork(nn.Module):
    """Tokens through layers, whose positions are those of a scheme: what a decoder and an encoder share.

    Args:
        encoding: a scheme that adds rows to tokens, turns queries and keys, or adds a bias to scores.
        encoding_parameters: further parameters of it, as JSON: '{"rope_theta": 500000.0}'.
        vocabulary: how many tokens there are.
        width: features of a token.
        heads: of queries.
        kv_heads: of keys and values, a divisor of `heads`.
        layers: how many.
        max_len: how many positions there are, where the scheme stores them.

    Raises ValueError, in one line, where heads do not divide what they are heads of, and for a scheme not of tokens.
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
        if width % heads:
            raise ValueError(f"width ({width}) must be divisible by heads ({heads})")
        if heads % kv_heads:
            raise ValueError(f"heads ({heads}) must be divisible by kv_heads ({kv_heads})")
        self.vocabulary, self.max_len = vocabulary, max_len
        self.kv_heads, self.head_dim = kv_heads, width // heads
        sizes = {"d_model": width, "head_dim": width // heads, "heads": heads}
        self.encoding = TokenPositions(encoding, sizes, encoding_parameters, max_len)
        self.tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(TransformerLayer(width, heads, kv_heads, self.encoding) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = self.head_of(width)

    def head_of(self, width: int) -> nn.Module:
        """Return what comes behind the last norm: nothing, unless a network says otherwise."""
        return nn.Identity()


__all__ = ["TOKEN_SCHEMES", "GroupedAttention", "TokenNetwork", "TokenPositions", "TransformerLayer"]
