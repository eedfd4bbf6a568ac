"""Cosines and sines of angles that no table holds, with the same bits everywhere: a small table, and a short series.

DETR's coordinate is a fraction of an image, which neither a table nor angle addition holds. Sin and Cos in float32 are
within 1.6e-6 for a quotient in float32, within 2.4e-7 for one in float64, and every runtime has other last digits.
Here the quotient is in float64, the nearest 512th of a circle comes from a table, and a few terms of a series add the
rest: half an ulp (3e-8), and the same bits in every runtime, since IEEE 754 defines sums, products and quotients.
"""

import math
from collections.abc import Iterator
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from posenc.encoding import SAME_BITS, Tolerance
from posenc.lookup import take
from posenc.sincos.rows import rounded_once
from posenc.stored import StoredRows, circular, rounded

STEPS = 512
"""Parts of a circle whose sines and cosines are stored: the nearest is at most 2 pi / 1024 away from an angle."""
DIVIDES = "the graph divides places by the size of their grid in float64, which converters leave as it is"


class SeriesSinCos(nn.Module):
    """Cosines and sines in float64, rounded once: within 1e-15, then half an ulp of the dtype.

    The angle sum identities join the nearest 512th of a circle and the series of the remaining angle d, up to 0.0062

        sin(d) = d - d^3 / 6 + d^5 / 120 - ...        cos(d) = 1 - d^2 / 2 + d^4 / 24 - ...

    as far as shown: the next terms are below 1e-16.
    """

    step: Tensor  # 2 pi / 512, a buffer, as a graph would hold Python's number in float32
    sines: Tensor  # (513, 1): of 0, 1, ..., 512 steps
    cosines: Tensor
    steps: Final[int] = STEPS
    unit = 2 * math.pi
    within = torch.float64
    half_safe = DIVIDES
    __constants__ = ("integer_dtype",)
    integer_dtype = torch.int64

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        angles = torch.from_numpy(2 * math.pi / STEPS * np.arange(STEPS + 1)).unsqueeze(1)
        self.register_buffer("step", torch.tensor(2 * math.pi / STEPS, dtype=torch.float64), persistent=False)
        self.register_buffer("sines", angles.sin(), persistent=False)
        self.register_buffer("cosines", angles.cos(), persistent=False)

    def forward(self, circles: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines of float64 numbers of circles: (...) -> twice (...), in the dtype."""
        # circles = (nearest + (steps - nearest)) / 512, up to whole circles
        steps = (circles - circles.floor()) * self.steps
        nearest = steps.round()
        d = (steps - nearest) * self.step
        square = d * d
        sin_d = d * (1 - square * (1 - square / 20) / 6)
        cos_d = 1 - square * (1 - square / 12) / 2
        index = nearest.to(self.integer_dtype)
        a_sin = take(self.sines, index, self.steps + 1).squeeze(-1)
        a_cos = take(self.cosines, index, self.steps + 1).squeeze(-1)
        # cos(a + d), sin(a + d)
        cos, sin = a_cos * cos_d - a_sin * sin_d, a_sin * cos_d + a_cos * sin_d
        return cos.to(self.dtype), sin.to(self.dtype)

    def tolerance(self, max_angle: float) -> Tolerance:
        """Return how far they may be from the reference: half an ulp."""
        return rounded_once(self.dtype, math.ceil(max_angle))

    def eager_tolerance(self, max_angle: float) -> Tolerance:
        """Graphs must give the same bits as eager."""
        return SAME_BITS

    def stored_rows(self) -> Iterator[StoredRows]:
        """Yield the sines and cosines of all steps of a circle."""
        sin, cos = circular(np.arange(STEPS + 1), np.array([2 * math.pi / STEPS]))
        yield StoredRows("sines", sin, rounded(2 * math.pi))
        yield StoredRows("cosines", cos, rounded(2 * math.pi))
