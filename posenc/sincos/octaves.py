"""Cosines and sines of numbers times powers of two, as in radiance fields.

2^k x is exact. With the factor pi it counts quarters of a circle, and whole circles are removed exactly, at any k.
Without it, three parts of pi / 2 remove them (Cody and Waite), up to angles of 2^16. Measured: 9.3e-8.
"""

import math
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from posenc.encoding import SAME_BITS, Tolerance
from posenc.sincos.direct import HOLDS_POSITIONS, direct_tolerance, last_digits, reduced_error
from posenc.sincos.quarters import Quarters
from posenc.sincos.rows import float64_error

HALF_PI = math.pi / 2
MAX_ANGLE = 2**16
"""Up to here the first two parts of pi / 2 keep enough digits that the third makes up for the others."""
HOLDS_ANGLES = (
    "a float holds an angle of many circles, of which half precision keeps a few digits; with pi, circles are whole"
)
ONE_CIRCLE = 7
LARGEST_FLOAT16 = 65504
OVERFLOWS = f"float16 ends at {LARGEST_FLOAT16}, and the last octave has more quarters of a circle"


class Octaves(nn.Module):
    """Cosines and sines of 2^k pi x, or of 2^k x, k = 0..octaves-1: within 3e-7 of float64, the last octave too.

    Args:
        by_number: all octaves of a number lie together; else all numbers of an octave.
    """

    factors: Tensor  # (octaves,): quarters of a unit with pi, else powers of two
    parts: Tensor  # (3,): of pi / 2; with pi the first one is all
    per_unit: Tensor  # (): quarters of a radian
    by_number: Final[bool]
    pi: Final[bool]

    def __init__(self, octaves: int, span: float, *, pi: bool, by_number: bool, dtype: torch.dtype) -> None:
        super().__init__()
        self.pi, self.by_number, self.dtype = pi, by_number, dtype
        largest = 2.0 ** (octaves - 1) * span
        if not pi and largest > MAX_ANGLE:
            raise ValueError(f"2^(features - 1) * span must be at most {MAX_ANGLE} without pi, got {largest:.3g}")
        self.half_safe = HOLDS_ANGLES if not pi else OVERFLOWS if 2.0**octaves * span > LARGEST_FLOAT16 else ""
        factors = 2.0 ** (np.arange(octaves) + (1 if pi else 0))
        parts = (HALF_PI, 0.0, 0.0) if pi else parts_of(HALF_PI, digits(dtype) - math.ceil(math.log2(max(largest, 1))))
        self.quarters = Quarters(dtype)
        for name, values in (("factors", factors), ("parts", parts), ("per_unit", 1 / HALF_PI)):
            self.register_buffer(name, torch.as_tensor(values, dtype=dtype), persistent=False)

    def cos_sin(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines: (..., numbers) -> twice (..., octaves * numbers)."""
        scaled = outer(x, self.factors, self.by_number)  # products with powers of two are exact
        if self.pi:  # in quarters of a circle: the distance to the nearest whole quarter is exact, too
            whole = scaled.round()
            return self.quarters.after(whole, (scaled - whole) * self.parts[0])
        # Cody and Waite: the first two parts of pi / 2 have so few digits that their products are exact
        whole = (scaled * self.per_unit).round()
        small = ((scaled - whole * self.parts[0]) - whole * self.parts[1]) - whole * self.parts[2]
        return self.quarters.after(whole, small)

    def tolerance(self, max_angle: int) -> Tolerance:
        """Return how far they may be from the reference, which takes whole circles off, too, where there is pi."""
        largest = min(max_angle, ONE_CIRCLE) if self.pi else max_angle
        return Tolerance(atol=reduced_error(self.dtype) + float64_error(largest))

    def eager_tolerance(self, max_angle: int) -> Tolerance:
        """Graphs must give the same bits as eager."""
        return SAME_BITS


class DirectOctaves(nn.Module):
    """Cosines and sines of 2^k pi x, or of 2^k x, by Sin and Cos of a product, as in training code."""

    factors: Tensor  # (octaves,)
    by_number: Final[bool]
    half_safe = HOLDS_POSITIONS

    def __init__(self, octaves: int, *, pi: bool, by_number: bool, dtype: torch.dtype) -> None:
        super().__init__()
        self.by_number, self.dtype = by_number, dtype
        factors = 2.0 ** np.arange(octaves) * (math.pi if pi else 1.0)
        self.register_buffer("factors", torch.from_numpy(factors).to(dtype), persistent=False)

    def cos_sin(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines: (..., numbers) -> twice (..., octaves * numbers)."""
        angles = outer(x, self.factors, self.by_number)  # (..., octaves * numbers)
        return angles.cos(), angles.sin()

    def tolerance(self, max_angle: int) -> Tolerance:
        """Return how far they may be from the reference: what float32 does to so large an angle."""
        return direct_tolerance(self.dtype, max_angle)

    def eager_tolerance(self, max_angle: int) -> Tolerance:
        """Return how far a graph's may be from these: the last digits of Sin and Cos."""
        return last_digits(self.dtype)


def outer(x: Tensor, factors: Tensor, by_number: bool) -> Tensor:
    """Return all products: (..., numbers), (octaves,) -> (..., numbers * octaves)."""
    if by_number:
        return (x.unsqueeze(-1) * factors).flatten(-2)  # (..., numbers, octaves)
    return (x.unsqueeze(-2) * factors.unsqueeze(-1)).flatten(-2)  # (..., octaves, numbers)


def digits(dtype: torch.dtype) -> int:
    """Return how many binary digits a number of a dtype has."""
    return 1 - round(math.log2(torch.finfo(dtype).eps))


def parts_of(number: float, bits: int) -> tuple[float, float, float]:
    """Return three numbers whose sum is `number`, the first two of so many binary digits."""
    first = rounded_to(number, bits)
    second = rounded_to(number - first, bits)
    return first, second, number - first - second


def rounded_to(number: float, bits: int) -> float:
    """Return the nearest number of so many binary digits."""
    fraction, exponent = math.frexp(number)
    return math.ldexp(round(fraction * 2**bits), exponent - bits)
