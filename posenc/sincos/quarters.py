"""Cosines and sines of angles that are taken apart into quarters of a circle and what is left, without Sin and Cos.

Polynomials are products and sums, which IEEE 754 defines to the last bit: eager PyTorch, TorchScript and ONNX Runtime
give the same, as they do of angle addition.
"""

import math
from typing import Final

import torch
from torch import Tensor, nn

HALF_A_QUARTER = math.pi / 4
"""Up to here the polynomials hold."""
SINE = tuple((-1.0) ** i / math.factorial(2 * i + 1) for i in range(9))
"""Of phi, phi^3, phi^5, ...: at half a quarter the first five leave out 2e-9, nine 1e-19."""
COSINE = tuple((-1.0) ** i / math.factorial(2 * i) for i in range(10))
"""Of 1, phi^2, phi^4, ...: at half a quarter the first six leave out 2e-10, ten 4e-21."""
FEWER = 4
"""Powers that float32 does not need."""


class Quarters(nn.Module):
    """Cosines and sines of whole quarters and small angles, by Taylor's polynomials.

    Each is off by the rounding of its last sum, 2^-25 below 1, and by a quarter of that for all before it.
    """

    sine: Tensor  # (terms,): the highest power first; buffers, as a graph would hold Python's numbers in float32
    cosine: Tensor
    odd: Final[int]
    even: Final[int]

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        fewer = 0 if dtype == torch.float64 else FEWER
        sine, cosine = SINE[: len(SINE) - fewer][::-1], COSINE[: len(COSINE) - fewer][::-1]
        self.odd, self.even = len(sine), len(cosine)
        self.register_buffer("sine", torch.tensor(sine, dtype=dtype), persistent=False)
        self.register_buffer("cosine", torch.tensor(cosine, dtype=dtype), persistent=False)

    def cos_sin(self, phi: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines of angles of at most half a quarter: (...) -> twice (...)."""
        square = phi * phi
        odd, even = square * self.sine[0], square * self.cosine[0]
        for i in range(1, self.odd - 1):
            odd = (odd + self.sine[i]) * square
        for i in range(1, self.even - 1):
            even = (even + self.cosine[i]) * square
        return even + 1.0, odd * phi + phi

    def turned(self, quarters: Tensor, phi: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines of whole quarters, as floats, plus small angles: twice (...) -> twice (...)."""
        cos, sin = self.cos_sin(phi)
        place = quarters - 4.0 * torch.floor(quarters * 0.25)  # 0, 1, 2 or 3: each step is exact
        along, across = (place - 2.0).abs() - 1.0, 1.0 - (place - 1.0).abs()  # the place's own cosine and sine
        return cos * along - sin * across, sin * along + cos * across
