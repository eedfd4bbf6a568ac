"""Model types with rows of clipped distances at their default configurations, as `defaults` has others."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from helpers.models.defaults import Default, made
from helpers.models.speech import vits_values
from helpers.models.text import code

ADDED = 16
"""Roundings of products that are summed up in another order."""
SCORED = torch.randn(1, 12, 400, 64, generator=torch.Generator().manual_seed(0))


def speecht5(config: Any) -> nn.Module:
    head_dim = config.hidden_size // config.encoder_attention_heads
    rows: nn.Module = code("speecht5", "SpeechT5RelativePositionalEncoding")(
        head_dim, config.encoder_max_relative_position
    )
    return rows


def scored(rows: Any) -> Any:
    """The scores that SpeechT5's attention adds, of queries that it has scaled."""
    return torch.einsum("bhld,lrd->bhlr", SCORED / 8, rows(torch.zeros(1, 400, 768)))


P = torch.randn(1, 2, 60, 60, generator=torch.Generator().manual_seed(0)).softmax(-1)

RELATIVE = [
    Default(
        "vits",
        made("vits", "VitsAttention"),
        lambda attention: vits_values(attention, P),
        lambda ours: ours(P),
        "text_encoder.encoder.layers.0.attention",
        "values",
        roundings=ADDED,
    ),
    Default(
        "speecht5",
        speecht5,
        scored,
        lambda ours: ours(SCORED, SCORED),
        "encoder.wrapped_encoder.embed_positions",
        "encoder",
        roundings=ADDED,
    ),
]
