"""With which weights the rows of a grid make the rows of a line of another size, as torch's interpolate weighs them.

A matrix of (size, grid) for each axis, from integers that are exact, in operators that every runtime has. Resize, which
exporters write, is none of them: what it means by an antialias and by a cubic differs from torch's.
"""

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

WEIGHT = 32
"""Roundings that a weight may be off by: at most 12 of where it is, times a slope of 1.35, and 7 of its polynomial."""


@dataclass(frozen=True)
class Filter:
    """What weighs the rows near a place.

    cubic: Keys' cubic over four rows, with a = -0.75, or -0.5 where it is antialiased; else linear over two.
    antialias: over more rows where they become fewer, and weights add up to 1 at the edges; else those beyond an edge
        go to the row there.
    align_corners: the first and the last place lie on the first and the last row.
    offset: what is added to the size where the scale is made of it, but at the grid's own size: DINOv2 has 0.1. torch
        leaves any axis of the same size as it is, but for cubics that are not antialiased: there all must be.
    """

    cubic: bool = True
    antialias: bool = False
    align_corners: bool = False
    offset: float = 0.0

    @property
    def radius(self) -> int:
        """Within how many rows of a place there are weights."""
        return 2 if self.cubic else 1

    @property
    def together(self) -> bool:
        """Whether an offset is left out only where all axes have the grid's own size."""
        return self.cubic and not self.antialias

    @property
    def a(self) -> float:
        """The slope of the cubic at its first zero."""
        return -0.5 if self.antialias else -0.75

    def roundings(self, grid: int, size: int) -> float:
        """Return how many roundings weights times rows may be off by, together, relative to the largest row.

        Weights that are divided by their sum are off by as much again; their sizes add up to at most 1.5, and with
        both matrix products each of their errors counts so much.
        """
        taps = 2 * self.radius * (max(1.0, grid / size) if self.antialias else 1) + 1
        each = WEIGHT + 3 * self.offset * (grid + 1)
        return 1.5 * taps * each * (2 if self.antialias else 1)


class AxisWeights(nn.Module):
    """The weights of one axis, in the graph, for any size.

    Scripts share its type, with every method that one of them called: what they call is exported, so that a file holds
    the same methods whatever was scripted before.
    """

    odd: Tensor  # (1, columns), int64: twice the index of a row, and one; or the index itself
    fold: Tensor  # (columns, grid): adds what lies beyond an edge to the row there
    grid: int  # not Final: the weights of two axes are one type in TorchScript then
    radius: Final[int]
    a: Final[float]
    offset: Final[float]
    antialias: Final[bool]
    align_corners: Final[bool]
    centred: Final[bool]

    def __init__(self, grid: int, of: Filter, dtype: torch.dtype) -> None:
        super().__init__()
        self.grid, self.radius, self.a, self.offset = grid, of.radius, of.a, of.offset
        self.antialias, self.align_corners = of.antialias, of.align_corners
        self.centred = of.antialias or not of.align_corners
        beyond = 0 if of.antialias else of.radius
        columns = torch.arange(-beyond, grid + beyond)
        self.register_buffer("odd", (2 * columns + 1 if self.centred else columns)[None], persistent=False)
        fold = torch.nn.functional.one_hot(columns.clamp(0, grid - 1), grid).to(dtype)
        self.register_buffer("fold", fold, persistent=False)

    def forward(self, size: int, shift: Tensor) -> Tensor:
        """Return the weights of each row at each place: (size, grid). `shift` (1,) is 0 where no offset is added."""
        of = torch.full((1,), size, dtype=torch.int64, device=self.fold.device)
        return self.at(torch.arange(size, device=self.fold.device).unsqueeze(1), of, shift)

    @torch.jit.export
    def differences(self, side: int) -> Tensor:
        """Return the weights at the 2 side - 1 differences of two of `side` places, and at one beyond: (2 side, grid).

        That one is of no use, but that of no places there is none: a size of 2 * 0 - 1 is one that nothing has.
        """
        of = torch.full((1,), 2 * side - 1, dtype=torch.int64, device=self.fold.device)
        return self.at(torch.arange(2 * side, device=self.fold.device).unsqueeze(1), of, self.others(of))

    @torch.jit.export
    def at(self, places: Tensor, of: Tensor, shift: Tensor) -> Tensor:
        """Return the weights of each row at places (..., 1), of sizes and shifts that go with them: (..., grid)."""
        distance = self.distance(places, of, shift).abs().clamp(0, self.radius)
        if self.radius == 1:
            weights = 1 - distance
        else:
            near = ((self.a + 2) * distance - (self.a + 3)) * distance * distance + 1
            beyond = distance - 2
            weights = torch.where(distance < 1, near, self.a * (distance - 1) * beyond * beyond)
        if self.antialias:
            return weights / weights.sum(-1, keepdim=True)
        return weights @ self.fold

    @torch.jit.export
    def unlike(self, size: int) -> Tensor:
        """Return 1, where a size is not that of the grid, or 0: (1,)."""
        return self.others(torch.full((1,), size, dtype=torch.int64, device=self.fold.device))

    @torch.jit.export
    def others(self, of: Tensor) -> Tensor:
        """Return 1 where sizes are not that of the grid, else 0."""
        return (of != self.grid).to(self.fold.dtype)

    def distance(self, places: Tensor, of: Tensor, shift: Tensor) -> Tensor:
        """Return how far each place is from each row, in rows, or in places where those are fewer: (..., columns).

        Numerator and denominator are integers, but for an offset: so places that lie on a row do so exactly.
        """
        rows = torch.full((1,), self.grid, dtype=torch.int64, device=self.fold.device)
        if self.align_corners:  # of one place there is no scale: it is 0
            several = (of - 1).clamp(0, 1)  # Clip, which converters know, as they do not Min and Max
            rows, of = (rows - 1) * several, of - several
        if self.centred:
            top, bottom = (self.odd * of - (2 * places + 1) * rows).to(self.fold.dtype), (2 * of).to(self.fold.dtype)
        else:
            top, bottom = (self.odd * of - places * rows).to(self.fold.dtype), of.to(self.fold.dtype)
        if self.offset != 0:
            top, bottom = top + self.odd * (self.offset * shift), bottom + 2 * self.offset * shift
        if not self.antialias:
            return top / bottom
        fewer = torch.relu(2 * rows.to(self.fold.dtype) - bottom)
        return top / (bottom + fewer)
