"""Rows along one axis of a grid, at fractions of its length: computed for any length, or stored for all up to one.

A baked table has a row for every place of every size, max_len^2 / 2 of them in use: `max_len` is 256 by default.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from posenc.encoding import SAME_BITS, Probes, Tolerance
from posenc.lookup import check_length, check_width, take
from posenc.ports import Array, Floats
from posenc.sincos import AngleSinCos, sincos_of_angles
from posenc.sincos.rows import arrange, rounded_once
from posenc.spec import Spec
from posenc.stored import StoredRows, circular, laid_out, rounded

LARGEST = 2**26
"""Numbers in a table of every place of every size: 256 MiB of float32."""


@dataclass(frozen=True)
class AxisFraction:
    """A coordinate as a fraction of an axis: scale * (count + shift) / (whole + small), counts beginning at 1."""

    scale: float
    shift: float = 0.0
    small: float = 0.0

    @property
    def max_angle(self) -> float:
        """Largest absolute angle in radians, at frequency 1."""
        return abs(self.scale) * (1 + abs(self.shift))

    def coordinates(self, count: Array, whole: int) -> Floats:
        """Return coordinates in float64."""
        return np.asarray(self.scale * (count + self.shift) / (whole + self.small))


class ComputedFractionRows(nn.Module):
    """Rows of sines and cosines at fractions of an axis, computed in the graph, in the dtype of the angles of `waves`.

    A fully padded axis counts as having one valid place; otherwise the result would be shift / 1e-6.
    """

    rate: Tensor  # (pairs,): of a whole axis, in the unit of `waves`
    shift: Tensor  # buffers, as a graph would hold Python's numbers in float32
    small: Tensor
    width: Final[int]
    interleaved: Final[bool]
    probes = Probes()
    __constants__ = ("count_dtype",)
    count_dtype = None

    def __init__(self, fraction: AxisFraction, inv_freq: Floats, waves: AngleSinCos, *, interleaved: bool) -> None:
        super().__init__()
        self.width = 2 * len(inv_freq)
        self.interleaved = interleaved
        self.end = None
        self.half_safe = waves.half_safe
        self.max_angle = fraction.max_angle
        self.within = waves.within
        self.waves = waves
        rate = fraction.scale * inv_freq / waves.unit
        for name, number in (("rate", rate), ("shift", fraction.shift), ("small", fraction.small)):
            self.register_buffer(name, torch.tensor(number, dtype=self.within), persistent=False)

    def forward(self, count: Tensor, whole: Tensor) -> Tensor:
        """Return the rows of places: int64 (...), the same with an axis of 1 -> (..., width)."""
        part = (count.to(self.within) + self.shift) / (whole.clamp(min=1).to(self.within) + self.small)
        cos, sin = self.waves(part.unsqueeze(-1) * self.rate)  # (..., 1) * (pairs,)
        return arrange(sin, cos, self.interleaved, self.width)

    def arange(self, length: int, width: int) -> Tensor:
        """Return the rows of all places: (1, length, width)."""
        check_width(width, self.width)
        count = torch.arange(1, length + 1, dtype=self.count_dtype, device=self.rate.device).unsqueeze(0)
        return self.forward(count, torch.full_like(count[:, :1], length))  # empty where there are no places

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far rows may be from the reference: as far as cosines and sines of the largest angle."""
        return self.waves.tolerance(self.max_angle)

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return how far a graph's rows may be from these: as far as cosines and sines."""
        return self.waves.eager_tolerance(self.max_angle)


class StoredFractionRows(nn.Module):
    """Rows at fractions of an axis, stored for every place of every size up to max_len."""

    rows: Tensor  # (max_len * (max_len + 1), width): counts 0..max_len of a whole of 1, of 2, ...
    most: Final[int | None]  # a whole that no rows are of, where products of larger ones do not fit int32
    one: Tensor
    width: Final[int]
    half_safe = ""
    __constants__ = ("count_dtype",)
    count_dtype = None

    def __init__(self, fraction: AxisFraction, inv_freq: Floats, spec: Spec, *, interleaved: bool) -> None:
        super().__init__()
        end, dtype = spec.max_len, getattr(torch, spec.angle_dtype)
        self.width = 2 * len(inv_freq)
        self.end = end
        self.probes = Probes(masks=tuple(range(1, end + 1)))
        self.dtype = dtype
        self.max_angle = fraction.max_angle
        self.fraction, self.inv_freq, self.interleaved = fraction, inv_freq, interleaved
        check_few(end, self.width)
        self.most = end + 1 if spec.narrow else None
        rows = torch.empty(end, end + 1, self.width, dtype=dtype)
        for whole in range(1, end + 1):
            angles = torch.from_numpy(fraction.coordinates(np.arange(end + 1)[:, None], whole) * inv_freq)
            # (end + 1, pairs) -> (end + 1, width)
            rows[whole - 1] = arrange(angles.sin(), angles.cos(), interleaved, self.width)
        self.register_buffer("rows", rows.flatten(0, 1), persistent=False)  # (end * (end + 1), width)
        self.register_buffer("one", torch.ones(1, dtype=torch.int64), persistent=False)

    def forward(self, count: Tensor, whole: Tensor) -> Tensor:
        """Return the rows of places: int64 (...), the same with an axis of 1 -> (..., width)."""
        # Each whole has end + 1 rows, one for each count from 0 on.
        index = (whole.clamp(min=1, max=self.most) - 1) * (self.end + 1) + count
        return take(self.rows, index, self.end * (self.end + 1))

    def arange(self, length: int, width: int) -> Tensor:
        """Return the rows of all places: (1, length, width)."""
        check_width(width, self.width)
        check_length(length, self.end)
        count = torch.arange(1, length + 1, dtype=self.count_dtype, device=self.one.device).unsqueeze(0)
        return self.forward(count, torch.full_like(count[:, :1], length))  # empty where there are no places

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far rows may be from the reference: half an ulp of a sine."""
        return rounded_once(self.dtype, math.ceil(self.max_angle))

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Graphs must give the same bits as eager."""
        return SAME_BITS

    def stored_rows(self) -> Iterator[StoredRows]:
        """Yield the rows of every place of a size, one size after the other."""
        scale, shift, small = self.fraction.scale, self.fraction.shift, self.fraction.small
        for whole in range(1, self.end + 1):
            places = scale * (np.arange(self.end + 1) + shift) / (whole + small)
            largest = float(np.abs(places).max()) * float(self.inv_freq.max())
            rows = laid_out(*circular(places, self.inv_freq), self.interleaved, self.width)
            yield StoredRows("rows", rows, rounded(largest), (whole - 1) * (self.end + 1))


def check_few(end: int, width: int) -> None:
    """Raise ValueError where a table of every place of every size is larger than anybody wants."""
    fits = math.isqrt(LARGEST // width)
    if end * (end + 1) * width > LARGEST:
        raise ValueError(
            f"a table of every place of every size up to {end} takes {end} x {end + 1} x {width} numbers: "
            f"give --max-len {fits - 1} or less, or --dynamic"
        )


def fraction_rows(
    fraction: AxisFraction, inv_freq: Floats, spec: Spec, *, interleaved: bool
) -> ComputedFractionRows | StoredFractionRows:
    """Return a source of rows at fractions of an axis, stored or computed, as a spec asks for it."""
    if spec.mode == "baked":
        return StoredFractionRows(fraction, inv_freq, spec, interleaved=interleaved)
    return ComputedFractionRows(fraction, inv_freq, sincos_of_angles(spec), interleaved=interleaved)
