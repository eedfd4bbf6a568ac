"""A table of positions resized for images of any size, with the triangular filter that PyTorch calls antialias."""

from __future__ import annotations

import torch
from torch import Tensor


def resized(table: Tensor, row: Tensor, rows: Tensor, column: Tensor, columns: Tensor) -> Tensor:
    """Return the embedding of patches at a row and column, of an image of so many, (..., features).

    Args:
        table: (side, side, features).
        row: (...), whole numbers as the others.
        rows: How many rows the image has, 1 at least.
        column: (...).
        columns: How many columns it has.
    """
    side, _, features = table.shape
    weights = (_weights(row, rows, side).unsqueeze(-1) * _weights(column, columns, side).unsqueeze(-2)).flatten(-2)
    return (weights @ table.reshape(-1, features).to(torch.float32)).to(table.dtype)


def _weights(place: Tensor, size: Tensor, side: int) -> Tensor:
    """Return how much of each of the table's places is in a place of another size, (..., side)."""
    scale = (side / size.to(torch.float32)).unsqueeze(-1)
    center = scale * (place.to(torch.float32).unsqueeze(-1) + 0.5)
    distance = torch.arange(side, device=place.device).to(torch.float32) + 0.5 - center
    weights = (1 - (distance / scale.clamp(min=1)).abs()).clamp(min=0)
    return weights / weights.sum(-1, keepdim=True)
