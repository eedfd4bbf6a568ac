"""Modules that resample a table to as many places as x has.

Along each axis the rows are multiplied by a small matrix of weights: (places, rows). On a plane that is two products,
down and across, of the whole table: twenty times cheaper than to weigh sixteen rows for each place.
"""

from typing import Final

import torch
from torch import Tensor, nn

from posenc.lookup import check_width, places
from posenc.sources.interpolated.weights import AxisWeights, Filter


class Resample1d(nn.Module):
    """A table of (rows, features), resampled to the length of x."""

    def __init__(self, weight: Tensor, filter: Filter) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.along = AxisWeights(weight.shape[0], filter, weight.dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Return the rows of the places of x: (batch, seq, features) -> (seq, features)."""
        check_width(x.shape[2], self.weight.shape[1])
        return self.rows(x.shape[1])

    def rows(self, length: int) -> Tensor:
        """Return the table resampled to a length: (length, features)."""
        rows: Tensor = self.along(length, self.along.size_differs(length)) @ self.weight
        return rows


class Table2d(nn.Module):
    """A table of (height, width, features), and the weights of both axes."""

    together: Final[bool]

    def __init__(self, weight: Tensor, filter: Filter) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.down = AxisWeights(weight.shape[0], filter, weight.dtype)
        self.across = AxisWeights(weight.shape[1], filter, weight.dtype)
        self.together = filter.together

    def shifts(self, down: Tensor, across: Tensor) -> tuple[Tensor, Tensor]:
        """Return 1 for axes along which an offset is added: whose own size differs, or all if either differs."""
        if self.together:
            either = (down + across).clamp(0, 1)
            return either, either
        return down, across


class Resample2d(Table2d):
    """A table of (height, width, features), resampled to the height and the width of x."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the rows of the places of x: (batch, height, width, features) -> (height, width, features)."""
        check_width(x.shape[3], self.weight.shape[2])
        return self.rows(x.shape[1], x.shape[2])

    @torch.jit.export
    def rows(self, height: int, width: int) -> Tensor:
        """Return the table resampled to a height and a width: (height, width, features)."""
        shift_down, shift_across = self.shifts(self.down.size_differs(height), self.across.size_differs(width))
        return self.weighed(self.down(height, shift_down), self.across(width, shift_across))

    def weighed(self, down: Tensor, across: Tensor) -> Tensor:
        """Return rows by weights of each axis: (height, of_height), (width, of_width) -> (height, width, features)."""
        of_height, of_width, features = self.weight.shape
        height, width = down.shape[0], across.shape[0]
        # (height, of_height) @ (of_height, of_width * features)
        lines: Tensor = down @ self.weight.reshape(of_height, of_width * features)
        # (height, width, of_width) @ (height, of_width, features); expanded, since a height of 0 does not broadcast
        rows: Tensor = across.expand(height, width, of_width) @ lines.reshape(height, of_width, features)
        return rows


class ResampleEachImage(Table2d):
    """A table of (height, width, features), resampled to the sizes of each image, as in SigLIP2-NaFlex."""

    add: Final[bool]
    none: Tensor

    def __init__(self, weight: Tensor, filter: Filter, *, add: bool) -> None:
        super().__init__(weight, filter)
        self.add = add
        self.register_buffer("none", torch.zeros(1, 1, dtype=torch.int64), persistent=False)

    def forward(self, x: Tensor, sizes: Tensor) -> Tensor:
        """Return x + rows, or rows: (batch, seq, features), sizes (batch, 2) of height and width -> as x.

        Tokens beyond height x width are padding, and have the row of the first place; more places than tokens, and
        sizes below 1, are refused.
        """
        check_width(x.shape[2], self.weight.shape[2])
        count = places(self.none, sizes, x.shape[1]).unsqueeze(1).unsqueeze(2)
        sizes = sizes.clamp(min=1).unsqueeze(2)  # nothing is divided by 0 before it is refused
        height, width = sizes[:, :1], sizes[:, 1:]  # (batch, 1, 1)
        tokens = torch.arange(x.shape[1], device=x.device).unsqueeze(1)
        tokens = tokens * (tokens < count).to(torch.int64)  # (batch, seq, 1)
        row = tokens // width
        shift_down, shift_across = self.shifts(self.down.differs(height), self.across.differs(width))
        down = self.down.at(row, height, shift_down)  # (batch, seq, of_height)
        across = self.across.at(tokens - row * width, width, shift_across)  # (batch, seq, of_width)
        weights = (down.unsqueeze(3) * across.unsqueeze(2)).flatten(2)  # (batch, seq, of_height * of_width)
        rows: Tensor = weights @ self.weight.flatten(0, 1)  # (of_height * of_width, features)
        return (x.to(rows.dtype) + rows if self.add else rows).to(x.dtype)


class ResampledRows(nn.Module):
    """Rows that were resampled to one size, once, in float64."""

    table: Tensor  # (*sizes, features)

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.register_buffer("table", table)

    def forward(self, x: Tensor) -> Tensor:
        """Return the rows: (batch, *sizes, features) -> (*sizes, features)."""
        if x.shape[1:] != self.table.shape:
            raise ValueError("x is of {}, this encoding of {}".format(x.shape[1:], self.table.shape))
        return self.table
