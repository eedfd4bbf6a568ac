"""Rotation of queries and keys by cosines and sines, and the shape of heads.

Two features of a head are a pair, which is rotated by one angle:

    halves        a0 a1 a2 b0 b1 b2  (GPT-NeoX, Hugging Face)        interleaved   a0 b0 a1 b1 a2 b2  (GPT-J, LLaMA)
"""

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

from posenc.ports import BATCH, Axis, fixed
from posenc.ranges import EVEN


@dataclass(frozen=True)
class Heads:
    """The shape of queries and keys.

    Args:
        rotary_dim: Features that are rotated, the first ones of a head; the others pass.
        layout: "halves" or "interleaved" pairs.
        tensor_layout: "bhsd" for (batch, head, seq, dim), "bshd" for (batch, seq, head, dim).
        parts: Equal parts of the rotated features, each with halves of its own.
        apart: Whether the two features of a pair turn by angles of their own.
        count: How many heads there are, where each turns by angles of its own; None where all turn alike.
    """

    head_dim: int
    rotary_dim: int
    layout: str = "halves"
    tensor_layout: str = "bhsd"
    parts: int = 1
    apart: bool = False
    count: int | None = None

    def __post_init__(self) -> None:
        EVEN.check(head_dim=self.head_dim, rotary_dim=self.rotary_dim)
        if self.rotary_dim > self.head_dim:
            raise ValueError(f"rotary_dim ({self.rotary_dim}) must be at most head_dim ({self.head_dim})")

    @property
    def interleaved(self) -> bool:
        """Whether the two features of a pair are neighbours."""
        return self.layout == "interleaved"

    def axes(self, head: Axis, *places: Axis) -> tuple[Axis, ...]:
        """The axes of queries or keys whose tokens lie along `places`."""
        inner = (head, *places) if self.tensor_layout == "bhsd" else (*places, head)
        return (BATCH, *inner, fixed(self.head_dim))

    @property
    def head_axis(self) -> int:
        """The axis of heads: 1 of (batch, head, ...), -2 of (..., head, dim)."""
        return 1 if self.tensor_layout == "bhsd" else -2

    @property
    def seq_axis(self) -> int:
        """The axis of tokens; on a grid, the first of its axes."""
        return 2 if self.tensor_layout == "bhsd" else 1


class Applied(nn.Module):
    """The first `rotary_dim` features of each head rotated in pairs, the others as they are."""

    head_axis: Final[int]
    count: Final[int]  # of heads that turn by angles of their own, or 0
    head_dim: Final[int]
    rotary_dim: Final[int]
    interleaved: Final[bool]

    def __init__(self, heads: Heads) -> None:
        super().__init__()
        self.head_dim = heads.head_dim
        self.rotary_dim = heads.rotary_dim
        self.interleaved = heads.interleaved
        self.head_axis = heads.head_axis
        self.count = heads.count or 0

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return x rotated: cos, sin (1 or batch, seq, rotary_dim / 2), or one more axis for a grid -> as x.

        Where heads turn by angles of their own, cos and sin have an axis of heads already.
        """
        if x.shape[-1] != self.head_dim:
            raise ValueError("heads have {} features, this encoding has {}".format(x.shape[-1], self.head_dim))
        if self.count > 0:
            # A single head would be spread over all of them, without a message.
            if x.shape[self.head_axis] != self.count:
                raise ValueError("there are {} heads, this encoding has {}".format(x.shape[self.head_axis], self.count))
        else:
            # (batch, seq, pairs) -> (batch, 1, seq, pairs), or (batch, seq, 1, pairs)
            cos, sin = cos.unsqueeze(self.head_axis), sin.unsqueeze(self.head_axis)
        if self.rotary_dim == self.head_dim:
            return self.rotate(x, cos, sin)
        rotated, passing = x.split([self.rotary_dim, self.head_dim - self.rotary_dim], -1)
        return torch.cat([self.rotate(rotated, cos, sin), passing], -1)

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return the rotated features, in the dtype of x."""
        raise NotImplementedError

    def by_columns(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return x cos + y sin, in the dtype of x, where y has the two features of every pair exchanged.

        Cosines and sines have a column a feature, and the sines of first features come negated.
        """
        wide = x.to(cos.dtype)
        if self.interleaved:
            # a0 b0 a1 b1 -> (..., pairs, 2) -> b0 a0 b1 a1. Numbers move twice, and what is computed lies in one piece.
            a, b = wide.unflatten(-1, [self.rotary_dim // 2, 2]).unbind(-1)
            swapped = torch.stack([b, a], -1).flatten(-2)
        else:
            # a0 a1 b0 b1 -> b0 b1 a0 a1
            swapped = wide.unflatten(-1, [2, self.rotary_dim // 2]).flip(-2).flatten(-2)
        return (wide * cos + swapped * sin).to(x.dtype)


class ApplyRotary(Applied):
    """Rotate pairs, each by one angle. An exporter may put one operator in its place."""

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return (a cos - b sin, b cos + a sin) of every pair (a, b), computed in the dtype of cos, in that of x."""
        # widened are the small tensors: (1 or batch, 1, seq, pairs) -> (1 or batch, 1, seq, 2 pairs)
        if self.interleaved:
            cos, sin = torch.stack([cos, cos], -1).flatten(-2), torch.stack([-sin, sin], -1).flatten(-2)
        else:
            cos, sin = torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1)
        return self.by_columns(x, cos, sin)


class ApplyApart(Applied):
    """Rotate pairs whose two features turn by angles of their own: cosines and sines have a column a feature."""

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return (a cos_a - b sin_a, b cos_b + a sin_b) of every pair (a, b), in the dtype of x."""
        return self.by_columns(x, cos, sin)


def check_rank(positions: Tensor, per_token: int) -> None:
    """Raise ValueError unless positions are (batch, seq), or (per_token, batch, seq) where a token has several."""
    rank = 2 if per_token == 1 else 3
    if positions.dim() != rank:
        raise ValueError("positions have {} axes, expected {}".format(positions.dim(), rank))
