"""Rows along one axis of a grid, at fractions of its length: computed for any length, or stored for all up to one."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from posenc.encoding import SAME_BITS, Probes, Tolerance, eps
from posenc.lookup import check_length, check_width, take
from posenc.ports import Array, Floats
from posenc.sincos.direct import last_digits
from posenc.sincos.rows import arrange, float64_error
from posenc.sincos.series import SeriesSinCos
from posenc.spec import Spec

DIVIDES = "the graph divides places by the size of their grid in float64, which converters leave as it is"
DIVIDES_FLOATS = "the graph divides places by the size of their grid, and a half float has too few digits for an angle"

LARGEST = 2**26
"""Numbers in a table of every place of every size: 256 MiB of float32."""


@dataclass(frozen=True)
class Fraction:
    """A coordinate as a fraction of an axis: scale * (count + shift) / (whole + small), count from 1 on.

    An axis of which nothing counts, as where all is padding, is as one of which one place does: the quotient would be
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


class PlainSinCos(nn.Module):
    """Cosines and sines of angles by Cos and Sin."""

    def forward(self, angles: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines: (...) -> twice (...)."""
        return angles.cos(), angles.sin()


class Fractions(nn.Module):
    """Rows of sines and cosines at fractions of an axis: in float64, or in `dtype`, as training code has it."""

    rate: Tensor  # (pairs,): circles of a whole axis, or radians, as Sin takes them
    shift: Tensor  # buffers, as a graph would hold Python's numbers in float32
    small: Tensor
    width: Final[int]
    interleaved: Final[bool]
    probes = Probes()

    def __init__(self, fraction: Fraction, inv_freq: Floats, spec: Spec, *, interleaved: bool) -> None:
        super().__init__()
        dtype, exact = getattr(torch, spec.angle_dtype), spec.method == "exact"
        self.width = 2 * len(inv_freq)
        self.interleaved = interleaved
        self.end = None
        self.half_safe = DIVIDES if exact else DIVIDES_FLOATS
        self.most = fraction.most
        self.exact = exact
        self.dtype = dtype
        self.within = torch.float64 if exact else dtype
        self.waves = SeriesSinCos(dtype) if exact else PlainSinCos()
        rate = fraction.scale * inv_freq / (2 * math.pi if exact else 1.0)
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
        return self.forward(count, count[:, -1:])

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far rows may be: half an ulp of a sine, or four roundings of the angle and one of its sine."""
        if self.exact:
            return Tolerance(atol=eps(dtype_name(self.dtype)) / 4 + float64_error(math.ceil(self.most)))
        return Tolerance(atol=eps(dtype_name(self.dtype)) * (2 * self.most + 1))

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return how far a graph's rows may be from these: no bit, or the last digits of Sin and Cos."""
        return SAME_BITS if self.exact else last_digits(self.dtype)


class FractionTable(nn.Module):
    """Rows at fractions of an axis, stored for every place of every size up to max_len."""

    rows: Tensor  # (max_len * (max_len + 1), width): counts 0..max_len of a whole of 1, of 2, ...
    one: Tensor
    width: Final[int]
    probes = Probes()
    half_safe = ""

    def __init__(self, fraction: Fraction, inv_freq: Floats, spec: Spec, *, interleaved: bool) -> None:
        super().__init__()
        most, dtype = spec.max_len, getattr(torch, spec.angle_dtype)
        self.width = 2 * len(inv_freq)
        self.end = most
        self.dtype = dtype
        self.most = fraction.most
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
        return self.forward(count, count[:, -1:])

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far rows may be from the reference: half an ulp of a sine."""
        return Tolerance(atol=eps(dtype_name(self.dtype)) / 4 + float64_error(math.ceil(self.most)))

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return how far a graph's rows may be from these: no bit."""
        return SAME_BITS


def check_few(most: int, width: int) -> None:
    """Raise ValueError where a table of every place of every size is larger than anybody means it to be."""
    fits = math.isqrt(LARGEST // width)
    if most * (most + 1) * width > LARGEST:
        raise ValueError(
            f"a table of every place of every size up to {most} takes {most} x {most + 1} x {width} numbers: "
            f"give --max-len {fits - 1} or less, or --dynamic"
        )


def fractions(fraction: Fraction, inv_freq: Floats, spec: Spec, *, interleaved: bool) -> Fractions | FractionTable:
    """Return what computes rows at fractions of an axis, as a spec asks for it."""
    kind = FractionTable if spec.mode == "baked" else Fractions
    return kind(fraction, inv_freq, spec, interleaved=interleaved)


def dtype_name(dtype: torch.dtype) -> str:
    """Return torch's name of a dtype."""
    return str(dtype).removeprefix("torch.")
