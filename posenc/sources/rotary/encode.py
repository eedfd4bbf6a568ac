"""Encodings that rotate queries and keys, or give cosines and sines for that, at angles of `rotary_angles`."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from posenc.call import Formula
from posenc.encoding import Encoding, Probes, Tolerance, eps
from posenc.lookup import check_same, counted
from posenc.maker import Claims, Join, encoding
from posenc.ports import BATCH, SEQ, Axis, Port, fixed
from posenc.sources.rotary.angles import AxialAngles, RotaryAngles, is_axial
from posenc.sources.rotary.apply import Heads, check_rank
from posenc.sources.rotary.cos_sin import CosSinAt, CosSinCache
from posenc.spec import Spec, UnsupportedSpec
from posenc.where import Where, grid, tokens


class Rotary(nn.Module):
    """Rotation of queries and keys: what the ways to give positions share.

    seq_axis: where tokens lie, on a grid the first of its axes. rank: how many axes positions have.
    """

    seq_axis: Final[int]
    rank: Final[int]

    def __init__(self, angles: RotaryAngles, heads: Heads, rank: int) -> None:
        super().__init__()
        self.angles = angles
        self.apply_rotary = heads.apply_rotary()
        self.seq_axis = heads.seq_axis
        self.rank = rank


class RotaryImplicit(Rotary):
    """Queries and keys at positions 0..seq-1, from their shape."""

    def forward(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Return q and k rotated, in their own shapes."""
        check_same(q.shape[self.seq_axis], k.shape[self.seq_axis])
        cos_q, sin_q, cos_k, sin_k = self.angles.arange(q.shape[self.seq_axis], q.device)
        return self.apply_rotary(q, cos_q, sin_q), self.apply_rotary(k, cos_k, sin_k)


