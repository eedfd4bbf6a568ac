"""Positions of keys that are counted from 0, and of queries: without an end, or stored up to one."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from posenc.lookup import check_length, inside, take
from posenc.stored import StoredRows


class CountedPlaces(nn.Module):
    """Positions without an end: keys are counted."""

    __constants__ = ("count_dtype",)
    count_dtype = None

    def keys(self, length: int, device: torch.device) -> Tensor:
        """Return the positions of keys that are counted from 0: (length,)."""
        return torch.arange(length, dtype=self.count_dtype, device=device)

    def forward(self, positions: Tensor) -> Tensor:
        """Return positions as they are."""
        return positions


class StoredPlaces(nn.Module):
    """Positions below an end, stored: a graph refuses to read others."""

    places: Tensor  # (max_len, 1)
    before: Tensor  # (max_len + 1,): what brings 0, 1, 2, .. to the position before
    __constants__ = ("count_dtype",)
    count_dtype = None

    def __init__(self, end: int) -> None:
        super().__init__()
        self.register_buffer("places", torch.arange(end)[:, None], persistent=False)
        self.register_buffer("before", torch.full((end + 1,), -1), persistent=False)

    def keys(self, length: int, device: torch.device) -> Tensor:
        """Return the positions of keys that are counted from 0: (length,).

        The sum of two rows refuses more keys than are stored, on CUDA too. A Split does, and takes four times as long;
        of one key it would repeat the one: there is one more.
        """
        check_length(length, self.places.shape[0])
        return (torch.arange(length + 1, dtype=self.count_dtype, device=device) + self.before[: length + 1])[1:]

    def forward(self, positions: Tensor) -> Tensor:
        """Return positions, each of which is below the end."""
        end = self.places.shape[0]
        return take(self.places, inside(positions, end), end).squeeze(-1)

    def stored_rows(self) -> Iterator[StoredRows]:
        """Yield the places, and what brings one to that before it."""
        yield StoredRows("places", np.arange(len(self.places))[:, None])
        yield StoredRows("before", np.full(len(self.before), -1))
