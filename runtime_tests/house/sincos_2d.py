"""Fixed sines and cosines of the places of a grid: half of the features by the row, half by the column.

As in vision transformers and masked autoencoders (arXiv:2111.06377), whose code calls what comes first "h" and computes
it from the column; here the row comes first.
"""

from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from posenc.call import Call, call_of
from posenc.encoding import CaseLike, Encoding, NoTables, Tables, Tolerance, rounding
from posenc.lookup import check_width
from posenc.ports import BATCH, Array, Axis, Feeds, Floats, Integers, Port, fixed
from posenc.scheme import Unsupported, scheme
from posenc.sincos import SinCosMethod, inverse_frequencies, sincos
from posenc.spec import Spec


class Grid(nn.Module):
    """x plus the rows of two sources, side by side: one read by the row of a place, one by its column."""

    each: Final[int]  # features of either source

    def __init__(self, by_row: SinCosMethod, by_column: SinCosMethod) -> None:
        super().__init__()
        self.by_row = by_row
        self.by_column = by_column
        self.each = by_row.width

    def forward(self, x: Tensor) -> Tensor:
        """Return x + rows: (batch, height, width, dim) -> the same."""
        check_width(x.shape[3], 2 * self.each)
        rows = self.grid(x.shape[1], x.shape[2])
        return (x.to(rows.dtype) + rows).to(x.dtype)

    def grid(self, height: int, width: int) -> Tensor:
        """Return the rows of every place: (1, height, width, dim)."""
        by_row: Tensor = self.by_row.arange(height, self.each)
        by_column: Tensor = self.by_column.arange(width, self.each)
        down = by_row.unsqueeze(2).expand(1, height, width, self.each)
        across = by_column.unsqueeze(1).expand(1, height, width, self.each)
        return torch.cat([down, across], -1)


class Swapped(Grid):
    """The wrong twin: places are those of a grid as wide as this is high. It is right on squares."""

    def grid(self, height: int, width: int) -> Tensor:
        """Return the rows of every place, in the order of another grid."""
        by_row: Tensor = self.by_row.arange(width, self.each)
        by_column: Tensor = self.by_column.arange(height, self.each)
        down = by_row.unsqueeze(2).expand(1, width, height, self.each)
        across = by_column.unsqueeze(1).expand(1, width, height, self.each)
        places: Tensor = torch.cat([down, across], -1).flatten(1, 2)
        return places.reshape(1, height, width, 2 * self.each)


def swapped(module: Grid) -> Grid:
    """Return the wrong twin of a module."""
    return Swapped(module.by_row, module.by_column)


@scheme(
    "sincos_2d",
    paper="arXiv:2111.06377",
    samples=({"dim": 8}, {"dim": 20, "base": 100.0}),
    unsupported=Unsupported(
        positions={
            "offset": "a grid has no first position to shift; use --positions implicit",
            "explicit": "places are those of the grid; use --positions implicit",
            "mask": "a mask counts one position a token, and a place has two; use --positions implicit",
        }
    ),
)
def sincos_2d(spec: Spec, *, dim: int = 768, base: float = 10000.0) -> Encoding:
    """Sines and cosines of row and column, added to the patches of an image.

    dim: features, a multiple of four; the first half goes by the row, the second by the column.
    base: wavelengths grow geometrically from 2 pi to base * 2 pi.
    """
    if dim < 4 or dim % 4 or not base > 1:
        raise ValueError(f"dim must be a multiple of 4 and base above 1, got {dim} and {base}")
    inv_freq = inverse_frequencies(dim // 2, base)
    by_row, by_column = sincos(spec, inv_freq), sincos(spec, inv_freq)
    places = [Axis(name, "grid", most=by_row.end) for name in ("height", "width")]
    x = Port("x", (BATCH, *places, fixed(dim)), spec.torch_dtype)
    y = replace(x, name="y")

    def reference(feeds: Feeds, at: Integers | None = None) -> dict[str, Array]:
        return {y.name: formula(call_of(spec, (x,), feeds, None), base)}  # every row: exporters sample them

    return Encoding(
        family="grid",
        module=Grid(by_row, by_column),
        inputs=(x,),
        outputs=(y,),
        reference=reference,
        tolerance=lambda case: by_row.tolerance(case.max_position).plus(rounding(spec, add=True)),
        eager_tolerance=partial(eager_tolerance, spec, by_row),
        tables=no_tables,
        positions=spec.positions,
        end=by_row.end,
        probes=by_row.probes,
    )


def eager_tolerance(spec: Spec, source: SinCosMethod, case: CaseLike) -> Tolerance:
    """Return how far a graph may be from the eager module: as far as its rows may, and two roundings of the sums."""
    off = source.eager_tolerance(case.max_position)
    rounded = rounding(spec, add=True)
    return off if off.bits else replace(off, rtol=2 * rounded.rtol, ulps=2 * rounded.ulps)


def formula(call: Call, base: float) -> Floats:
    """Return x + PE in float64: of row and column each all sines, then all cosines."""
    (x,) = call.values
    quarter = x.shape[3] // 4
    angles = [at[..., None] / float(base) ** (np.arange(quarter) / quarter) for at in call.positions]
    y: Floats = x.astype(np.float64)
    y += np.concatenate([wave(angle) for angle in angles for wave in (np.sin, np.cos)], -1)
    return y


def no_tables() -> Tables:
    """Raise NoTables: two tables make a row, and no header puts rows and columns side by side for sums with x."""
    raise NoTables("a row of it is two rows side by side")
