"""Encodings of the places of a grid: the features of a place are rows of several sources, one for each axis.

A source is asked for the rows of a whole axis, by `arange(length, width)`: few numbers, which are then repeated along
the other axes. Places that a mask of an image says are counted one by one, in `MaskedGrid`.

The masks of padded images are `Mask`s over two axes of a grid: positions are counts along each axis, from 1 on. Plans
try long grids one axis at a time. Torch's exporter sees one source for both axes and writes its tables once.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import torch
from torch import Tensor, nn

from posenc.arithmetic import added
from posenc.call import Formula
from posenc.encoding import Encoding
from posenc.lookup import check_width, exactly
from posenc.maker import Claims, Join, claims_of, encoding
from posenc.ports import BATCH, Axis, Mask, Port, fixed
from posenc.sources.grid.axis_rows import AxisRows, CountRows
from posenc.spec import Spec
from posenc.where import Where, grid

FeatureLayout = Literal["halves", "interleaved", "sines_first"]
NO_SHIFT = {
    "offset": "a grid has no first position to shift; use --positions implicit",
    "explicit": "places are those of the grid; use --positions implicit",
}
"""Why places are not given in these ways."""


@dataclass(frozen=True)
class GridLayout:
    """How what goes in and out lies.

    axes: names of the axes of the grid. order: which of them comes first among the features, second, ...
    feature_layout: the sources' rows one after another ("halves" and "interleaved", as they come), or all sines, then
        all cosines. add: x + rows, or the rows alone. channels_first: features come before the grid.
    """

    axes: tuple[str, ...]
    order: tuple[int, ...]
    feature_layout: FeatureLayout = "halves"
    add: bool = True
    channels_first: bool = False

    @property
    def parts(self) -> int:
        """Into how many parts each row is cut before they are put in order."""
        return 2 if self.feature_layout == "sines_first" else 1

    @property
    def pieces(self) -> list[int]:
        """Which of the parts of all axes comes first, second, ..."""
        return [self.parts * axis + part for part in range(self.parts) for axis in self.order]

    def shape(self, batch: Axis, places: Sequence[Axis], features: Axis) -> tuple[Axis, ...]:
        """Return the axes of a tensor in their order."""
        return (batch, features, *places) if self.channels_first else (batch, *places, features)


class Grid(nn.Module):
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
            rows = rows.movedim(-1, 1)
        if self.add:
            return added(x, rows)
        return rows.to(self.dtype)

    def places(self, sizes: list[int]) -> Tensor:
        """Return the rows of every place: (1, *sizes, dim)."""
        pieces: list[Tensor] = []
        for axis, source in enumerate(self.sources):
            rows = exactly(source.arange(sizes[axis], self.widths[axis]), sizes[axis])  # type: ignore[operator]
            for piece in rows.chunk(self.parts, -1):
                pieces.append(self.spread(piece, axis, sizes))
        return torch.cat([pieces[i] for i in self.pieces], -1)

    def spread(self, rows: Tensor, axis: int, sizes: list[int]) -> Tensor:
        """Return rows of one axis at every place: (1, size, width) -> (1, *sizes, width)."""
        for _ in range(axis):
            rows = rows.unsqueeze(1)
        for _ in range(self.axes - 1 - axis):
            rows = rows.unsqueeze(-2)
        return rows.expand([1] + sizes + [rows.shape[-1]])  # noqa: RUF005 (TorchScript unpacks no list)


class MaskedGrid(nn.Module):
    """Rows of every place of images that are padded: (batch, height, width) of 1 and 0 -> a row each."""

    columns_first: Final[bool]
    channels_first: Final[bool]

    def __init__(self, source: CountRows, layout: GridLayout, dtype: torch.dtype) -> None:
        super().__init__()
        self.source = source
        self.columns_first = layout.order[0] == 1
        self.channels_first = layout.channels_first
        self.dtype = dtype

    def forward(self, pixel_mask: Tensor) -> Tensor:
        """Return the rows of all places, by how many valid ones there are up to each: (batch, dim, height, width)."""
        down, across = pixel_mask.cumsum(1), pixel_mask.cumsum(2)
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
    """Return the encoding of a grid whose size is that of x, by a source of rows for each axis.

    widths: features of each. formula: a call -> the output in float64. step: radians that a place is from the next,
    at most.
    """
    where = grid(spec, layout.axes, [source.end for source in sources])
    places = where.places
    features = fixed(sum(widths))
    x = Port("x", layout.shape(BATCH, places, features), spec.torch_dtype)
    batch = BATCH if layout.add else fixed(1, "batch")
    y = Port("y", layout.shape(batch, places, features), spec.torch_dtype)
    module = Grid(sources, widths, layout, getattr(torch, spec.torch_dtype))
    join = Join("grid", module, (x,), (y,), layout.add)
    return encoding(spec, where, _claims(sources[0], step), join, formula)


def encode_masked(source: CountRows, width: int, spec: Spec, layout: GridLayout, *, formula: Formula) -> Encoding:
    """Return the encoding of images of several sizes, padded to one: a mask says which places are theirs.

    width: features of an axis. Counts begin at 1, and those beyond the end of the source are refused.
    """
    places = [Axis(name, "grid") for name in layout.axes]
    end = None if source.end is None else source.end + 1
    mask = Port("pixel_mask", (BATCH, *places), "int64", Mask(offset=1, end=end))
    y = Port("y", layout.shape(BATCH, places, fixed(2 * width)), spec.torch_dtype)
    module = MaskedGrid(source, layout, getattr(torch, spec.torch_dtype))
    where = Where(spec.positions, tuple(places), (mask,), end)
    return encoding(spec, where, _claims(source, step=1.0), Join("grid", module, (), (y,)), formula)


def _claims(source: AxisRows, step: float) -> Claims:
    """Return what a source says of the rows of an axis, whose places are so many radians from each other at most."""
    return claims_of(
        source,
        tables="a row of it is rows of several axes, side by side",
        probes=source.probes,
        at=lambda case: math.ceil(case.max_position * max(1.0, step)),
    )
