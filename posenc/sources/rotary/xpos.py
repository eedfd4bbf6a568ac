"""Rotary angles with a scale that fades with distance: xPos (Sun et al., arXiv:2212.10554).

The scale is a product of two rows, one for each digit of the distance from a center; a position whose scale the dtype
cannot hold is refused. The paper counts from position 0 (`center=0`). The authors' code centers on half of the length
(`center=length`), which does not work with a KV cache that grows.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from posenc.encoding import NoTables, Tables, Tolerance
from posenc.joins.rotated import CosSin, RotaryAngles
from posenc.lookup import take
from posenc.ports import Floats
from posenc.stored import StoredRows

OVERFLOWS = (
    "the scale of a key grows until float16 has no such number: a graph of dtype fp16 refuses positions from there on, "
    "a converted one does not know of that"
)
ROUNDINGS = 5
"""How far a scale, its inverse and the products with both may be off, in eps."""


@dataclass(frozen=True)
class Fade:
    """The scale of xPos: zeta^((position - center) / scale_base) for each pair.

    Args:
        center: None is half of the call's length.
        radius: How far from the center the output's dtype holds a scale and its inverse.
        half_radius: How far from it float16 does.
    """

    zeta: Floats
    scale_base: float
    center: int | None
    radius: int
    half_radius: int

    @property
    def end(self) -> int:
        """The first position at which a key overflows."""
        return self._from_center(self.radius)

    @property
    def half_end(self) -> int:
        """Positions from here on have a key that overflows in float16."""
        return self._from_center(self.half_radius)

    def _from_center(self, radius: int) -> int:
        return 2 * radius if self.center is None else self.center + radius


def centred(positions: Tensor, center: int | None) -> Tensor:
    """Return positions counted from a center, or from half the call's length: ceil((largest position + 1) / 2)."""
    if center is None:
        # Never negative: a graph divides integers toward zero.
        return positions - (positions.max().clamp(min=-2) + 2) // 2
    return positions - center


class ScaleTable(nn.Module):
    """The scale of xPos as a product of the rows of two digits; positions at which keys would overflow are refused."""

    low: Tensor
    high: Tensor
    center: Final[int | None]
    end: Final[int]
    radius: Final[int]
    block: Final[int] = 64

    def __init__(self, fade: Fade, dtype: torch.dtype) -> None:
        super().__init__()
        self.center = fade.center
        self.radius = fade.radius
        self.end = fade.end
        self.roundings = float(ROUNDINGS)
        self.fade = fade  # stored rows are held against it
        for name, powers in (("low", np.arange(64)), ("high", np.arange(-fade.radius, fade.radius, 64))):
            rows = torch.from_numpy(fade.zeta ** (powers[:, None] / fade.scale_base))
            self.register_buffer(name, rows.to(dtype), persistent=False)

    def forward(self, positions: Tensor) -> Tensor:
        """Return the scales of queries: (...) -> (..., pairs)."""
        index = centred(positions, self.center) + self.radius
        index = index.masked_fill((positions < 0) | (positions >= self.end) | (index < 0), 2 * self.radius)
        # zeta^(64 high + low) is a product of two rows: (...) -> (..., pairs) each.
        high = take(self.high, index // self.block, self.end)
        return high * take(self.low, index % self.block, self.end)

    def stored_rows(self) -> Iterator[StoredRows]:
        """Yield the powers of each digit, by their logarithms."""
        for name, powers in (("low", np.arange(64)), ("high", np.arange(-self.radius, self.radius, 64))):
            logs = np.multiply.outer(powers / self.fade.scale_base, np.log(self.fade.zeta))
            of_float64 = 4 * 2.0**-52 * max(1.0, float(np.abs(logs).max(initial=0.0)))
            yield StoredRows(name, np.exp(logs), Tolerance(rtol=of_float64, ulps=0.5))


class ScalePower(nn.Module):
    """The scale of xPos by Pow, as training code computes it: at any position, but larger scales are off by more."""

    zeta: Tensor
    scale_base: Final[float]
    center: Final[int | None]

    def __init__(self, fade: Fade, dtype: torch.dtype) -> None:
        super().__init__()
        self.scale_base = fade.scale_base
        self.center = fade.center
        self.end = None
        self.roundings = ROUNDINGS + 4 * (fade.radius / fade.scale_base * -math.log(fade.zeta[0]))
        self.register_buffer("zeta", torch.from_numpy(fade.zeta).to(dtype), persistent=False)

    def forward(self, positions: Tensor) -> Tensor:
        """Return the scales of queries: (...) -> (..., pairs)."""
        power = centred(positions, self.center)
        # (pairs,) to the power of (..., 1) -> (..., pairs)
        return self.zeta.pow(power.to(self.zeta.dtype).unsqueeze(-1) / self.scale_base)


class XPosAngles(nn.Module):
    """Angles with a scale for queries and its inverse for keys, so that scores fade with the distance alone."""

    __constants__ = ("count_dtype",)
    count_dtype = None

    def __init__(self, angles: RotaryAngles, fade: Fade, dtype: torch.dtype) -> None:
        super().__init__()
        # Angles at any position come with scales at any position; tables refuse positions, and so do their scales.
        scale = ScalePower(fade, dtype) if angles.end is None else ScaleTable(fade, dtype)
        self.angles = angles
        self.scale = scale
        self.axes = 1
        self.end = None if angles.end is None or scale.end is None else min(angles.end, scale.end)
        self.probes = replace(angles.probes, lengths=(fade.end,), positions=())
        overflows = self.end is None or self.end > fade.half_end
        self.half_safe = angles.half_safe or (OVERFLOWS if overflows else "")
        self.attention_factor = 1.0
        self.eps = torch.finfo(dtype).eps

    def forward(self, positions: Tensor) -> CosSin:
        """Return cosines and sines, times the scale for queries and by it for keys: (...) -> (..., pairs) each."""
        cos, sin, _, _ = self.angles(positions)
        scale = self.scale(positions)
        return CosSin(cos * scale, sin * scale, cos / scale, sin / scale)

    def arange(self, sizes: list[int], device: torch.device) -> CosSin:
        """Return cosines and sines of positions 0..length-1: (1, length, pairs) each."""
        return self.forward(torch.arange(sizes[0], dtype=self.count_dtype, device=device).unsqueeze(0))

    def ends(self) -> tuple[int | None, ...]:
        """Return the end of the places along each axis of a grid."""
        return (self.end,)

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far cosines and sines may be off, and relative to them the scale."""
        return self._scaled(self.angles.tolerance(max_position))

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return how far a graph may be off."""
        return self._scaled(self.angles.eager_tolerance(max_position))

    def _scaled(self, tolerance: Tolerance) -> Tolerance:
        if tolerance.bits:
            return tolerance
        return replace(tolerance, vector=tolerance.vector + self.scale.roundings * self.eps)

    def tables(self) -> Tables:
        """Raise NoTables: a header rotates queries and keys by the same tables."""
        raise NoTables("queries and keys must be rotated alike: those of xPos are not")
