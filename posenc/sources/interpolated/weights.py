"""The weights by which rows of a grid make the rows of an axis of another size, as torch's interpolate weighs them.

A matrix of (size, grid) for each axis, from integers that are exact, in operators that every runtime has. Exporters
write Resize instead, whose antialias and whose cubic differ from torch's.
"""

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

WEIGHT = 32
"""Roundings of a weight: at most 12 of the distance to its row, times a slope of 1.35, and 7 of its polynomial."""


@dataclass(frozen=True)
class Filter:
    """A filter of `torch.nn.functional.interpolate`: how much each row near a place counts.

    Args:
        cubic: Keys' cubic over four rows, with a = -0.75, or -0.5 with antialias; else linear over two.
        antialias: where rows become fewer, weigh more of them; at the edges weights add up to 1. Without it the weight
            of rows beyond an edge goes to the row at the edge.
        align_corners: the first and the last place lie on the first and the last row.
        offset: a number added to a size that is not the grid's own, before the scale is made of it: 0.1 in DINOv2.
    """

    cubic: bool = True
    antialias: bool = False
    align_corners: bool = False
    offset: float = 0.0

    @property
    def radius(self) -> int:
        """The distance in rows from a place beyond which weights are 0."""
        return 2 if self.cubic else 1

    @property
    def together(self) -> bool:
        """Whether torch leaves a grid as it is only where all its sizes stay, and not each axis by itself."""
        return self.cubic and not self.antialias

    @property
    def a(self) -> float:
        """The slope of the cubic at its first zero."""
        return -0.5 if self.antialias else -0.75

    def roundings(self, grid: int, size: int) -> float:
        """Return how many roundings weights times rows may be off by, together, relative to the largest row."""
        taps = 2 * self.radius * (max(1.0, grid / size) if self.antialias else 1) + 1
        by_weight = WEIGHT + 3 * self.offset * (grid + 1)
        sums = 2 if self.antialias else 1  # the sum that weights are divided by is off by as much again
        return 1.5 * taps * by_weight * sums  # the weights of the other axis add up to at most 1.5


class AxisWeights(nn.Module):
    """The weights of one axis, computed in the graph for any size."""

    # TorchScript compiles a class once, with the methods that its first user calls. All of them are exported, so that a
    # file holds the same methods whatever was scripted before it.
    needs_int64 = "weights are quotients of products of sizes"
    odd: Tensor  # (1, columns), int64: 2 i + 1 for row i; or i itself
    fold: Tensor  # (columns, grid): adds the weights beyond an edge to the row there
    grid: int  # not Final: the weights of two axes are one type in TorchScript then
    radius: Final[int]
    a: Final[float]
    offset: Final[float]
    antialias: Final[bool]
    align_corners: Final[bool]
    centred: Final[bool]

    def __init__(self, grid: int, filter: Filter, dtype: torch.dtype) -> None:
        super().__init__()
        self.grid, self.radius, self.a, self.offset = grid, filter.radius, filter.a, filter.offset
        self.antialias, self.align_corners = filter.antialias, filter.align_corners
        self.centred = filter.antialias or not filter.align_corners
        beyond = 0 if filter.antialias else filter.radius
        columns = torch.arange(-beyond, grid + beyond)
        self.register_buffer("odd", (2 * columns + 1 if self.centred else columns)[None], persistent=False)
        fold = torch.nn.functional.one_hot(columns.clamp(0, grid - 1), grid).to(dtype)
        self.register_buffer("fold", fold, persistent=False)

    def forward(self, size: int, shift: Tensor) -> Tensor:
        """Return the weights of each row at each place: (size, grid). `shift` (1,) is 0 where no offset is added."""
        sizes = torch.full((1,), size, dtype=torch.int64, device=self.fold.device)
        return self.at(torch.arange(size, device=self.fold.device).unsqueeze(1), sizes, shift)

    @torch.jit.export
    def differences(self, side: int) -> Tensor:
        """Return the weights at the 2 side - 1 differences of two of `side` places, and an extra row: (2 side, grid).

        The extra row is never read; it keeps the size 2 * n - 1 from being -1 for n = 0.
        """
        sizes = torch.full((1,), 2 * side - 1, dtype=torch.int64, device=self.fold.device)
        return self.at(torch.arange(2 * side, device=self.fold.device).unsqueeze(1), sizes, self.differs(sizes))

    @torch.jit.export
    def at(self, places: Tensor, sizes: Tensor, shift: Tensor) -> Tensor:
        """Return the weights of each row at places (..., 1), with their sizes and shifts: (..., grid)."""
        distance = self.distance(places, sizes, shift).abs().clamp(0, self.radius)
        if self.radius == 1:
            weights = 1 - distance
        else:
            near = ((self.a + 2) * distance - (self.a + 3)) * distance * distance + 1
            beyond = distance - 2
            weights = torch.where(distance < 1, near, self.a * (distance - 1) * beyond * beyond)
        if self.antialias:
            return weights / weights.sum(-1, keepdim=True)
        return weights @ self.fold  # (..., columns) @ (columns, grid)

    @torch.jit.export
    def size_differs(self, size: int) -> Tensor:
        """Return 1 where a size is not that of the grid, else 0: (1,)."""
        return self.differs(torch.full((1,), size, dtype=torch.int64, device=self.fold.device))

    @torch.jit.export
    def differs(self, sizes: Tensor) -> Tensor:
        """Return 1 where sizes are not that of the grid, else 0."""
        return (sizes != self.grid).to(self.fold.dtype)

    def distance(self, places: Tensor, sizes: Tensor, shift: Tensor) -> Tensor:
        """Return the distance of places to rows, in rows, or in places where those are fewer: (..., columns)."""
        # Without an offset both parts of the quotient are integers: a place that lies on a row does so exactly.
        rows = torch.full((1,), self.grid, dtype=torch.int64, device=self.fold.device)
        if self.align_corners:  # a single place has the scale 0
            several = (sizes - 1).clamp(0, 1)  # Clip, which converters know, as they do not Min and Max
            rows, sizes = (rows - 1) * several, sizes - several
        if self.centred:
            numerator = (self.odd * sizes - (2 * places + 1) * rows).to(self.fold.dtype)
            denominator = (2 * sizes).to(self.fold.dtype)
        else:
            numerator, denominator = (self.odd * sizes - places * rows).to(self.fold.dtype), sizes.to(self.fold.dtype)
        if self.offset != 0:
            numerator = numerator + self.odd * (self.offset * shift)
            denominator = denominator + 2 * self.offset * shift
        if not self.antialias:
            return numerator / denominator
        fewer = torch.relu(2 * rows.to(self.fold.dtype) - denominator)
        return numerator / (denominator + fewer)
