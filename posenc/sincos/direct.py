"""Cosines and sines by Sin and Cos, in the graph."""

import math
from typing import Final

import torch
from torch import Tensor, nn

from posenc.encoding import NoTables, Probes, Tables, Tolerance
from posenc.lookup import check_width
from posenc.ports import Floats
from posenc.sincos.rows import arrange, float64_error, largest_angle

FAR = Probes(lengths=(2**16, 2**16 + 1, 2**24))
"""No position is refused, so a plan tries no position far out by itself."""
HOLDS_POSITIONS = (
    "a float holds each position and its angle: float16 has no odd number above 2048, bfloat16 none above 256, and an "
    "angle as large has no digit left for its sine"
)
IN_FLOAT64 = "the graph computes its frequencies, and holds positions, in float64, which converters leave as it is"
DIVIDES_FLOATS = "the graph divides places by the size of their grid, and a half float has too few digits for an angle"
COMPUTED = "Sin and Cos have no bits that all compilers agree on: leave --method trig out"


class DirectSinCos(nn.Module):
    """Rows by Sin and Cos of a float32 product, as training code does: the error grows with the position."""

    inv_freq: Tensor
    phase: Tensor
    ahead: Final[bool]
    width: Final[int]
    interleaved: Final[bool]
    scale: Final[float]
    probes = FAR
    half_safe = HOLDS_POSITIONS
    __constants__ = ("count_dtype",)
    count_dtype = None

    def __init__(
        self,
        inv_freq: Floats,
        width: int,
        *,
        interleaved: bool,
        dtype: torch.dtype,
        scale: float = 1.0,
        phase: Floats | None = None,
    ) -> None:
        super().__init__()
        self.width = width
        self.interleaved = interleaved
        self.scale = scale
        self.end = None
        self.fastest, self.furthest = largest_angle(1, inv_freq), largest_angle(0, inv_freq, phase)
        self.ahead = phase is not None
        self.register_buffer("inv_freq", torch.from_numpy(inv_freq).to(dtype), persistent=False)
        if phase is not None:
            self.register_buffer("phase", torch.from_numpy(phase).to(dtype), persistent=False)

    def forward(self, positions: Tensor, width: int) -> Tensor:
        """Return the rows at int64 positions: (...) -> (..., width)."""
        check_width(width, self.width)
        cos, sin = self.cos_sin(positions)
        return arrange(sin, cos, self.interleaved, self.width)

    def cos_sin(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines: (...) -> twice (..., pairs)."""
        angles = positions.to(self.inv_freq.dtype).unsqueeze(-1) * self.inv_freq  # (..., 1) * (pairs,)
        if self.ahead:
            angles = angles + self.phase
        if self.scale == 1.0:
            return angles.cos(), angles.sin()
        return angles.cos() * self.scale, angles.sin() * self.scale

    def arange(self, length: int, width: int) -> Tensor:
        """Return the rows of positions 0..length-1: (1, length, width)."""
        return self.forward(
            torch.arange(length, dtype=self.count_dtype, device=self.inv_freq.device).unsqueeze(0), width
        )

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far rows may be from the reference: what float32 does to so large an angle."""
        return direct_tolerance(self.inv_freq.dtype, max_position)

    def largest_angle(self, max_position: int) -> float:
        """Return the largest angle, in radians, of positions up to one."""
        return max_position * self.fastest + self.furthest

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return how far a graph's rows may be from these: the last digits of Sin and Cos."""
        return last_digits(self.inv_freq.dtype)

    def tables(self) -> Tables:
        """Raise NoTables: nothing is stored."""
        raise NoTables(COMPUTED)


class SelfAdjustingSinCos(nn.Module):
    """Rows by Sin and Cos that are as wide as x: the frequencies too are computed, in float64, at each call."""

    slope: Tensor
    interleaved: Final[bool]
    scale: Final[float]
    probes = FAR
    half_safe = HOLDS_POSITIONS
    __constants__ = ("count_dtype",)
    count_dtype = None

    def __init__(self, base: float, *, interleaved: bool, dtype: torch.dtype, scale: float = 1.0) -> None:
        super().__init__()
        self.interleaved = interleaved
        self.scale = scale
        self.dtype = dtype
        self.end = None
        slope = torch.tensor(-2.0 * math.log(base), dtype=torch.float64)
        self.register_buffer("slope", slope, persistent=False)

    def forward(self, positions: Tensor, width: int) -> Tensor:
        """Return the rows at int64 positions: (...) -> (..., width)."""
        pairs = torch.arange((width + 1) // 2, dtype=torch.float64, device=positions.device)
        inv_freq = torch.exp(pairs * (self.slope / width)).to(self.dtype)  # base^(-2 i / width)
        angles = positions.to(self.dtype).unsqueeze(-1) * inv_freq
        if self.scale == 1.0:
            return arrange(angles.sin(), angles.cos(), self.interleaved, width)
        return arrange(angles.sin() * self.scale, angles.cos() * self.scale, self.interleaved, width)

    def arange(self, length: int, width: int) -> Tensor:
        """Return the rows of positions 0..length-1: (1, length, width)."""
        return self.forward(torch.arange(length, dtype=self.count_dtype, device=self.slope.device).unsqueeze(0), width)

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far rows may be from the reference: what float32 does to so large an angle."""
        return direct_tolerance(self.dtype, max_position)

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return how far a graph's rows may be from these: the last digits of Sin and Cos."""
        return last_digits(self.dtype)

    def tables(self) -> Tables:
        """Raise NoTables: nothing is stored."""
        raise NoTables(COMPUTED)


class ComputedSinCos(nn.Module):
    """Cosines and sines of frequencies that the graph itself computes in float64, as for dynamic NTK.

    Args:
        reduced: whole circles are taken off in float64, before Sin and Cos in `dtype`; otherwise the product is in
            `dtype`, as in training code.
    """

    two_pi: Tensor  # a buffer, as a graph would hold Python's number in float32
    reduced: Final[bool]
    probes = FAR

    def __init__(self, *, reduced: bool, dtype: torch.dtype) -> None:
        super().__init__()
        self.reduced = reduced
        self.half_safe = IN_FLOAT64 if reduced else HOLDS_POSITIONS
        self.dtype = dtype
        self.end = None
        self.register_buffer("two_pi", torch.tensor(2 * math.pi, dtype=torch.float64), persistent=False)

    def forward(self, positions: Tensor, inv_freq: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines: int64 (...), float64 (pairs,) -> twice (..., pairs)."""
        if self.reduced:
            angles = positions.to(torch.float64).unsqueeze(-1) * inv_freq
            # The angle without whole circles is at most pi.
            angles = (angles - (angles / self.two_pi).round() * self.two_pi).to(self.dtype)
        else:
            angles = positions.to(self.dtype).unsqueeze(-1) * inv_freq.to(self.dtype)
        return angles.cos(), angles.sin()

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far cosines and sines may be from the reference."""
        if not self.reduced:
            return direct_tolerance(self.dtype, max_position)
        return Tolerance(atol=reduced_error(self.dtype) + float64_error(max_position))

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return how far a graph's may be from these: Sin and Cos, and the last digits of a float64 Log and Exp."""
        return Tolerance(atol=last_digits(self.dtype).atol + 2 * float64_error(max_position))


class DirectAngles(nn.Module):
    """Cosines and sines of angles that the graph itself computes, by Cos and Sin in `dtype`, as in training code.

    Attributes:
        unit: radians of the unit that angles are in.
        within: the dtype that angles are computed in.
    """

    unit = 1.0
    half_safe = DIVIDES_FLOATS

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.within = dtype

    def forward(self, angles: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines: (...) -> twice (...)."""
        return angles.cos(), angles.sin()

    def tolerance(self, max_angle: float) -> Tolerance:
        """Return how far they may be from the reference: four roundings of the angle, and the sine's."""
        return Tolerance(atol=torch.finfo(self.within).eps * (2 * max_angle + 1))

    def eager_tolerance(self, max_angle: float) -> Tolerance:
        """Return how far a graph's may be from these: the last digits of Sin and Cos."""
        return last_digits(self.within)


def reduced_error(dtype: torch.dtype) -> float:
    """Return a bound on the error of Sin and Cos up to pi, or of two angle additions: 3e-7 in float32."""
    return 3e-7 * torch.finfo(dtype).eps / 2.0**-23


def direct_tolerance(dtype: torch.dtype, max_position: int) -> Tolerance:
    """Return a bound on the error of the sine of position x frequency in `dtype`: four roundings of the angle."""
    return Tolerance(atol=4 * torch.finfo(dtype).eps * max(max_position, 1))


def last_digits(dtype: torch.dtype) -> Tolerance:
    """Return by how much Sin and Cos of two runtimes may differ at the same angle."""
    return Tolerance(atol=4 * torch.finfo(dtype).eps)
