"""Modules that give cosines and sines, to rotate queries and keys by elsewhere."""

from typing import Final

import torch
from torch import Tensor, nn

from posenc.sources.rotary.angles import RotaryAngles
from posenc.sources.rotary.apply import check_rank, widen


class CosSin(nn.Module):
    """Cosines and sines at half or full width: what a model's own rotary module returns."""

    full: Final[bool]
    interleaved: Final[bool]
    size: Final[int]

    def __init__(self, angles: RotaryAngles, size: int, *, full: bool, interleaved: bool, dtype: torch.dtype) -> None:
        super().__init__()
        self.angles = angles
        self.size = size
        self.full = full
        self.interleaved = interleaved
        self.dtype = dtype

    def finish(self, pairs: Tensor) -> Tensor:
        """Widen and round: (..., pairs) -> (..., width)."""
        return widen(pairs, self.full, self.interleaved).to(self.dtype)


class CosSinAt(CosSin):
    """Cosines and sines at positions that have `size` axes."""

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return cos and sin: (batch, seq) or (axes, batch, seq) -> twice (batch, seq, width)."""
        check_rank(positions, self.size)
        cos, sin, _, _ = self.angles(positions)
        return self.finish(cos), self.finish(sin)


class CosSinCache(CosSin):
    """The whole caches of `size` positions, with no input."""

    def forward(self) -> tuple[Tensor, Tensor]:
        """Return cos and sin of positions 0..size-1: twice (size, width)."""
        cos, sin, _, _ = self.angles.arange(self.size, torch.device("cpu"))
        return self.finish(cos[0]), self.finish(sin[0])
