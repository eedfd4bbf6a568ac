"""Rotary angles whose frequencies the graph itself computes, from the length of each call.

No table can hold frequencies that depend continuously on the length. The graph makes them with Log and Exp in float64,
removes whole circles in float64, and gives Sin and Cos of float32 at most pi.
"""

import math
from typing import Final

import numpy as np
import torch
from torch import Tensor

from posenc.joins.rotated import CosSin
from posenc.sincos import ComputedSinCos
from posenc.sources.rotary.angles import MethodAngles, alike


class DynamicNtkAngles(MethodAngles):
    """Angles by frequencies of the call's own length (dynamic NTK, arXiv:2309.00071, section 3.3); no call is kept."""

    pair: Tensor  # 2 i / dim
    slope: Tensor  # of the stretch, by length; with `shift`, its value at 0
    shift: Tensor
    exponent: Tensor
    log_theta: Tensor
    original: Final[int]
    backward: Final[bool]  # pairs turn by minus the angle

    def __init__(
        self,
        sincos: ComputedSinCos,
        dim: int,
        rope_theta: float,
        *,
        factor: float,
        original: int,
        backward: bool = False,
    ) -> None:
        super().__init__(sincos)
        self.sincos: ComputedSinCos
        self.original = original
        self.backward = backward
        # Constants are buffers: an exporter would write Python's numbers in float32.
        constants = {
            "pair": np.arange(0, dim, 2) / dim,
            "slope": factor / original,
            "shift": factor - 1,
            "exponent": dim / (dim - 2),
            "log_theta": math.log(rope_theta),
        }
        for name, value in constants.items():
            self.register_buffer(name, torch.tensor(value, dtype=torch.float64), persistent=False)

    def forward(self, positions: Tensor) -> CosSin:
        """Return cosines and sines: (...) -> (..., pairs) each."""
        # theta (factor * length / original - (factor - 1))^(dim / (dim - 2)), by its logarithm
        length = (positions.max() + 1).clamp(min=self.original).to(torch.float64)
        log_base = (length * self.slope - self.shift).log() * self.exponent + self.log_theta
        cos, sin = self.sincos(positions, (self.pair * -log_base).exp())
        return alike(cos, -sin) if self.backward else alike(cos, sin)