class RotaryOffset(Rotary):
    """Queries and keys at positions start..start+seq-1, as when a KV cache holds the first `start` tokens."""

    def forward(self, q: Tensor, k: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """Return q and k rotated, in their own shapes; start is int64 (1,)."""
        check_same(q.shape[self.seq_axis], k.shape[self.seq_axis])
        positions = (start + torch.arange(q.shape[self.seq_axis], device=q.device)).unsqueeze(0)
        cos_q, sin_q, cos_k, sin_k = self.angles(positions)
        return self.apply_rotary(q, cos_q, sin_q), self.apply_rotary(k, cos_k, sin_k)


class RotaryExplicit(Rotary):
    """Queries and keys at positions of each token of each sequence, or at several positions a token."""

    def forward(self, q: Tensor, k: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return q and k rotated, in their own shapes; positions are int64 (batch, seq) or (axes, batch, seq)."""
        check_rank(positions, self.rank)
        check_same(q.shape[self.seq_axis], k.shape[self.seq_axis])
        check_same(q.shape[self.seq_axis], positions.shape[-1])
        cos_q, sin_q, cos_k, sin_k = self.angles(positions)
        return self.apply_rotary(q, cos_q, sin_q), self.apply_rotary(k, cos_k, sin_k)


class RotaryFromMask(Rotary):
    """Queries and keys at positions counted from an attention mask: padding moves no token."""

    offset: Final[int]

    def __init__(self, angles: RotaryAngles, heads: Heads, offset: int) -> None:
        super().__init__(angles, heads, 2)
        self.offset = offset

    def forward(self, q: Tensor, k: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return q and k rotated, in their own shapes; the mask is int64 (batch, seq) of 1 and 0."""
        check_rank(mask, 2)
        check_same(q.shape[self.seq_axis], k.shape[self.seq_axis])
        check_same(q.shape[self.seq_axis], mask.shape[-1])
        cos_q, sin_q, cos_k, sin_k = self.angles(counted(mask, self.offset))
        return self.apply_rotary(q, cos_q, sin_q), self.apply_rotary(k, cos_k, sin_k)


class RotaryGrid(nn.Module):
    """Queries and keys at the places of a grid, from their shape: (batch, head, height, width, dim)."""

    seq_axis: Final[int]

    def __init__(self, angles: AxialAngles, heads: Heads) -> None:
        super().__init__()
        self.angles = angles
        self.apply_rotary = heads.apply_rotary()
        self.seq_axis = heads.seq_axis

    def forward(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Return q and k rotated, in their own shapes."""
        check_same(q.shape[self.seq_axis], k.shape[self.seq_axis])
        check_same(q.shape[self.seq_axis + 1], k.shape[self.seq_axis + 1])
        cos, sin = self.angles.grid([q.shape[self.seq_axis], q.shape[self.seq_axis + 1]])
        return self.apply_rotary(q, cos, sin), self.apply_rotary(k, cos, sin)


@dataclass(frozen=True)
class Output:
    """What a rotary encoding returns: q and k rotated, or ("cos_sin") cosines and sines.

    full: cosines and sines have a column a feature, as transformers returns them; else a column a pair, as fused
    operators take them.
    """

    kind: str = "rotate"
    full: bool = False


def encode(
    angles: RotaryAngles,
    spec: Spec,
    heads: Heads,
    output: Output,
    *,
    formula: Formula,
    probe_lengths: tuple[int, ...] = (),
) -> Encoding:
    """Return the encoding that rotary angles make with the positions, the heads and the output asked for.

    formula: a call -> the outputs in float64. probe_lengths: of calls to try, beside those that the angles ask for.
    Raises UnsupportedSpec for a combination that has no meaning.
    """
    cos_sin = output.kind == "cos_sin"
    if is_axial(angles) and spec.positions == "implicit" and not cos_sin:
        where = grid(spec, ("height", "width"), (angles.end, angles.end))
    else:
        where = tokens(spec, angles.end, angles.axes)
    join = _cos_sin(angles, spec, heads, output) if cos_sin else _rotary(angles, spec, heads, where)
    claims = Claims(
        error=lambda case: _error(angles, spec, output, case.max_position),
        graph_error=lambda case: _graph_error(angles, spec, output, case.max_position),
        tables=angles.tables,
        probes=Probes((*angles.probes.lengths, *probe_lengths), angles.probes.positions),
        half_safe=angles.half_safe,
    )
    return encoding(spec, where, claims, join, formula)


def _rotary(angles: RotaryAngles, spec: Spec, heads: Heads, where: Where) -> Join:
    """Wrap rotary angles so that they rotate q and k."""
    q, k = (
        Port(name, heads.axes(Axis(head, "heads"), *where.places), spec.torch_dtype)
        for name, head in (("q", "head"), ("k", "head_kv"))
    )
    outputs = (replace(q, name="q_rotated"), replace(k, name="k_rotated"))
    shape = {"head_dim": heads.head_dim, "rotary_dim": heads.rotary_dim, "interleaved": heads.interleaved}
    return Join("rotary", _module(angles, spec, heads), (q, k), outputs, shape=shape)


def _module(angles: RotaryAngles, spec: Spec, heads: Heads) -> nn.Module:
    """Return the module for one way to give positions."""
    if spec.positions == "mask":
        return RotaryFromMask(angles, heads, spec.position_offset)
    if spec.positions == "explicit":
        return RotaryExplicit(angles, heads, 2 if angles.axes == 1 else 3)
    if spec.positions == "offset":
        return RotaryOffset(angles, heads, 2)
    return RotaryGrid(angles, heads) if is_axial(angles) else RotaryImplicit(angles, heads, 2)


def _cos_sin(angles: RotaryAngles, spec: Spec, heads: Heads, output: Output) -> Join:
    """Wrap rotary angles so that they return cos and sin at positions, or, baked and implicit, all of them."""
    width = heads.rotary_dim if output.full else heads.rotary_dim // 2
    dtype = getattr(torch, spec.torch_dtype)
    shape: dict[str, int | bool] = {"width": width, "interleaved": heads.interleaved}
    if spec.positions == "explicit":
        outputs = tuple(Port(n, (BATCH, SEQ, fixed(width)), spec.torch_dtype) for n in ("cos", "sin"))
        module: nn.Module = CosSinAt(
            angles, 2 if angles.axes == 1 else 3, full=output.full, interleaved=heads.interleaved, dtype=dtype
        )
        return Join("cos_sin", module, (), outputs, shape=shape)
    if spec.positions != "implicit" or spec.mode != "baked":
        raise UnsupportedSpec(
            "output=cos_sin takes --positions explicit, or --baked --positions implicit for whole caches"
        )
    rows = fixed(spec.max_len, "length")
    outputs = tuple(Port(n, (rows, fixed(width)), spec.torch_dtype) for n in ("cos", "sin"))
    module = CosSinCache(angles, spec.max_len, full=output.full, interleaved=heads.interleaved, dtype=dtype)
    return Join("cos_sin", module, (), outputs, shape=shape)


def _error(angles: RotaryAngles, spec: Spec, output: Output, max_position: int) -> Tolerance:
    """Return how far outputs may be from the reference: cos and sin absolutely, rotated heads relative to their length.

    A feature of a rotated pair is off by at most (|a| + |b|) times the error of cos and sin, and two roundings; the
    largest feature of a head is at least half of |a| + |b|.
    """
    angle = angles.tolerance(max_position)
    factor = angles.attention_factor
    # The attention factor scales cos, sin and what they are off by; the grain of a number, to its power of two.
    binade = float(2.0 ** np.ceil(np.log2(factor)))
    if output.kind == "cos_sin":
        return Tolerance(atol=angle.atol * binade)
    return Tolerance(vector=2 * angle.atol * binade / factor + 1.25 * eps(spec.angle_dtype) + angle.vector)


def _graph_error(angles: RotaryAngles, spec: Spec, output: Output, max_position: int) -> Tolerance:
    """Return how far a graph may be from the eager module: no bit, but for the last digits of Sin and Cos."""
    angle = angles.eager_tolerance(max_position)
    if angle.bits:
        return angle
    if output.kind == "cos_sin":
        return Tolerance(atol=angle.atol)
    return Tolerance(vector=2 * angle.atol + 2.5 * eps(spec.angle_dtype) + angle.vector)
