"""Rotary angles of the centers of patches, as fractions of their grid: computed for any size, or stored up to one.

Patch i of n has its center at 2 (i + 0.5) / n - 1 = (2 i + 1 - n) / n in -1..1: a quotient of two whole numbers. A
baked table has a row for every place of every size, end (end + 1) / 2 of them, which rows and columns share.
"""

import math
from collections.abc import Iterator
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from posenc.arithmetic import spread
from posenc.encoding import SAME_BITS, NoTables, Probes, Tables, Tolerance
from posenc.joins.rotated import CosSin
from posenc.lookup import check_length, take
from posenc.ports import Floats
from posenc.sincos import AngleSinCos, sincos_of_angles
from posenc.sincos.rows import rounded_once
from posenc.sources.grid.fractions import check_few
from posenc.sources.rotary.angles import alike
from posenc.spec import Spec
from posenc.stored import StoredRows, circular, rounded

BY_SIZE = "its angles change with the size of the grid, and a row of it is those of a row and a column, side by side"


class ComputedCenters(nn.Module):
    """Cosines and sines of the centers of patches along an axis, computed in the graph."""

    rate: Tensor  # (pairs,): of a coordinate of 1, in the unit of `waves`; a buffer, to stay in float64
    end = None
    __constants__ = ("count_dtype",)
    count_dtype = None

    def __init__(self, slopes: Floats, waves: AngleSinCos) -> None:
        super().__init__()
        self.max_angle = float(slopes.max())  # coordinates are within -1..1
        self.half_safe = waves.half_safe
        self.waves = waves
        self.within = waves.within
        self.register_buffer("rate", torch.from_numpy(slopes / waves.unit).to(self.within), persistent=False)

    def forward(self, length: int) -> tuple[Tensor, Tensor]:
        """Return cosines and sines of all places of an axis: twice (1, length, pairs)."""
        place = torch.arange(length, dtype=self.count_dtype, device=self.rate.device).unsqueeze(0)
        whole = torch.full_like(place[:, :1], length)  # empty where there are no places
        # Whole numbers as long as they can be: the quotient is rounded once.
        coordinate = (2 * place + 1 - whole).to(self.within) / whole.to(self.within)
        cos, sin = self.waves(coordinate.unsqueeze(-1) * self.rate)  # (1, length, 1) * (pairs,)
        return cos, sin

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far cosines and sines of the largest angle may be from the reference."""
        return self.waves.tolerance(self.max_angle)

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return how far a graph's may be from these."""
        return self.waves.eager_tolerance(self.max_angle)


class StoredCenters(nn.Module):
    """Cosines and sines of the centers of patches, stored for every place of every size up to max_len."""

    sines: Tensor  # (max_len (max_len + 1) / 2, pairs): the place of a size of 1, the two of a size of 2, ...
    cosines: Tensor
    firsts: Tensor  # (max_len + 1, 1): the row of the first place of each size, from 0 on
    end: Final[int]
    half_safe = ""
    __constants__ = ("count_dtype",)
    count_dtype = None

    def __init__(self, slopes: Floats, spec: Spec) -> None:
        super().__init__()
        end, self.dtype = spec.max_len, getattr(torch, spec.angle_dtype)
        check_few(end, len(slopes))  # two tables, each with half as many rows as a row for each count would take
        self.end, self.slopes = end, slopes
        sizes = np.arange(end + 1)
        angles = np.concatenate([(2 * np.arange(n) + 1 - n) / n for n in sizes[1:]])[:, None] * slopes
        for name, rows in (("sines", np.sin(angles)), ("cosines", np.cos(angles))):
            self.register_buffer(name, torch.from_numpy(rows).to(self.dtype), persistent=False)
        firsts = sizes * (sizes - 1) // 2
        self.register_buffer("firsts", torch.from_numpy(firsts).unsqueeze(1), persistent=False)

    def forward(self, length: int) -> tuple[Tensor, Tensor]:
        """Return cosines and sines of all places of an axis: twice (1, length, pairs)."""
        check_length(length, self.end)
        place = torch.arange(length, dtype=self.count_dtype, device=self.firsts.device)
        # A look-up, as a product halved might pass through floats in a graph; it refuses a size beyond the end.
        first = take(self.firsts, torch.full_like(self.firsts[0], length), self.end + 1)
        index = first + place  # (1, 1) + (length,)
        rows = self.sines.shape[0]
        return take(self.cosines, index, rows), take(self.sines, index, rows)

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far cosines and sines may be from the reference: half an ulp."""
        return rounded_once(self.dtype, math.ceil(float(self.slopes.max())))

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Graphs must give the same bits as eager."""
        return SAME_BITS

    def stored_rows(self) -> Iterator[StoredRows]:
        """Yield the first row of each size, then the rows of every place, one size after the other."""
        first, allowed = 0, rounded(float(self.slopes.max()))
        yield StoredRows("firsts", np.cumsum(np.maximum(np.arange(-1, self.end), 0))[:, None])
        for whole in range(1, self.end + 1):
            sin, cos = circular(np.linspace(1 / whole - 1, 1 - 1 / whole, whole), self.slopes)
            yield StoredRows("sines", sin, allowed, first)
            yield StoredRows("cosines", cos, allowed, first)
            first += whole


class CenteredAngles(nn.Module):
    """Rotary angles of patches on a grid: first the pairs of the row, then those of the column."""

    axes: Final[int] = 2
    attention_factor = 1.0
    # Sizes with many fractions of their own: a wrong last term of a polynomial moves the last digit of few sines.
    probes = Probes((37, 53, 61))

    def __init__(self, centers: ComputedCenters | StoredCenters) -> None:
        super().__init__()
        self.centers = centers
        self.end = centers.end
        self.half_safe = centers.half_safe

    def arange(self, sizes: list[int], device: torch.device) -> CosSin:
        """Return cosines and sines of every place of a grid: (1, height, width, pairs) each."""
        height, width = sizes[0], sizes[1]
        row_cos, row_sin = self.centers(height)
        column_cos, column_sin = self.centers(width)
        # (1, height, pairs / 2), (1, width, pairs / 2) -> (1, height, width, pairs)
        cos = torch.cat([spread(row_cos, 0, sizes), spread(column_cos, 1, sizes)], -1)
        sin = torch.cat([spread(row_sin, 0, sizes), spread(column_sin, 1, sizes)], -1)
        return alike(cos, sin)

    def ends(self) -> tuple[int | None, ...]:
        """Return the end of the places along each axis of a grid."""
        return (self.end,) * self.axes

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far cosines and sines may be from the reference, on a grid of any size."""
        return self.centers.tolerance(max_position)

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return how far a graph's may be from these."""
        return self.centers.eager_tolerance(max_position)

    def tables(self) -> Tables:
        """Raise NoTables: what tables would hold changes with the size of a call."""
        raise NoTables(BY_SIZE)


def centered_angles(slopes: Floats, spec: Spec) -> CenteredAngles:
    """Return the angles of patches, stored or computed, as a spec asks for it.

    Args:
        slopes: (pairs of an axis,) radians of a coordinate of 1.
        spec: The mode, and how a graph computes cosines and sines.
    """
    if spec.mode == "baked":
        return CenteredAngles(StoredCenters(slopes, spec))
    return CenteredAngles(ComputedCenters(slopes, sincos_of_angles(spec)))
