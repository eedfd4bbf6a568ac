"""Rows along one axis of a grid, at fractions of its length: computed for any length, or stored for all up to one.

Baked, every place of every size is a row, max_len^2 / 2 of them in use: `max_len` is 256 by default.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from posenc.encoding import SAME_BITS, Probes, Tolerance
from posenc.lookup import check_length, check_width, take
from posenc.ports import Array, Floats
from posenc.sincos import AngleSinCos, sincos_of_angles
from posenc.sincos.rows import arrange, rounded_once
from posenc.spec import Spec
from posenc.stored import StoredRows, circular, laid_out, rounded

LARGEST = 2**26
"""Numbers in a table of every place of every size: 256 MiB of float32."""


@dataclass(frozen=True)
class Fraction:
    """A coordinate as a fraction of an axis: scale * (count + shift) / (whole + small), count from 1 on.

    Where nothing of an axis counts, since all of it is padding, one place is taken to count: the quotient would else be
    the shift a million times over.
    """

    scale: float
    shift: float = 0.0
    small: float = 0.0

    @property
    def most(self) -> float:
        """What no angle is beyond, where the first frequency is 1."""
        return abs(self.scale) * (1 + abs(self.shift))

    def of(self, count: Array, whole: Array) -> Floats:
        """Return coordinates in float64."""
        return np.asarray(self.scale * (count + self.shift) / (np.maximum(whole, 1) + self.small))


class Fractions(nn.Module):
    """Rows of sines and cosines at fractions of an axis, which are computed in what `waves` computes angles in."""

    rate: Tensor  # (pairs,): of a whole axis, in the unit of `waves`
    shift: Tensor  # buffers, as a graph would hold Python's numbers in float32
    small: Tensor
    width: Final[int]
    interleaved: Final[bool]
    probes = Probes()

    def __init__(self, fraction: Fraction, inv_freq: Floats, waves: AngleSinCos, *, interleaved: bool) -> None:
        super().__init__()
        self.width = 2 * len(inv_freq)
        self.interleaved = interleaved
        self.end = None
        self.half_safe = waves.half_safe
        self.most = fraction.most
        self.within = waves.within
        self.waves = waves
        rate = fraction.scale * inv_freq / waves.unit
        for name, number in (("rate", rate), ("shift", fraction.shift), ("small", fraction.small)):
            self.register_buffer(name, torch.tensor(number, dtype=self.within), persistent=False)

    def forward(self, count: Tensor, whole: Tensor) -> Tensor:
        """Return the rows of places: int64 (...), the same with an axis of 1 -> (..., width)."""
        part = (count.to(self.within) + self.shift) / (whole.clamp(min=1).to(self.within) + self.small)
        cos, sin = self.waves(part.unsqueeze(-1) * self.rate)
        return arrange(sin, cos, self.interleaved, self.width)

    def arange(self, length: int, width: int) -> Tensor:
        """Return the rows of all places: (1, length, width)."""
        check_width(width, self.width)
        count = torch.arange(1, length + 1, device=self.rate.device).unsqueeze(0)
        return self.forward(count, torch.full_like(count[:, :1], length))  # of no places, no whole

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far rows may be from the reference: as far as cosines and sines of the largest angle."""
        return self.waves.tolerance(self.most)

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return how far a graph's rows may be from these: as far as cosines and sines."""
        return self.waves.eager_tolerance(self.most)


class FractionTable(nn.Module):
    """Rows at fractions of an axis, stored for every place of every size up to max_len."""

    rows: Tensor  # (max_len * (max_len + 1), width): counts 0..max_len of a whole of 1, of 2, ...
    one: Tensor
    width: Final[int]
    half_safe = ""

    def __init__(self, fraction: Fraction, inv_freq: Floats, spec: Spec, *, interleaved: bool) -> None:
        super().__init__()
        most, dtype = spec.max_len, getattr(torch, spec.angle_dtype)
        self.width = 2 * len(inv_freq)
        self.end = most
        self.probes = Probes(masks=tuple(range(1, most + 1)))
        self.dtype = dtype
        self.most = fraction.most
        self.fraction, self.inv_freq, self.interleaved = fraction, inv_freq, interleaved
        check_few(most, self.width)
        rows = torch.empty(most, most + 1, self.width, dtype=dtype)
        for whole in range(1, most + 1):
            angles = torch.from_numpy(fraction.of(np.arange(most + 1)[:, None], np.array(whole)) * inv_freq)
            rows[whole - 1] = arrange(angles.sin(), angles.cos(), interleaved, self.width)
        self.register_buffer("rows", rows.flatten(0, 1), persistent=False)
        self.register_buffer("one", torch.ones(1, dtype=torch.int64), persistent=False)

    def forward(self, count: Tensor, whole: Tensor) -> Tensor:
        """Return the rows of places: int64 (...), the same with an axis of 1 -> (..., width)."""
        index = (whole.clamp(min=1) - 1) * (self.end + 1) + count
        return take(self.rows, index, self.end * (self.end + 1))

    def arange(self, length: int, width: int) -> Tensor:
        """Return the rows of all places: (1, length, width)."""
        check_width(width, self.width)
        check_length(length, self.end)
        count = torch.arange(1, length + 1, device=self.one.device).unsqueeze(0)
        return self.forward(count, torch.full_like(count[:, :1], length))  # of no places, no whole

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far rows may be from the reference: half an ulp of a sine."""
        return rounded_once(self.dtype, math.ceil(self.most))

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return how far a graph's rows may be from these: no bit."""
        return SAME_BITS

    def stored_rows(self) -> Iterator[StoredRows]:
        """Yield the rows of every place of a size, one size after the other."""
        scale, shift, small = self.fraction.scale, self.fraction.shift, self.fraction.small
        for whole in range(1, self.end + 1):
            places = scale * (np.arange(self.end + 1) + shift) / (whole + small)
            largest = float(np.abs(places).max()) * float(self.inv_freq.max())
            rows = laid_out(*circular(places, self.inv_freq), self.interleaved, self.width)
            yield StoredRows("rows", rows, rounded(largest), (whole - 1) * (self.end + 1))


def check_few(most: int, width: int) -> None:
    """Raise ValueError where a table of every place of every size is larger than anybody wants."""
    fits = math.isqrt(LARGEST // width)
    if most * (most + 1) * width > LARGEST:
        raise ValueError(
            f"a table of every place of every size up to {most} takes {most} x {most + 1} x {width} numbers: "
            f"give --max-len {fits - 1} or less, or --dynamic"
        )


def fractions(fraction: Fraction, inv_freq: Floats, spec: Spec, *, interleaved: bool) -> Fractions | FractionTable:
    """Return what computes rows at fractions of an axis, as a spec asks for it."""
    if spec.mode == "baked":
        return FractionTable(fraction, inv_freq, spec, interleaved=interleaved)
    return Fractions(fraction, inv_freq, sincos_of_angles(spec), interleaved=interleaved)
