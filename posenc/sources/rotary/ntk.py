"""Rotary angles whose frequencies the graph itself computes, from the length of each call.

No table can hold frequencies that depend continuously on the length. Log and Exp make them in float64, whole circles
are removed in float64, and Sin and Cos in float32 see at most pi. The constants are buffers: the exporter would write
Python's numbers in float32.
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
    """Angles by frequencies of the call's own length, computed in the graph in float64: no call changes them.

    Source: dynamic NTK, arXiv:2309.00071, section 3.3.
    """

    pair: Tensor  # 2 i / dim
    slope: Tensor  # of the stretch, by length; with `shift`, its value at 0
    shift: Tensor
    exponent: Tensor
    log_theta: Tensor
    original: Final[int]

    def __init__(self, sincos: ComputedSinCos, dim: int, rope_theta: float, *, factor: float, original: int) -> None:
        super().__init__(sincos)
        self.sincos: ComputedSinCos
        self.original = original
        # Numbers are buffers: a graph would hold Python's in float32.
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
        length = (positions.max() + 1).clamp(min=self.original).to(torch.float64)
        log_base = (length * self.slope - self.shift).log() * self.exponent + self.log_theta
        cos, sin = self.sincos(positions, (self.pair * -log_base).exp())
        return alike(cos, sin)
