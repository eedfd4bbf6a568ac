"""Rotation of queries and keys by cosines and sines, and the shape of heads.

Which two features of a head are a pair, and are rotated together:

    halves        a0 a1 a2 b0 b1 b2  (GPT-NeoX, Hugging Face)        interleaved   a0 b0 a1 b1 a2 b2  (GPT-J, LLaMA)
"""

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

from posenc.ports import BATCH, Axis, fixed


@dataclass(frozen=True)
class Heads:
    """The shape of queries and keys: `bshd` for (batch, seq, head, dim), else (batch, head, seq, dim)."""

    head_dim: int
    rotary_dim: int
    layout: str = "halves"
    tensor_layout: str = "bhsd"

    def __post_init__(self) -> None:
        for name, value in (("head_dim", self.head_dim), ("rotary_dim", self.rotary_dim)):
            if value < 2 or value % 2:
                raise ValueError(f"{name} must be an even number of at least 2, got {value}")
        if self.rotary_dim > self.head_dim:
            raise ValueError(f"rotary_dim ({self.rotary_dim}) must be at most head_dim ({self.head_dim})")

    @property
    def interleaved(self) -> bool:
        """Whether the two features of a pair are neighbours."""
        return self.layout == "interleaved"

    def axes(self, head: Axis, *places: Axis) -> tuple[Axis, ...]:
        """The axes of a port whose tokens lie along `places`."""
        inner = (head, *places) if self.tensor_layout == "bhsd" else (*places, head)
        return (BATCH, *inner, fixed(self.head_dim))

    @property
    def head_axis(self) -> int:
        """Where heads lie among the axes of queries and keys."""
        return 1 if self.tensor_layout == "bhsd" else -2

    @property
    def seq_axis(self) -> int:
        """Where tokens lie among the axes of queries and keys; on a grid, the first of its axes."""
        return 2 if self.tensor_layout == "bhsd" else 1


class ApplyRotary(nn.Module):
    """Rotate the first `rotary_dim` features of each head, in pairs; the others pass. An exporter may put one op here.

    head_axis: 1 for (batch, head, ...), -2 for (..., head, dim).
    """

    head_axis: Final[int]
    head_dim: Final[int]
    rotary_dim: Final[int]
    interleaved: Final[bool]

    def __init__(self, heads: Heads) -> None:
        super().__init__()
        self.head_dim = heads.head_dim
        self.rotary_dim = heads.rotary_dim
        self.interleaved = heads.interleaved
        self.head_axis = heads.head_axis

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return x rotated: cos, sin (1 or batch, seq, rotary_dim / 2), or one more axis for a grid -> as x."""
        if x.shape[-1] != self.head_dim:
            raise ValueError("heads have {} features, this encoding has {}".format(x.shape[-1], self.head_dim))
        cos, sin = cos.unsqueeze(self.head_axis), sin.unsqueeze(self.head_axis)
        if self.rotary_dim == self.head_dim:
            return self.rotate(x, cos, sin)
        rotated, passing = x.split([self.rotary_dim, self.head_dim - self.rotary_dim], -1)
        return torch.cat([self.rotate(rotated, cos, sin), passing], -1)

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return (a cos - b sin, b cos + a sin) of every pair, computed in what cos is in, in the dtype of x.

        Halves are swapped whole, and the small tensors widened: x is read and written as few times as can be, 1.6 times
        as fast. Neighbours would be swapped number by number, which takes twice as long as taking them apart.
        """
        wide = x.to(cos.dtype)
        if self.interleaved:
            # (..., dim) -> (..., dim / 2, 2)
            a, b = wide.unflatten(-1, [self.rotary_dim // 2, 2]).unbind(-1)
            rotated = torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
        else:
            swapped = wide.unflatten(-1, [2, self.rotary_dim // 2]).flip(-2).flatten(-2)
            rotated = wide * torch.cat([cos, cos], -1) + swapped * torch.cat([-sin, sin], -1)
        return rotated.to(x.dtype)


def widen(half: Tensor, full: bool, interleaved: bool) -> Tensor:
    """Return a column a pair, or a column a feature: (..., pairs) -> (..., pairs) or (..., 2 pairs)."""
    if not full:
        return half
    return half.repeat_interleave(2, -1) if interleaved else torch.cat([half, half], -1)


def check_rank(positions: Tensor, rank: int) -> None:
    """Raise ValueError where positions have too few or too many axes."""
    if positions.dim() != rank:
        raise ValueError("positions have {} axes, expected {}".format(positions.dim(), rank))
