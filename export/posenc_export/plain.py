"""The encoding as most people write and export it: what `posenc bench` measures ours against."""

import math

import torch
from torch import Tensor, nn


class PlainSinusoidal(nn.Module):
    """Sin and Cos of float32 angles, stacked and flattened, computed at each call."""

    def __init__(self, d_model: int, base: float) -> None:
        super().__init__()
        self.d_model = d_model
        self.base = base

    def forward(self, x: Tensor) -> Tensor:
        """Return x + PE: (batch, seq, d_model) -> the same."""
        position = torch.arange(x.shape[1], device=x.device).unsqueeze(1).float()
        pairs = torch.arange(0, self.d_model, 2, device=x.device).float()
        angles = position * torch.exp(pairs * (-math.log(self.base) / self.d_model))
        rows = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
        return x + rows[:, : self.d_model].to(x.dtype)
