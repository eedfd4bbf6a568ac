"""A model of two layers as modelling code of 2023 wrote it: tables of cosines in each layer, cut and read at ids."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from helpers.foreign.built import STEP

WIDTH, HEADS, ROWS = 32, 2, 48
HEAD = WIDTH // HEADS


class Tables(nn.Module):
    """Cosines and sines of positions, the halves of a row alike."""

    def __init__(self, theta: float, rows: int) -> None:
        super().__init__()
        inv_freq = theta ** (-torch.arange(0, HEAD, 2).double() / HEAD)
        angles = torch.arange(rows).double()[:, None] * inv_freq
        angles = torch.cat((angles, angles), -1)
        self.register_buffer("cos_cached", angles.cos().float(), persistent=False)
        self.register_buffer("sin_cached", angles.sin().float(), persistent=False)

    def forward(self, seq_len: int) -> tuple[Tensor, Tensor]:
        """Return the first rows of both."""
        return cast(Tensor, self.cos_cached)[:seq_len], cast(Tensor, self.sin_cached)[:seq_len]


def rotate_half(x: Tensor) -> Tensor:
    """Return the second half of features negated, then the first."""
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-second, first), -1)


def apply(x: Tensor, cos: Tensor, sin: Tensor, ids: Tensor) -> Tensor:
    """Return features rotated at ids."""
    # the order of operands is what the fusion of ONNX Runtime looks for
    cos, sin = cos[ids].unsqueeze(1), sin[ids].unsqueeze(1)
    return x * cos + rotate_half(x) * sin


class Layer(nn.Module):
    """An attention."""

    def __init__(self, theta: float, rows: int) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.tables = Tables(theta, rows)

    def forward(self, x: Tensor, ids: Tensor) -> Tensor:
        """Return what attention gives."""
        batch, length, _ = x.shape
        q, k, v = (part(x).view(batch, length, HEADS, HEAD).transpose(1, 2) for part in (self.q, self.k, self.v))
        cos, sin = self.tables(k.shape[-2])
        scores = apply(q, cos, sin, ids) @ apply(k, cos, sin, ids).transpose(2, 3)
        mixed = torch.softmax(scores / HEAD**0.5, -1) @ v
        return cast(Tensor, self.o(mixed.transpose(1, 2).reshape(batch, length, WIDTH)))


class TwoThetas(nn.Module):
    """Two layers, each with a theta of its own.

    Args:
        thetas: one a layer.
        own_ids: ids are made inside, for a batch of one, and not taken.
        rows: how many positions it has.
    """

    def __init__(self, thetas: tuple[float, float] = (1e4, 1e6), own_ids: bool = False, rows: int = ROWS) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.own_ids = nn.Embedding(64, WIDTH), own_ids
        self.layers = nn.ModuleList([Layer(theta, rows) for theta in thetas])
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.normal_(std=0.3)
                parameter.copy_((parameter * STEP).round() / STEP)

    def forward(self, input_ids: Tensor, position_ids: Tensor | None = None) -> Tensor:
        """Return hidden states."""
        ids = torch.arange(input_ids.shape[1]).unsqueeze(0) if position_ids is None else position_ids
        x = cast(Tensor, self.table(input_ids))
        for layer in self.layers:
            x = x + layer(x, ids)
        return x
