"""Queries and keys rotated: a forward for each set of names that a call may have."""

from dataclasses import replace
from typing import Final, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from posenc.encoding import Source, Tables, Tolerance
from posenc.joins.apply_rotary import Heads, check_rank
from posenc.joins.rotary_parts import apply_rotary
from posenc.lookup import check_same, counted
from posenc.maker import Join
from posenc.ports import Axis, Port, fixed
from posenc.spec import Spec
from posenc.where import Where


class CosSin(NamedTuple):
    """Cosines and sines that queries and keys are rotated by: (..., pairs) each."""

    cos_q: Tensor
    sin_q: Tensor
    cos_k: Tensor
    sin_k: Tensor


class RotaryAngles(Source, Protocol):
    """A source of rotary angles: positions from `end` on are refused, if that is not None."""

    @property
    def end(self) -> int | None:
        """Positions from here on are refused; None where all are taken."""

    @property
    def axes(self) -> int:
        """Positions that a token has; along a grid of as many axes they follow from its size."""

    @property
    def attention_factor(self) -> float:
        """A factor of every cosine and sine."""

    def __call__(self, positions: Tensor) -> CosSin:
        """Return cosines and sines at positions: (...) or (axes, ...) -> (..., pairs) each."""

    def arange(self, sizes: list[int], device: torch.device) -> CosSin:
        """Return cosines and sines of every place of a call: (1, *sizes, pairs) each."""

    def ends(self) -> tuple[int | None, ...]:
        """Return the end of the places along each axis of a grid."""

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far cosines and sines, before the attention factor, may be from the float64 reference.

        `vector` is how far a scale of queries and keys may be off, relative.
        """

    def tables(self) -> Tables:
        """Return the stored tables; raise NoTables where angles are made of more."""


class Rotated(nn.Module):
    """Rotation of queries and keys: what the ways to give positions share."""

    seq_axis: Final[int]  # where tokens lie, on a grid the first of its axes
    axes: Final[int]  # positions that a token has
    offset: Final[int]  # of positions from a mask
    __constants__ = ("count_dtype",)
    count_dtype = None

    def __init__(self, angles: RotaryAngles, heads: Heads, offset: int) -> None:
        super().__init__()
        self.angles = angles
        self.apply_rotary = apply_rotary(heads)
        self.seq_axis = heads.seq_axis
        self.axes = angles.axes
        self.offset = offset

    def rotate(self, q: Tensor, k: Tensor, by: CosSin) -> tuple[Tensor, Tensor]:
        """Return q and k rotated, in their own shapes."""
        return self.apply_rotary(q, by.cos_q, by.sin_q), self.apply_rotary(k, by.cos_k, by.sin_k)

    def length(self, q: Tensor, k: Tensor) -> int:
        """Return how many tokens q and k have."""
        check_same(q.shape[self.seq_axis], k.shape[self.seq_axis])
        return q.shape[self.seq_axis]


class ImplicitRotation(Rotated):
    """Queries and keys at the places of their own shape: 0..seq-1, or those of a grid."""

    def forward(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Return q and k rotated: (batch, head, seq, dim), or (batch, head, height, width, dim)."""
        # [seq], or [height, width]
        sizes: list[int] = []
        for axis in range(self.seq_axis, self.seq_axis + self.axes):
            check_same(q.shape[axis], k.shape[axis])
            sizes.append(q.shape[axis])
        return self.rotate(q, k, self.angles.arange(sizes, q.device))


class OffsetRotation(Rotated):
    """Queries and keys at positions start..start+seq-1, as when a KV cache holds the first `start` tokens."""

    def forward(self, q: Tensor, k: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """Return q and k rotated, in their own shapes; start is int64 (1,)."""
        positions = start + torch.arange(self.length(q, k), dtype=self.count_dtype, device=q.device)
        # (seq,) -> (1, seq): a sequence that stands for the whole batch
        return self.rotate(q, k, self.angles(positions.unsqueeze(0)))


class ExplicitRotation(Rotated):
    """Queries and keys at one position, or several, for each token of each sequence."""

    def forward(self, q: Tensor, k: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return q and k rotated, in their own shapes; positions are int64 (batch, seq) or (axes, batch, seq)."""
        check_rank(positions, self.axes)
        check_same(self.length(q, k), positions.shape[-1])
        return self.rotate(q, k, self.angles(positions))


class MaskRotation(Rotated):
    """Queries and keys at positions counted from an attention mask: padding moves no token."""

    def forward(self, q: Tensor, k: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return q and k rotated, in their own shapes; the mask is int64 (batch, seq) of 1 and 0."""
        check_rank(mask, 1)
        check_same(self.length(q, k), mask.shape[-1])
        return self.rotate(q, k, self.angles(counted(mask, self.offset, self.count_dtype)))


def join_heads(angles: RotaryAngles, where: Where, spec: Spec, heads: Heads) -> Join:
    """Return the join of rotary angles with queries and keys."""
    q, k = (
        Port(name, heads.axes(head, *where.places), spec.torch_dtype)
        for name, head in (("q", _heads("head", heads)), ("k", _heads("head_kv", heads)))
    )
    # k may have fewer heads than q (grouped queries), and both have all places of a call.
    outputs = (replace(q, name="q_rotated"), replace(k, name="k_rotated"))
    shape = {"head_dim": heads.head_dim, "rotary_dim": heads.rotary_dim, "interleaved": heads.interleaved}
    forward = where.pick(implicit=ImplicitRotation, offset=OffsetRotation, explicit=ExplicitRotation, mask=MaskRotation)
    return Join("rotary", forward(angles, heads, spec.position_offset), (q, k), outputs, shape=shape)


def _heads(name: str, heads: Heads) -> Axis:
    """Return the axis of heads: of any number, unless each has angles of its own."""
    return Axis(name, "heads") if heads.count is None else fixed(heads.count, "heads")
