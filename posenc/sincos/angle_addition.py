"""Sines and cosines of position x frequency: three lowerings of one quantity.

`Table` stores the rows, `AngleAddition` composes them from three small tables, `Trig` computes them with Sin and Cos.
Each is called as `lowering(positions, width) -> rows` and has `lowering.span(length, width)`, the rows of 0..length-1
with a batch axis, and `lowering.pairs(positions)`, the sines and the cosines apart. Rows hold one sine and one cosine
per frequency, times `scale`, in one of two layouts:

    interleaved   s0 c0 s1 c1 s2 c2        halves   s0 s1 s2 c0 c1 c2
"""

import math
from dataclasses import replace
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from posenc.lookup import check_length, check_width, inside, leading, take
from posenc.scheme import Form, Tolerance, eps

LOW, MID, HIGH = 64, 512, 512
"""Rows of the digit tables. A small lowest digit wastes little of the last block of a span."""
LIMIT = LOW * MID * HIGH
"""Angle addition reaches every position below this: 2^24 = 16,777,216."""
CHUNK = 4096
"""Rows of a table that are computed in float64 at a time."""


def inverse_frequencies(d_model: int, base: float) -> NDArray[np.float64]:
    """Return base^(-2i / d_model) for every pair of columns, an odd last column counting as one: (ceil(d_model / 2),).

    Source: Vaswani et al., "Attention Is All You Need", section 3.5, arXiv:1706.03762.
    """
    return np.asarray(base ** (-np.arange(0, d_model, 2, dtype=np.float64) / d_model))


