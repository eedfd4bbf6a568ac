"""Positions of keys that are counted from 0, and of queries: without an end, or stored up to one."""

import torch
from torch import Tensor, nn

from posenc.lookup import exactly, inside, leading, take


class CountedPlaces(nn.Module):
    """Positions without an end: keys are counted."""

    def keys(self, length: int, device: torch.device) -> Tensor:
        """Return the positions of keys that are counted from 0: (length,)."""
        return torch.arange(length, device=device)

    def forward(self, positions: Tensor) -> Tensor:
        """Return positions as they are."""
        return positions


class StoredPlaces(nn.Module):
    """Positions below an end, stored: a graph refuses to read others."""

    places: Tensor  # (max_len, 1)

    def __init__(self, end: int) -> None:
        super().__init__()
        self.register_buffer("places", torch.arange(end)[:, None], persistent=False)

    def keys(self, length: int, device: torch.device) -> Tensor:
        """Return the positions of keys that are counted from 0: (length,)."""
        return exactly(leading(self.places, length), length)[0, :, 0]

    def forward(self, positions: Tensor) -> Tensor:
        """Return positions, each of which is below the end."""
        end = self.places.shape[0]
        return take(self.places, inside(positions, end), end).squeeze(-1)
