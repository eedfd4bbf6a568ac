"""Rotation of heads in equal parts, each with halves of its own, as Gemma 4's vision has a part for each axis."""

from typing import Final

import torch
from torch import Tensor

from posenc.joins.apply_rotary import Applied, ApplyApart, ApplyRotary, Heads


class RotaryParts(Applied):
    """Rotate pairs in parts of two halves, each pair by one angle: a0 a1 b0 b1 c0 c1 d0 d1."""

    parts: Final[int]

    def __init__(self, heads: Heads) -> None:
        super().__init__(heads)
        self.parts = heads.parts

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return (a cos - b sin, b cos + a sin) of every pair (a, b), computed in the dtype of cos, in that of x."""
        wide = x.to(cos.dtype)
        # (..., parts, 2, pairs of a part): halves are swapped whole
        swapped = wide.unflatten(-1, [self.parts, 2, -1]).flip(-2).flatten(-3)
        rotated = wide * in_parts(cos, cos, self.parts) + swapped * in_parts(-sin, sin, self.parts)
        result: Tensor = rotated.to(x.dtype)
        return result


def in_parts(first: Tensor, second: Tensor, parts: int) -> Tensor:
    """Return a first half beside a second in each part: twice (..., pairs) -> (..., 2 pairs)."""
    # (..., pairs) -> (..., parts, 1, pairs of a part)
    halves = [rows.unflatten(-1, [parts, 1, -1]) for rows in (first, second)]
    joined: Tensor = torch.cat(halves, -2).flatten(-3)
    return joined


def apply_rotary(heads: Heads) -> Applied:
    """Return what rotates heads: whole, in parts, or the two features of a pair apart."""
    if heads.apart:
        return ApplyApart(heads)
    return ApplyRotary(heads) if heads.parts == 1 else RotaryParts(heads)