def arrange(sin: Tensor, cos: Tensor, interleaved: bool, width: int) -> Tensor:
    """Lay sines and cosines out as columns: twice (..., pairs) -> (..., width); an odd width drops the last cosine."""
    if interleaved:
        return torch.stack([sin, cos], -1).flatten(-2)[..., :width]
    return torch.cat([sin, cos[..., : width // 2]], -1)


def waves(positions: NDArray[np.int64], inv_freq: NDArray[np.float64], scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """Return float64 sines and cosines of positions x frequencies, times `scale`, each (positions, pairs)."""
    angles = positions[:, None] * inv_freq
    return torch.from_numpy(scale * np.sin(angles)), torch.from_numpy(scale * np.cos(angles))


class Table(nn.Module):
    """Rows computed in float64, rounded once, stored: right to half an ulp, for `max_len` positions."""

    rows: Tensor
    width: Final[int]
    interleaved: Final[bool]

    def __init__(
        self,
        inv_freq: NDArray[np.float64],
        width: int,
        *,
        interleaved: bool,
        max_len: int,
        dtype: torch.dtype,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        self.width = width
        self.interleaved = interleaved
        rows = torch.empty(max_len, width, dtype=dtype)
        for start in range(0, max_len, CHUNK):
            stop = min(start + CHUNK, max_len)
            sin, cos = waves(np.arange(start, stop), inv_freq, scale)
            rows[start:stop] = arrange(sin, cos, interleaved, width)
        self.register_buffer("rows", rows, persistent=False)

    def forward(self, positions: Tensor, width: int) -> Tensor:
        """Return the rows at int64 positions: (...) -> (..., width)."""
        check_width(width, self.width)
        return take(self.rows, inside(positions, self.rows.shape[0]), self.rows.shape[0])

    def pairs(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return sines and cosines: (...) -> twice (..., pairs)."""
        assert not self.interleaved
        sin, cos = self.forward(positions, self.width).chunk(2, -1)
        return sin, cos

    def span(self, length: int, width: int) -> Tensor:
        """Return the rows of positions 0..length-1: (1, length, width)."""
        check_width(width, self.width)
        return leading(self.rows, length)


class AngleAddition(nn.Module):
    """Rows composed from one table per digit of the position: within 3e-7 of the truth at all of 2^24 positions.

    With p = 32768 h + 64 m + l and its parts' sines and cosines known, the angle sum identities give those of p:

        sin(a + b) = sin(a) cos(b) + cos(a) sin(b)        cos(a + b) = cos(a) cos(b) - sin(a) sin(b)

    Products and sums are exactly defined by IEEE 754, so eager PyTorch, TorchScript and ONNX Runtime give the same bits
    as long as nothing contracts them to fused multiply-adds. A span costs one such step over the whole output: the rows
    at its block starts, few, times the table of the lowest digit. A position has the same bits however it is told.

    splits: cut a span to its length by Split, or else by Slice: a program of torch.export that splits, and enforces
    what it assumed while tracing, would refuse lengths at which the rest is empty.

    Source: the identity is why the paper chose sinusoids, section 3.5 of arXiv:1706.03762.
    """

    low_sin: Tensor  # (64, pairs): sines of 0, 1, ..., 63
    low_cos: Tensor
    mid_sin: Tensor  # (512, pairs): of 0, 64, ..., 32704
    mid_cos: Tensor
    high_sin: Tensor  # (512, pairs): of 0, 32768, ...
    high_cos: Tensor
    row_sin: Tensor  # (64, width): the sine of the lowest digit that each output column is combined with
    row_cos: Tensor
    block: Final[int] = LOW
    radix: Final[int] = MID
    limit: Final[int] = LIMIT
    width: Final[int]
    interleaved: Final[bool]
    splits: bool

    def __init__(
        self,
        inv_freq: NDArray[np.float64],
        width: int,
        *,
        interleaved: bool,
        dtype: torch.dtype,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        self.width = width
        self.interleaved = interleaved
        self.splits = True
        for name, rows, step in (("low", LOW, 1), ("mid", MID, LOW), ("high", HIGH, LOW * MID)):
            # Every row is a sum of products with one factor from the lowest digit: scaling those scales all.
            sin, cos = waves(step * np.arange(rows), inv_freq, scale if name == "low" else 1.0)
            self.register_buffer(f"{name}_sin", sin.to(dtype), persistent=False)
            self.register_buffer(f"{name}_cos", cos.to(dtype), persistent=False)
        for name, digit in (("row_sin", self.low_sin), ("row_cos", self.low_cos)):
            self.register_buffer(name, arrange(digit, digit, interleaved, width).contiguous(), persistent=False)

    def forward(self, positions: Tensor, width: int) -> Tensor:
        """Return the rows at int64 positions: (...) -> (..., width)."""
        check_width(width, self.width)
        sin, cos = self.pairs(positions)
        return arrange(sin, cos, self.interleaved, self.width)

    def pairs(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return sines and cosines: (...) -> twice (..., pairs)."""
        blocks = torch.div(positions, self.block, rounding_mode="floor")
        a_sin, a_cos = self.block_starts(inside(blocks, self.limit))
        digit = positions.remainder(self.block)
        b_sin, b_cos = take(self.low_sin, digit, self.limit), take(self.low_cos, digit, self.limit)
        return a_sin * b_cos + a_cos * b_sin, a_cos * b_cos - a_sin * b_sin

    def span(self, length: int, width: int) -> Tensor:
        """Return the rows of positions 0..length-1: (1, length, width)."""
        check_width(width, self.width)
        check_length(length, self.limit)
        blocks = (length + (self.block - 1)) // self.block
        sin, cos = self.block_starts(torch.arange(at_least_two(blocks), device=self.low_sin.device))
        # With a block's (s, c) laid out as rows, (s c) row_cos + (c -s) row_sin is (sin(a + b), cos(a + b)).
        ahead = arrange(sin, cos, self.interleaved, self.width).unsqueeze(1)  # (blocks, 1, width)
        turned = arrange(cos, -sin, self.interleaved, self.width).unsqueeze(1)
        rows = (ahead * self.row_cos + turned * self.row_sin).flatten(0, 1)  # (blocks * 64, width)
        if not self.splits:
            return rows[:length].unsqueeze(0)
        # ONNX Runtime's Split copies faster than its Slice, and refuses a length beyond the rows.
        kept: Tensor = rows.split([length, rows.shape[0] - length])[0]
        return kept.unsqueeze(0)

    def block_starts(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return sines and cosines of the positions 64 * index: (...) -> twice (..., pairs)."""
        # Exported, this division goes through float32: exact below 2^24, and from there on never below 512, which the
        # look-up refuses.
        high = torch.div(index, self.radix, rounding_mode="floor")
        mid = index.remainder(self.radix)
        a_sin, a_cos = take(self.high_sin, high, self.limit), take(self.high_cos, high, self.limit)
        b_sin, b_cos = take(self.mid_sin, mid, self.limit), take(self.mid_cos, mid, self.limit)
        return a_sin * b_cos + a_cos * b_sin, a_cos * b_cos - a_sin * b_sin


def at_least_two(blocks: int) -> int:
    """Return the number of blocks, two at least: a tracer that meets a single one makes the graph hold for no more."""
    if torch.jit.is_scripting():  # type: ignore[attr-defined]
        return max(blocks, 2)
    least: int = torch.sym_max(blocks, 2)
    return least


class Trig(nn.Module):
    """Rows by Sin and Cos of a float32 product, as training code does: the error grows with the position."""

    inv_freq: Tensor
    width: Final[int]
    interleaved: Final[bool]
    scale: Final[float]

    def __init__(
        self,
        inv_freq: NDArray[np.float64],
        width: int,
        *,
        interleaved: bool,
        dtype: torch.dtype,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        self.width = width
        self.interleaved = interleaved
        self.scale = scale
        self.register_buffer("inv_freq", torch.from_numpy(inv_freq).to(dtype), persistent=False)

    def forward(self, positions: Tensor, width: int) -> Tensor:
        """Return the rows at int64 positions: (...) -> (..., width)."""
        check_width(width, self.width)
        sin, cos = self.pairs(positions)
        return arrange(sin, cos, self.interleaved, self.width)

    def pairs(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return sines and cosines: (...) -> twice (..., pairs)."""
        angles = positions.to(self.inv_freq.dtype).unsqueeze(-1) * self.inv_freq
        if self.scale == 1.0:
            return angles.sin(), angles.cos()
        return angles.sin() * self.scale, angles.cos() * self.scale

    def span(self, length: int, width: int) -> Tensor:
        """Return the rows of positions 0..length-1: (1, length, width)."""
        return self.forward(torch.arange(length, device=self.inv_freq.device).unsqueeze(0), width)


class SelfAdjustingTrig(nn.Module):
    """Rows by Sin and Cos for whatever width is asked: the frequencies too are computed, in float64, at each call."""

    slope: Tensor
    interleaved: Final[bool]

    def __init__(self, base: float, *, interleaved: bool, dtype: torch.dtype) -> None:
        super().__init__()
        self.interleaved = interleaved
        self.dtype = dtype
        slope = torch.tensor(-2.0 * math.log(base), dtype=torch.float64)
        self.register_buffer("slope", slope, persistent=False)

    def forward(self, positions: Tensor, width: int) -> Tensor:
        """Return the rows at int64 positions: (...) -> (..., width)."""
        pairs = torch.arange((width + 1) // 2, dtype=torch.float64, device=positions.device)
        inv_freq = torch.exp(pairs * (self.slope / width)).to(self.dtype)
        angles = positions.to(self.dtype).unsqueeze(-1) * inv_freq
        return arrange(angles.sin(), angles.cos(), self.interleaved, width)

    def span(self, length: int, width: int) -> Tensor:
        """Return the rows of positions 0..length-1: (1, length, width)."""
        return self.forward(torch.arange(length, device=self.slope.device).unsqueeze(0), width)


def lowering(
    method: str, inv_freq: NDArray[np.float64], *, dtype: torch.dtype, max_len: int, scale: float = 1.0, **shape: Any
) -> nn.Module:
    """Return the module that computes rows by a method, "table", "exact" or "trig", in halves unless told otherwise."""
    shape = {"width": 2 * len(inv_freq), "interleaved": False, **shape}
    if method == "table":
        return Table(inv_freq, max_len=max_len, dtype=dtype, scale=scale, **shape)
    kind = AngleAddition if method == "exact" else Trig
    return kind(inv_freq, dtype=dtype, scale=scale, **shape)


def limit_of(form: Form) -> int | None:
    """Return the position from which on a form's lowering refuses; None where it never does."""
    return {"table": form.max_len, "exact": LIMIT, "trig": None}[form.lowering]


def trials_of(form: Form) -> dict[str, tuple[int, ...]]:
    """Return what must be tried of a form's lowering, as fields of an Encoding: every digit's row, or far positions."""
    if form.lowering == "exact":
        digits = ((i * LOW * MID) + LOW * (37 * i % MID) + i % LOW for i in range(HIGH))  # 37 and 512 have no divisor
        return {"scattered": tuple(digits)}
    return {"ends": (2**16, 2**16 + 1, LIMIT)} if form.lowering == "trig" else {}


def angle_tolerance(method: str, angle_dtype: str, rounding: Tolerance, max_position: int) -> Tolerance:
    """Return how far an output made of rows may be from the truth up to a position: method "table", "exact", "trig".

    Float64, in which tables are made and the truth is computed, is itself off by 2^-52 of the angle.
    """
    float64 = 4 * eps("float64") * max_position
    if method == "table":
        return replace(rounding, atol=eps(angle_dtype) / 4 + float64)
    if method == "exact":
        return replace(rounding, atol=3e-7 * eps(angle_dtype) / eps("float32") + float64)
    return replace(rounding, atol=4 * eps(angle_dtype) * max(max_position, 1))


def angle_parity(method: str, angle_dtype: str, rounding: Tolerance, max_position: int) -> Tolerance:
    """Return how far a graph's rows may be from the eager ones: no bit, but for the last digits of Sin and Cos.

    With method "computed", frequencies too differ, in the last digits of a float64 Log and Exp.
    """
    if method in ("trig", "computed"):
        frequencies = 8 * eps("float64") * max_position if method == "computed" else 0.0
        return Tolerance(atol=4 * eps(angle_dtype) + frequencies, rtol=2 * rounding.rtol, ulps=2 * rounding.ulps)
    return Tolerance(bits=True)
