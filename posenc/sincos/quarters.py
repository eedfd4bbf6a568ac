"""Cosines and sines of whole quarters of a circle plus a small angle, without Sin and Cos.

Polynomials are products and sums, which IEEE 754 defines to the last bit: eager PyTorch, TorchScript and ONNX Runtime
give the same bits, as they do for angle addition.

Numbers with fractions (steps, coordinates) have no rows in a table. Each is split into a part that is exact and a small
angle, whose cosine and sine are these polynomials: within 3e-7 of float64. Where the output is in half precision,
numbers come in as float32, since 11 binary digits do not hold fractions of steps or coordinates.
"""

import math
from typing import Final

import torch
from torch import Tensor, nn

HALF_A_QUARTER = math.pi / 4
"""Up to here the polynomials hold."""
SINE = tuple(-1.0 / (2 * i * (2 * i + 1)) for i in range(8, 0, -1))
"""Coefficients of phi^17, phi^15, ..., phi^3, each divided by the next lower; without the first four 2e-9 is lost."""
COSINE = tuple(-1.0 / (2 * i * (2 * i - 1)) for i in range(9, 0, -1))
"""The same for phi^18, phi^16, ..., phi^2; without the first four 2e-10 is lost."""
FEWER = 4
"""Powers that float32 does not need."""


class Quarters(nn.Module):
    """Cosines and sines of whole quarters and small angles, by Taylor's polynomials.

    The result is off by the rounding of the last sum, 2^-25 below 1, and by a quarter of that for all before it.
    """

    sine: Tensor  # (powers,): buffers, as a graph would hold Python's numbers in float32
    cosine: Tensor
    odd: Final[int]
    even: Final[int]

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        fewer = 0 if dtype == torch.float64 else FEWER
        self.odd, self.even = len(SINE) - fewer, len(COSINE) - fewer
        self.register_buffer("sine", torch.tensor(SINE[fewer:], dtype=dtype), persistent=False)
        self.register_buffer("cosine", torch.tensor(COSINE[fewer:], dtype=dtype), persistent=False)

    def cos_sin(self, phi: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines of angles of at most half a quarter: (...) -> twice (...)."""
        # Powers are nested, so that no coefficient is small: the exporter leaves out sums with numbers near 0.
        square = phi * phi
        odd, even = square * self.sine[0], square * self.cosine[0]
        for i in range(1, self.odd):
            odd = (odd + 1.0) * (square * self.sine[i])
        for i in range(1, self.even):
            even = (even + 1.0) * (square * self.cosine[i])
        return even + 1.0, odd * phi + phi

    def after(self, quarters: Tensor, phi: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines of whole quarters, as floats, plus small angles: twice (...) -> twice (...)."""
        cos, sin = self.cos_sin(phi)
        place = quarters - 4.0 * torch.floor(quarters * 0.25)  # 0, 1, 2 or 3: each step is exact
        along, across = (place - 2.0).abs() - 1.0, 1.0 - (place - 1.0).abs()  # the place's own cosine and sine
        return cos * along - sin * across, sin * along + cos * across  # a rotation by the quarters
