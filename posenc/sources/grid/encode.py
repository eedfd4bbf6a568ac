"""Encodings of the places of a grid: the features of a place are rows of several sources, one for each axis.

`Grid` asks a source for the rows of a whole axis, by `arange(length, width)`: few numbers, which it repeats along the
other axes. `MaskedGrid` counts the valid places of padded images along each axis, from 1 on.

Plans try long grids one axis at a time. Torch's exporter sees one source for both axes and writes its tables once.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import torch
from torch import Tensor, nn

from posenc.arithmetic import added, spread
from posenc.call import Formula
from posenc.encoding import Encoding
from posenc.joins.rows import join_x
from posenc.lookup import check_width, exactly
from posenc.maker import Claims, Join, claims_of, encoding
from posenc.ports import BATCH, Axis, Port, fixed
from posenc.sources.grid.axis_rows import AxisRows, CountRows
from posenc.spec import Spec
from posenc.where import grid, padded_grid

FeatureLayout = Literal["halves", "interleaved", "sines_first"]


@dataclass(frozen=True)
class GridLayout:
    """The axes of x and of the output, and the order of features.

    Args:
        axes: Names of the axes of the grid.
        order: Which of these comes first among the features, second, ...
        feature_layout: "halves" and "interleaved" leave the sources' rows as they are, one after another;
            "sines_first" is all sines, then all cosines.
        add: x + rows, or the rows alone.
        channels_first: Features come before the grid.
    """

    axes: tuple[str, ...]
    order: tuple[int, ...]
    feature_layout: FeatureLayout = "halves"
    add: bool = True
    channels_first: bool = False

    @property
    def parts(self) -> int:
        """Into how many parts each row is cut, before the parts are put in order."""
        return 2 if self.feature_layout == "sines_first" else 1

    @property
    def pieces(self) -> list[int]:
        """The order of the parts of all axes: which comes first, second, ..."""
        return [self.parts * axis + part for part in range(self.parts) for axis in self.order]

    def shape(self, places: Sequence[Axis], features: int) -> tuple[Axis, ...]:
        """Return the axes of a tensor in their order."""
        return (BATCH, fixed(features), *places) if self.channels_first else (BATCH, *places, fixed(features))


class GridRows(nn.Module):
    """Rows of every place of a grid, added to x, or returned."""

    axes: Final[int]
    parts: Final[int]
    width: Final[int]
    add: Final[bool]
    channels_first: Final[bool]

    def __init__(
        self, sources: Sequence[AxisRows], widths: Sequence[int], layout: GridLayout, dtype: torch.dtype
    ) -> None:
        super().__init__()
        self.sources = nn.ModuleList(sources)  # type: ignore[arg-type]
        self.widths = list(widths)
        self.axes = len(widths)
        self.width = sum(widths)
        self.parts = layout.parts
        self.pieces = layout.pieces
        self.add = layout.add
        self.channels_first = layout.channels_first
        self.dtype = dtype

    def forward(self, x: Tensor) -> Tensor:
        """Return x + rows, as x lies: (batch, *grid, dim) or (batch, dim, *grid); or the rows alone, a batch of one."""
        first = 2 if self.channels_first else 1
        check_width(x.shape[1 if self.channels_first else -1], self.width)
        rows = self.places([x.shape[first + axis] for axis in range(self.axes)])
        if self.channels_first:
            rows = rows.movedim(-1, 1)  # (1, *grid, dim) -> (1, dim, *grid)
        if self.add:
            return added(x, rows)
        return rows.to(self.dtype)

    def places(self, sizes: list[int]) -> Tensor:
        """Return the rows of every place: (1, *sizes, dim)."""
        pieces: list[Tensor] = []
        for axis, source in enumerate(self.sources):
            rows = exactly(source.arange(sizes[axis], self.widths[axis]), sizes[axis])  # type: ignore[operator]
            for piece in rows.chunk(self.parts, -1):
                pieces.append(spread(piece, axis, sizes))
        return torch.cat([pieces[i] for i in self.pieces], -1)


class MaskedGrid(nn.Module):
    """Rows of every place of padded images, by a mask (batch, height, width) of 1 and 0."""

    columns_first: Final[bool]
    channels_first: Final[bool]
    __constants__ = ("count_dtype",)
    count_dtype = None

    def __init__(self, source: CountRows, layout: GridLayout, dtype: torch.dtype) -> None:
        super().__init__()
        self.source = source
        self.columns_first = layout.order[0] == 1
        self.channels_first = layout.channels_first
        self.dtype = dtype

    def forward(self, pixel_mask: Tensor) -> Tensor:
        """Return the rows of all places: (batch, height, width) -> (batch, dim, height, width), or dim last."""
        # The count at a place is how many valid places lie up to it, the last count that of a whole column or row.
        down, across = pixel_mask.cumsum(1, dtype=self.count_dtype), pixel_mask.cumsum(2, dtype=self.count_dtype)
        by_row: Tensor = self.source(down, down[:, -1:, :])
        by_column: Tensor = self.source(across, across[:, :, -1:])
        rows = torch.cat([by_column, by_row] if self.columns_first else [by_row, by_column], -1)
        return (rows.movedim(-1, 1) if self.channels_first else rows).to(self.dtype)


def encode(
    sources: Sequence[AxisRows],
    widths: Sequence[int],
    spec: Spec,
    layout: GridLayout,
    *,
    formula: Formula,
    step: float = 1.0,
) -> Encoding:
    """Return the encoding of a grid as large as x.

    Args:
        sources: Rows of each axis.
        widths: Features of each axis.
        formula: A call -> the output in float64.
        step: How far a place is from the next, in radians, at most.
    """
    where = grid(spec, layout.axes, [source.end for source in sources])
    x = Port("x", layout.shape(where.places, sum(widths)), spec.torch_dtype)
    module = GridRows(sources, widths, layout, getattr(torch, spec.torch_dtype))
    return encoding(spec, where, _claims(sources[0], step), join_x("grid", module, x, add=layout.add), formula)


def encode_masked(source: CountRows, width: int, spec: Spec, layout: GridLayout, *, formula: Formula) -> Encoding:
    """Return the encoding of images of several sizes, padded to the largest: a mask says which places are valid.

    Counts begin at 1, and counts beyond the end of the source are refused. `width` is the features of an axis.
    """
    where = padded_grid(spec, layout.axes, None if source.end is None else source.end + 1)
    y = Port("y", layout.shape(where.places, 2 * width), spec.torch_dtype)
    module = MaskedGrid(source, layout, getattr(torch, spec.torch_dtype))
    return encoding(spec, where, _claims(source, step=1.0), Join("grid", module, (), (y,)), formula)


def _claims(source: AxisRows, step: float) -> Claims:
    """Return what a source says of the rows of an axis, whose places are at most `step` radians from each other."""
    return claims_of(
        source,
        tables="a row of it is rows of several axes, side by side",
        probes=source.probes,
        at=lambda case: math.ceil(case.max_position * max(1.0, step)),
    )
