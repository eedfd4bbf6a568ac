"""Modules as people write them that a first version refused though right files exist."""

import math
from typing import Any

import torch
from torch import Tensor, nn


class Frames(nn.Module):
    """A feature that goes from 0 to 1 over the frames of a clip."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.linspace(0, 1, x.shape[1])[:, None]


class Places(nn.Module):
    """Places of patches by linspace, rows and columns."""

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[2] // 2, x.shape[3] // 2
        rows = torch.linspace(0, height - 1, steps=height, dtype=x.dtype)[:, None].expand(height, width)
        columns = torch.linspace(-1.0, 1.0, width)[None].expand(height, width)
        return torch.stack([rows, columns], -1).reshape(1, height * width, 2).expand(x.shape[0], -1, -1)


class Embedded(nn.Module):
    """The plainest learned table: eager refuses a negative position."""

    def __init__(self, rows: int = 64) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.rows = nn.Embedding(rows, 8)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        rows: Tensor = self.rows(positions)
        return x + rows


class Indexed(nn.Module):
    """A table that is indexed: PyTorch counts negative positions from the end."""

    table: Tensor

    def __init__(self, rows: int = 64) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.register_buffer("table", torch.randn(rows, 8))

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + self.table[positions]


class Resized(nn.Module):
    """Rows resized by a scale factor with 0.1 added, as DINO did; a table of its own size is taken as it is."""

    def __init__(self, mode: str = "bicubic", channels: int = 8, patch: int = 4, side: int = 6) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.mode, self.side, self.patch_side = mode, side, patch
        self.patch = nn.Conv2d(3, channels, patch, patch)
        self.rows = nn.Parameter(torch.randn(1, side * side, channels))

    def forward(self, x: Tensor) -> Tensor:
        patches: Tensor = self.patch(x)
        tokens = patches.flatten(2).transpose(1, 2)
        if tokens.shape[1] == self.side**2 and x.shape[2] == x.shape[3]:
            return tokens + self.rows
        grid = self.rows.reshape(1, self.side, self.side, -1).permute(0, 3, 1, 2)
        sides = [(size // self.patch_side + 0.1) / math.sqrt(self.side**2) for size in x.shape[2:]]
        resized = nn.functional.interpolate(grid, scale_factor=tuple(sides), mode=self.mode, align_corners=False)
        return tokens + resized.permute(0, 2, 3, 1).reshape(1, -1, resized.shape[1])


class Experts(nn.Module):
    """Mixtral, small and at random."""

    def __init__(self, **more: object) -> None:
        super().__init__()
        from transformers import MixtralConfig, MixtralModel

        torch.manual_seed(0)
        config: dict[str, Any] = {
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 1,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "vocab_size": 50,
            "num_local_experts": 2,
            "num_experts_per_tok": 1,
            "sliding_window": None,
            **more,
        }
        self.model = MixtralModel(MixtralConfig(**config)).eval()

    def forward(self, ids: Tensor) -> Tensor:
        hidden: Tensor = self.model(input_ids=ids, use_cache=False).last_hidden_state
        return hidden
