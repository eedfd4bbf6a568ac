"""Cosines and sines of 2 pi times a product with a matrix, as in random Fourier features.

x and the matrix, in quarters of a circle, are split into two parts each, so that the product of the large parts is
exact in float32, whatever the order of its sum. The rest is 2^-10 of it, and so are its roundings. Measured for normal
matrices: 1.1e-7 with a standard deviation of up to 10, 1.4e-7 with 100, 1e-6 with 1000; float32 products are off by
3e-6, 3e-4 and 3e-3. The declared bound adds all roundings at their worst: 3e-7 up to 16, and it grows with the matrix
from there. Bands up to a highest frequency are a matrix in which each number has columns of its own: 1.1e-7 for bands
up to 350, where timm's are off by 2.8e-6. `2x - 1` becomes part of the matrix and of a phase, since float32 rounds it.
"""

import math
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from posenc.encoding import SAME_BITS, Tolerance
from posenc.ports import Floats
from posenc.sincos.direct import HOLDS_POSITIONS, last_digits, reduced_error
from posenc.sincos.octaves import HALF_PI, digits
from posenc.sincos.quarters import Quarters
from posenc.sincos.rows import float64_error

HOLDS_CIRCLES = "a float holds an angle in circles: of the 11 binary digits of float16, many are before the point"
OF_QUARTERS = 1.4e-7
"""The error of an angle of at most half a quarter, and of its sine, in float32.

The factor of pi / 2 is off by 2^-26, 2.4e-8 of the angle; pi / 2 itself by 2.2e-8; the product by 3e-8; the last sum of
the polynomial by 3e-8, and all sums before it by a quarter of that; terms that it lacks are 2e-9.
"""


class Projection(nn.Module):
    """Cosines and sines of 2 pi (x @ matrix + phase), with whole circles taken off: most often within 3e-7 of float64.

    In quarters of a circle, with w = 4 matrix: x = x1 + x2 and w = w1 + w2. x1 and w1 have so few digits that x1 @ w1
    is exact in float32, whatever the order of its sum, and so is its distance to the nearest whole quarter. The others,
    x1 @ w2 + x2 @ w, are 2^-10 of that, and so are their roundings. Where the matrix has entries of some hundreds, that
    is more than 3e-7 again: the tolerance says how much. Beyond `span` x1 has more digits, and products are rounded.
    """

    coarse: Tensor  # (numbers, pairs): w1
    fine: Tensor  # (numbers, pairs): w2
    whole: Tensor  # (numbers, pairs): w
    start: Tensor  # (pairs,): the part of the phase that is exact
    rest: Tensor  # (pairs,): the rest of the phase
    half_pi: Tensor
    numbers: Final[int]
    logs: Final[bool]
    half_safe = HOLDS_CIRCLES

    def __init__(self, matrix: Floats, phase: Floats, span: float, *, logs: bool, dtype: torch.dtype) -> None:
        super().__init__()
        self.numbers, self.logs, self.dtype, self.span = matrix.shape[0], logs, dtype, span
        bits = (digits(dtype) - math.ceil(math.log2(self.numbers + 1))) // 2
        self.grain = 2.0 ** (math.ceil(math.log2(span)) - bits)
        w, start = 4 * matrix, 4 * (phase - np.rint(phase))
        step = 2.0 ** (np.ceil(np.log2(np.maximum(np.abs(w).max(0), 2.0**-bits))) - bits)  # of each column
        coarse, exact = np.rint(w / step) * step, np.rint(start / (self.grain * step)) * (self.grain * step)
        self.quarters = Quarters(dtype)
        buffers = {"coarse": coarse, "fine": w - coarse, "whole": w, "start": exact, "rest": start - exact}
        for name, values in {**buffers, "half_pi": np.asarray(HALF_PI)}.items():
            self.register_buffer(name, torch.from_numpy(values).to(dtype), persistent=False)
        self.left = float((span * np.abs(w - coarse) + self.grain * np.abs(w) / 2).sum(0).max())
        self.of_logs = of_logs(matrix, span, dtype) if logs else 0.0

    def cos_sin(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines: (..., numbers) -> twice (..., pairs)."""
        if self.logs:
            x = x.log()
        large = (x / self.grain).round() * self.grain  # x1
        small = x - large  # x2
        exact, remainder = self.start, self.rest
        for i in range(self.numbers):  # runtimes may sum a product of matrices in any order; here all use this one
            x1, x2 = large[..., i : i + 1], small[..., i : i + 1]  # (..., 1)
            exact = exact + x1 * self.coarse[i]
            remainder = remainder + (x1 * self.fine[i] + x2 * self.whole[i])
        quarters = (exact + remainder).round()
        return self.quarters.after(quarters, ((exact - quarters) + remainder) * self.half_pi)

    def tolerance(self, max_angle: int) -> Tolerance:
        """Return how far they may be from the reference: each small term is rounded, and each sum."""
        roundings = torch.finfo(self.dtype).eps / 2 * (2 * self.numbers + 4)
        smallest = reduced_error(self.dtype)
        bound = max(smallest, OF_QUARTERS / 3e-7 * smallest + HALF_PI * roundings * self.left)
        return Tolerance(atol=bound + self.of_logs + float64_error(max_angle))

    def eager_tolerance(self, max_angle: int) -> Tolerance:
        """Graphs must give the same bits as eager, but for the last digits of logarithms."""
        return Tolerance(atol=self.tolerance(max_angle).atol + self.of_logs) if self.logs else SAME_BITS


class DirectProjection(nn.Module):
    """Cosines and sines of 2 pi (x @ matrix) by Sin and Cos, as in training code."""

    matrix: Tensor  # (numbers, pairs), in radians: ONNX Runtime holds a factor of a MatMul in float32
    logs: Final[bool]
    centered: Final[bool]
    half_safe = HOLDS_POSITIONS

    def __init__(self, matrix: Floats, span: float, *, logs: bool, centered: bool, dtype: torch.dtype) -> None:
        super().__init__()
        self.logs, self.centered, self.dtype, self.numbers = logs, centered, dtype, len(matrix)
        self.register_buffer("matrix", torch.from_numpy(2 * math.pi * matrix).to(dtype), persistent=False)
        self.of_logs = of_logs(matrix, span, dtype) if logs else 0.0

    def cos_sin(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines: (..., numbers) -> twice (..., pairs)."""
        if self.logs:
            x = x.log()
        if self.centered:
            x = 2 * x - 1
        angles = x @ self.matrix  # (..., numbers) @ (numbers, pairs)
        return angles.cos(), angles.sin()

    def tolerance(self, max_angle: int) -> Tolerance:
        """Return how far they may be from the reference: each product and sum is rounded, and so is the matrix."""
        return Tolerance(atol=(self.numbers + 4) * torch.finfo(self.dtype).eps * max(max_angle, 1) + self.of_logs)

    def eager_tolerance(self, max_angle: int) -> Tolerance:
        """Return how far a graph's may be from these: products of matrices are summed in any order."""
        return Tolerance(atol=self.tolerance(max_angle).atol + last_digits(self.dtype).atol + self.of_logs)


def of_logs(matrix: Floats, span: float, dtype: torch.dtype) -> float:
    """Return by how much an angle changes with two last digits of a logarithm of at most `span`."""
    return float(2 * math.pi * np.abs(matrix).sum(0).max() * 2 * span * torch.finfo(dtype).eps)
