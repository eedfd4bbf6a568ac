"""Cosines and sines returned, to rotate queries and keys by elsewhere."""

from functools import partial
from typing import Final

import torch
from torch import Tensor, nn

from posenc.joins.apply_rotary import Heads, check_rank
from posenc.joins.rotary_parts import in_parts
from posenc.joins.rotated import CosSin, RotaryAngles
from posenc.lookup import counted
from posenc.maker import Join
from posenc.ports import BATCH, SEQ, Axis, Port, fixed
from posenc.spec import Spec, UnsupportedSpec
from posenc.where import Where


class Returned(nn.Module):
    """Cosines and sines, as a model's own rotary module returns them: what the ways to give positions share."""

    repeat_pairs: Final[bool]  # a column a feature; else a column a pair
    interleaved: Final[bool]
    parts: Final[int]  # of a head, each with halves of its own
    axes: Final[int]
    length: Final[int]  # of whole caches
    offset: Final[int]  # of positions from a mask
    __constants__ = ("count_dtype",)
    count_dtype = None

    def __init__(self, angles: RotaryAngles, spec: Spec, heads: Heads, *, repeat_pairs: bool) -> None:
        super().__init__()
        self.angles = angles
        self.repeat_pairs = repeat_pairs
        self.interleaved = heads.interleaved
        self.parts = heads.parts
        self.axes = angles.axes
        self.length = spec.max_len
        self.offset = spec.position_offset
        self.dtype = getattr(torch, spec.torch_dtype)

    def rounded(self, angles: CosSin) -> tuple[Tensor, Tensor]:
        """Return cosines and sines, a column a pair or a feature, in the output's dtype: twice (..., width)."""
        return self._round(angles.cos_q), self._round(angles.sin_q)

    def _round(self, rows: Tensor) -> Tensor:
        if self.repeat_pairs:
            # (..., pairs) -> (..., 2 pairs): 0 0 1 1 2 2, or 0 1 2 0 1 2
            if self.parts > 1:
                rows = in_parts(rows, rows, self.parts)
            else:
                rows = rows.repeat_interleave(2, -1) if self.interleaved else torch.cat([rows, rows], -1)
        return rows.to(self.dtype)


class WholeCaches(Returned):
    """Cosines and sines of all positions, with no input."""

    def forward(self) -> tuple[Tensor, Tensor]:
        """Return cos and sin of positions 0..max_len-1: twice (max_len, width)."""
        angles = self.angles.arange([self.length], torch.device("cpu"))  # (1, max_len, pairs) each
        return self._round(angles.cos_q[0]), self._round(angles.sin_q[0])


class GridCosSin(Returned):
    """Cosines and sines of every place of a grid."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return cos and sin of a grid as large as x: (batch, *grid, hidden) -> twice (1, *grid, width)."""
        sizes: list[int] = []
        for axis in range(1, 1 + self.axes):
            sizes.append(x.shape[axis])
        return self.rounded(self.angles.arange(sizes, x.device))


class PrefixThenGrid(Returned):
    """Cosines and sines of tokens that are not rotated, then those of every place of a grid, line by line."""

    prefix: Final[int]  # how many tokens stand before the places

    def __init__(self, angles: RotaryAngles, spec: Spec, heads: Heads, *, repeat_pairs: bool, prefix: int) -> None:
        super().__init__(angles, spec, heads, repeat_pairs=repeat_pairs)
        self.prefix = prefix

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return cos and sin: (batch, *grid, hidden) -> twice (1, prefix + places, width)."""
        sizes: list[int] = []
        for axis in range(1, 1 + self.axes):
            sizes.append(x.shape[axis])
        cos, sin = self.rounded(self.angles.arange(sizes, x.device))
        # (1, *grid, width) -> (1, places, width)
        cos, sin = cos.flatten(1, -2), sin.flatten(1, -2)
        before = [1, self.prefix, cos.shape[-1]]
        # no new_zeros: of what a graph makes of it, tract takes the dtype for another
        return torch.cat([cos.new_full(before, 1.0), cos], 1), torch.cat([sin.new_full(before, 0.0), sin], 1)


class OffsetCosSin(Returned):
    """Cosines and sines of positions start..start+seq-1, as when a KV cache holds the first `start` tokens."""

    def forward(self, x: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """Return cos and sin for as many tokens as x has: (batch, seq, hidden), (1,) -> twice (1, seq, width)."""
        positions = start + torch.arange(x.shape[1], dtype=self.count_dtype, device=x.device)
        # (seq,) -> (1, seq)
        return self.rounded(self.angles(positions.unsqueeze(0)))


class ExplicitCosSin(Returned):
    """Cosines and sines of one position, or several, for each token of each sequence."""

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return cos and sin: (batch, seq) or (axes, batch, seq) -> twice (batch, seq, width)."""
        check_rank(positions, self.axes)
        return self.rounded(self.angles(positions))


class MaskCosSin(Returned):
    """Cosines and sines of positions counted from an attention mask."""

    def forward(self, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return cos and sin: mask (batch, seq) of 1 and 0 -> twice (batch, seq, width)."""
        check_rank(mask, 1)
        return self.rounded(self.angles(counted(mask, self.offset, self.count_dtype)))


def join_cos_sin(
    angles: RotaryAngles, where: Where, spec: Spec, heads: Heads, *, repeat_pairs: bool, prefix: int = 0
) -> Join:
    """Return the join that gives cosines and sines themselves.

    With `prefix`, so many tokens that are not rotated stand before the places of a grid.

    Raises:
        UnsupportedSpec: Implicit positions, which ask for whole caches, are to be computed at each call.
    """
    on_grid = len(where.places) > 1
    implicit, offset = where.positions == "implicit" and not on_grid, where.positions == "offset"
    if implicit and spec.mode == "dynamic":
        ways = "--positions offset, explicit or mask, or --baked --positions implicit for whole caches"
        raise UnsupportedSpec(f"output=cos_sin takes {ways}")
    width = heads.rotary_dim if repeat_pairs else heads.rotary_dim // 2
    repeat_pairs = repeat_pairs and not heads.apart  # which have a column a feature already
    places = where.places if on_grid else (SEQ,)
    alike = fixed(1, "batch")  # one for the whole batch
    tokens = (fixed(spec.max_len, "length"),) if implicit else (alike if offset or on_grid else BATCH, *places)
    if prefix:
        # the places of a grid lie behind each other, as the tokens of attention do
        tokens = alike, Axis(f"{prefix}+{'*'.join(axis.name for axis in places)}", "length")
    cos, sin = (Port(name, (*tokens, fixed(width)), spec.torch_dtype) for name in ("cos", "sin"))
    x = Port("x", (BATCH, *places, Axis("hidden", "features")), spec.torch_dtype)  # a start says no length
    on_places = partial(PrefixThenGrid, prefix=prefix) if prefix else GridCosSin
    counted_by = on_places if on_grid else WholeCaches
    forward = where.pick(implicit=counted_by, offset=OffsetCosSin, explicit=ExplicitCosSin, mask=MaskCosSin)
    module = forward(angles, spec, heads, repeat_pairs=repeat_pairs)
    shape = {"width": width, "interleaved": heads.interleaved}
    return Join("cos_sin", module, (x,) if offset or on_grid else (), (cos, sin), shape=shape)
