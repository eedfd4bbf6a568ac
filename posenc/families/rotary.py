"""Rotation of queries and keys: the turning itself, and its forms, by how positions are told.

Which two features of a head are a pair, and turn together:

    halves        a0 a1 a2 b0 b1 b2  (GPT-NeoX, Hugging Face)        interleaved   a0 b0 a1 b1 a2 b2  (GPT-J, LLaMA)
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from posenc.scheme import Form, Port, Tolerance, eps, rounding
from posenc.sincos.angle_addition import angle_parity, angle_tolerance


class Rotate(nn.Module):
    """Turn the first `rotary_dim` features of each head, in pairs; the others pass. An exporter may put one op here.

    head_axis: 1 for (batch, head, ...), -2 for (..., head, dim).
    """

    head_axis: Final[int]
    head_dim: Final[int]
    rotary_dim: Final[int]
    interleaved: Final[bool]

    def __init__(self, *, head_dim: int, rotary_dim: int, interleaved: bool, head_axis: int) -> None:
        super().__init__()
        self.head_dim = head_dim
        self.rotary_dim = rotary_dim
        self.interleaved = interleaved
        self.head_axis = head_axis

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return x turned: cos, sin (1 or batch, seq, rotary_dim / 2), or one more axis for a grid -> as x."""
        if x.shape[-1] != self.head_dim:
            raise ValueError("heads have {} features, this encoding has {}".format(x.shape[-1], self.head_dim))
        cos, sin = cos.unsqueeze(self.head_axis), sin.unsqueeze(self.head_axis)
        if self.rotary_dim == self.head_dim:
            return self.turn(x, cos, sin)
        turning, passing = x.split([self.rotary_dim, self.head_dim - self.rotary_dim], -1)
        return torch.cat([self.turn(turning, cos, sin), passing], -1)

    def turn(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return (a cos - b sin, b cos + a sin) of every pair, computed in what cos is in, in the dtype of x."""
        wide = x.to(cos.dtype)
        if self.interleaved:
            # (..., dim) -> (..., dim / 2, 2)
            a, b = wide.unflatten(-1, [self.rotary_dim // 2, 2]).unbind(-1)
            turned = torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
        else:
            a, b = wide.chunk(2, -1)
            turned = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
        return turned.to(x.dtype)


class RotateImplicit(nn.Module):
    """Queries and keys at positions 0..seq-1, from their shape."""

    seq_axis: Final[int]

    def __init__(self, turns: nn.Module, rotate: nn.Module, seq_axis: int) -> None:
        super().__init__()
        self.turns = turns
        self.rotate = rotate
        self.seq_axis = seq_axis

    def forward(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Return q and k turned, in their own shapes."""
        check_same(q.shape[self.seq_axis], k.shape[self.seq_axis])
        cos_q, sin_q, cos_k, sin_k = self.turns.span(q.shape[self.seq_axis], q.device)  # type: ignore[operator]
        return self.rotate(q, cos_q, sin_q), self.rotate(k, cos_k, sin_k)


class RotateOffset(nn.Module):
    """Queries and keys at positions start..start+seq-1, as when a KV cache holds the first `start` tokens."""

    seq_axis: Final[int]

    def __init__(self, turns: nn.Module, rotate: nn.Module, seq_axis: int) -> None:
        super().__init__()
        self.turns = turns
        self.rotate = rotate
        self.seq_axis = seq_axis

    def forward(self, q: Tensor, k: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """Return q and k turned, in their own shapes; start is int64 (1,)."""
        check_same(q.shape[self.seq_axis], k.shape[self.seq_axis])
        positions = (start + torch.arange(q.shape[self.seq_axis], device=q.device)).unsqueeze(0)
        cos_q, sin_q, cos_k, sin_k = self.turns(positions)
        return self.rotate(q, cos_q, sin_q), self.rotate(k, cos_k, sin_k)


class RotateExplicit(nn.Module):
    """Queries and keys at positions of each token of each sequence, or at several positions a token."""

    seq_axis: Final[int]
    rank: Final[int]

    def __init__(self, turns: nn.Module, rotate: nn.Module, seq_axis: int, *, rank: int) -> None:
        super().__init__()
        self.turns = turns
        self.rotate = rotate
        self.seq_axis = seq_axis
        self.rank = rank

    def forward(self, q: Tensor, k: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return q and k turned, in their own shapes; positions are int64 (batch, seq) or (axes, batch, seq)."""
        check_rank(positions, self.rank)
        check_same(q.shape[self.seq_axis], k.shape[self.seq_axis])
        check_same(q.shape[self.seq_axis], positions.shape[-1])
        cos_q, sin_q, cos_k, sin_k = self.turns(positions)
        return self.rotate(q, cos_q, sin_q), self.rotate(k, cos_k, sin_k)


class RotateGrid(nn.Module):
    """Queries and keys at the places of a grid, from their shape: (batch, head, height, width, dim)."""

    first_axis: Final[int]

    def __init__(self, turns: nn.Module, rotate: nn.Module, first_axis: int) -> None:
        super().__init__()
        self.turns = turns
        self.rotate = rotate
        self.first_axis = first_axis

    def forward(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Return q and k turned, in their own shapes."""
        cos, sin = self.turns.grid([q.shape[self.first_axis], q.shape[self.first_axis + 1]])  # type: ignore[operator]
        return self.rotate(q, cos, sin), self.rotate(k, cos, sin)


class CosSin(nn.Module):
    """Cosines and sines at positions, at half or full width: what a model's own rotary module returns."""

    rank: Final[int]
    full: Final[bool]
    interleaved: Final[bool]

    def __init__(self, turns: nn.Module, *, rank: int, full: bool, interleaved: bool, dtype: torch.dtype) -> None:
        super().__init__()
        self.turns = turns
        self.rank = rank
        self.full = full
        self.interleaved = interleaved
        self.dtype = dtype

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return cos and sin: (batch, seq) or (axes, batch, seq) -> twice (batch, seq, width)."""
        check_rank(positions, self.rank)
        cos, sin, _, _ = self.turns(positions)
        return (
            widen(cos, self.full, self.interleaved).to(self.dtype),
            widen(sin, self.full, self.interleaved).to(self.dtype),
        )


class WholeCosSin(nn.Module):
    """The whole cosine and sine caches, with no input: twice (length, width)."""

    length: Final[int]
    full: Final[bool]
    interleaved: Final[bool]

    def __init__(self, turns: nn.Module, *, length: int, full: bool, interleaved: bool, dtype: torch.dtype) -> None:
        super().__init__()
        self.turns = turns
        self.length = length
        self.full = full
        self.interleaved = interleaved
        self.dtype = dtype

    def forward(self) -> tuple[Tensor, Tensor]:
        """Return cos and sin of positions 0..length-1: twice (length, width)."""
        cos, sin, _, _ = self.turns.span(self.length, torch.device("cpu"))  # type: ignore[operator]
        return (
            widen(cos[0], self.full, self.interleaved).to(self.dtype),
            widen(sin[0], self.full, self.interleaved).to(self.dtype),
        )


def widen(half: Tensor, full: bool, interleaved: bool) -> Tensor:
    """Return a column a pair, or a column a feature: (..., pairs) -> (..., pairs) or (..., 2 pairs)."""
    if not full:
        return half
    return half.repeat_interleave(2, -1) if interleaved else torch.cat([half, half], -1)


def check_same(seq: int, other: int) -> None:
    """Raise ValueError where what shall have the length of q has not: a sequence of one token would be repeated."""
    if seq != other:
        raise ValueError("q has {} tokens, k or positions {}: expected as many".format(seq, other))


def check_rank(positions: Tensor, rank: int) -> None:
    """Raise ValueError where positions have too few or too many axes."""
    if positions.dim() != rank:
        raise ValueError("positions have {} axes, expected {}".format(positions.dim(), rank))


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

    def axes(self, head: str, *places: str) -> tuple[str | int, ...]:
        """The axes of a port whose tokens lie along `places`."""
        inner = (head, *places) if self.tensor_layout == "bhsd" else (*places, head)
        return ("batch", *inner, self.head_dim)

    def rotate(self) -> Rotate:
        """The module that turns them."""
        axis = 1 if self.tensor_layout == "bhsd" else -2
        return Rotate(head_dim=self.head_dim, rotary_dim=self.rotary_dim, interleaved=self.interleaved, head_axis=axis)


Wrapped = tuple[nn.Module, tuple[Port, ...], tuple[Port, ...]]


def rotating(turns: nn.Module, form: Form, heads: Heads, *, limit: int | None, axes: int = 1) -> Wrapped:
    """Wrap a source of turns so that it rotates q and k, with the ports of its form: module, inputs, outputs.

    limit: positions from here on are refused; axes: positions a token.
    """
    q, k = (Port(n, heads.axes(head, "seq"), form.torch_dtype) for n, head in (("q", "head"), ("k", "head_kv")))
    start = Port("start", (1,), "int64", below=limit)
    positions = positions_port(axes, limit)
    told: dict[str, tuple[Port, ...]] = {"implicit": (), "offset": (start,), "explicit": (positions,)}
    explicit = partial(RotateExplicit, rank=len(positions.axes))
    kind: Any = {"implicit": RotateImplicit, "offset": RotateOffset, "explicit": explicit}[str(form.positions)]
    outputs = (replace(q, name="q_rotated"), replace(k, name="k_rotated"))
    return kind(turns, heads.rotate(), q.axes.index("seq")), (q, k, *told[str(form.positions)]), outputs


def cosines(turns: nn.Module, form: Form, heads: Heads, *, full: bool, limit: int | None, axes: int = 1) -> Wrapped:
    """Wrap a source of turns so that it returns cos and sin at positions, or, baked and implicit, all of them."""
    width = heads.rotary_dim if full else heads.rotary_dim // 2
    how: dict[str, Any] = {
        "full": full, "interleaved": heads.interleaved, "dtype": getattr(torch, form.torch_dtype)
    }  # fmt: skip
    if form.positions == "explicit":
        positions = positions_port(axes, limit)
        outputs = tuple(Port(n, ("batch", "seq", width), form.torch_dtype) for n in ("cos", "sin"))
        return CosSin(turns, rank=len(positions.axes), **how), (positions,), outputs
    if form.positions != "implicit" or form.mode != "baked":
        raise ValueError("output=cos_sin takes --positions explicit, or --baked --positions implicit for whole caches")
    outputs = tuple(Port(n, (form.max_len, width), form.torch_dtype) for n in ("cos", "sin"))
    return WholeCosSin(turns, length=form.max_len, **how), (), outputs


def positions_port(axes: int, limit: int | None) -> Port:
    """Return the port of positions: (batch, seq), or (axes, batch, seq)."""
    return Port("positions", ("batch", "seq") if axes == 1 else (axes, "batch", "seq"), "int64", below=limit)


def rotary_error(method: str, form: Form, output: str, factor: float, max_position: int) -> Tolerance:
    """Return how far outputs may be from the truth: cos and sin absolutely, rotated heads relative to their length.

    A feature of a rotated pair is off by at most (|a| + |b|) times the error of cos and sin, and two roundings; the
    largest feature of a head is at least half of |a| + |b|.
    """
    angle = angle_tolerance(method, form.angle_dtype, rounding(form, add=False), max_position)
    # The attention factor scales cos, sin and what they are off by; the grain of a number, to its power of two.
    binade = float(2.0 ** np.ceil(np.log2(factor)))
    if output == "cos_sin":
        return replace(angle, atol=angle.atol * binade)
    return replace(angle, atol=0.0, vector=2 * angle.atol * binade / factor + 1.25 * eps(form.angle_dtype))


def rotary_parity(method: str, form: Form, output: str, max_position: int) -> Tolerance:
    """Return how far a graph may be from the eager module: no bit, but for the last digits of Sin and Cos."""
    parity = angle_parity(method, form.angle_dtype, rounding(form, add=False), max_position)
    if parity.bits or output == "cos_sin":
        return parity
    return replace(parity, atol=0.0, vector=2 * parity.atol + 2.5 * eps(form.angle_dtype))
