"""Encodings that are a grid of rows, resampled to as many places as x has: added to x, or returned.

Along each axis the rows are multiplied by a small matrix of weights: (places, rows). On a plane that is two products,
down and across, of the whole table: twenty times cheaper than to weigh sixteen rows for each place.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from posenc.encoding import SAME_BITS, CaseLike, Encoding, NoTables, Probes, Tables, Tolerance, eps, rounding
from posenc.families.axis_weights import AxisWeights, Filter
from posenc.lookup import check_width
from posenc.ports import BATCH, SEQ, Array, Axis, Feeds, Floats, Integers, Port, fixed
from posenc.spec import Spec

HEIGHT, WIDTH = Axis("height", "grid"), Axis("width", "grid")


class Formula(Protocol):
    """The resampled grid in float64."""

    def __call__(self, sizes: Sequence[int]) -> Floats:
        """Return the rows of as many places: (*sizes, features)."""


class Line(nn.Module):
    """A table of (rows, features), resampled to the length of x."""

    def __init__(self, weight: Tensor, of: Filter) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.along = AxisWeights(weight.shape[0], of, weight.dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Return the rows of the places of x: (batch, seq, features) -> (seq, features)."""
        check_width(x.shape[2], self.weight.shape[1])
        return self.rows(x.shape[1])

    def rows(self, length: int) -> Tensor:
        """Return the rows of as many places: (length, features)."""
        rows: Tensor = self.along(length, self.along.unlike(length)) @ self.weight
        return rows


class Plane(nn.Module):
    """A table of (height, width, features), resampled to the height and the width of x."""

    together: Final[bool]

    def __init__(self, weight: Tensor, of: Filter) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.down = AxisWeights(weight.shape[0], of, weight.dtype)
        self.across = AxisWeights(weight.shape[1], of, weight.dtype)
        self.together = of.together

    def forward(self, x: Tensor) -> Tensor:
        """Return the rows of the places of x: (batch, height, width, features) -> (height, width, features)."""
        check_width(x.shape[3], self.weight.shape[2])
        return self.rows(x.shape[1], x.shape[2])

    def rows(self, height: int, width: int) -> Tensor:
        """Return the rows of as many places: (height, width, features)."""
        of_height, of_width, features = self.weight.shape
        shift_down, shift_across = self.down.unlike(height), self.across.unlike(width)
        if self.together:
            shift_down = (shift_down + shift_across).clamp(0, 1)
            shift_across = shift_down
        down: Tensor = self.down(height, shift_down) @ self.weight.reshape(of_height, of_width * features)
        rows: Tensor = self.across(width, shift_across) @ down.reshape(height, of_width, features)
        return rows


class Fixed(nn.Module):
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


class Added(nn.Module):
    """x plus the rows of its places."""

    def __init__(self, source: nn.Module) -> None:
        super().__init__()
        self.source = source

    def forward(self, x: Tensor) -> Tensor:
        """Return x + rows: (batch, *sizes, features) -> the same."""
        rows: Tensor = self.source(x)
        return (x.to(rows.dtype) + rows).to(x.dtype)


class Tokens(nn.Module):
    """The rows of the prefix, then those of the places of x, line by line."""

    def __init__(self, source: nn.Module, prefix: Tensor, dtype: torch.dtype) -> None:
        super().__init__()
        self.source = source
        self.prefix = nn.Parameter(prefix)
        self.dtype = dtype

    def forward(self, x: Tensor) -> Tensor:
        """Return the rows: (batch, *sizes, features) -> (1, prefix + places, features)."""
        rows: Tensor = self.source(x).flatten(0, -2)
        return torch.cat([self.prefix, rows]).unsqueeze(0).to(self.dtype)


class WholeTable(nn.Module):
    """Rows that were resampled to one size, with no input."""

    table: Tensor  # (1, prefix + places, features)

    def __init__(self, table: Tensor, dtype: torch.dtype) -> None:
        super().__init__()
        self.register_buffer("table", table)
        self.dtype = dtype

    def forward(self) -> Tensor:
        """Return the rows: (1, prefix + places, features)."""
        return self.table.to(self.dtype)


@dataclass(frozen=True)
class Grid:
    """A learned grid: weight (*grid, features), prefix (tokens, features), rows that are kept as they are."""

    weight: Tensor
    prefix: Tensor
    of: Filter

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many rows it has along each axis."""
        return tuple(self.weight.shape[:-1])

    def source(self, dtype: torch.dtype) -> Line | Plane:
        """Return the module that resamples it, in a dtype."""
        kind = Line if len(self.sizes) == 1 else Plane
        return kind(self.weight.to(dtype), self.of)

    def resampled(self, sizes: Sequence[int]) -> Tensor:
        """Return the rows of as many places, by float64, rounded once: (*sizes, features)."""
        with torch.no_grad():
            rows: Tensor = self.source(torch.float64).rows(*sizes)
        return rows.to(self.weight.dtype)

    def off(self, sizes: Sequence[int], dtype: str) -> float:
        """Return how far rows may be from the formula where weights and products are of a dtype."""
        return sum(map(self.of.roundings, self.sizes, sizes)) * self.rounded(dtype)

    def rounded(self, dtype: str) -> float:
        """Return half an eps of its largest number."""
        return float(self.weight.abs().max()) * eps(dtype) / 2


def encode(grid: Grid, spec: Spec, *, add: bool, size: tuple[int, ...], formula: Formula) -> Encoding:
    """Return the encoding that a grid makes of x (batch, *sizes, features): x + rows, or all rows.

    size: to which a baked grid is resampled; a dynamic one takes any.
    """
    x, y = _ports(grid, spec, add, size)
    places = x.axes[1:-1]
    baked = spec.mode == "baked"
    inputs = () if baked and not add else (x,)
    rounded = rounding(spec, add)

    def reference(feeds: Feeds, at: Integers | None = None) -> dict[str, Array]:
        rows = formula(feeds[x.name].shape[1:-1] if inputs else size)
        if add:
            return {y.name: feeds[x.name].astype(np.float64) + rows}
        prefix = grid.prefix.double().numpy()
        return {y.name: np.concatenate([prefix, rows.reshape(-1, rows.shape[-1])])[None]}  # exporters sample rows

    def tolerance(case: CaseLike) -> Tolerance:
        sizes = [axis.size_in(case.sizes) for axis in places]
        own = grid.off(sizes, "float64")
        more = 2 * grid.rounded(spec.angle_dtype) if baked else grid.off(sizes, spec.angle_dtype)  # weights: 1.375^2
        return Tolerance(own + more).plus(rounded)

    def eager_tolerance(case: CaseLike) -> Tolerance:
        sizes = [axis.size_in(case.sizes) for axis in places]
        twice = Tolerance(2 * grid.off(sizes, spec.angle_dtype), 2 * rounded.rtol, 2 * rounded.ulps)
        return SAME_BITS if baked else twice

    return Encoding(
        family="interpolated",
        module=_module(grid, spec, add, size),
        inputs=inputs,
        outputs=(y,),
        reference=reference,
        tolerance=tolerance,
        eager_tolerance=eager_tolerance,
        tables=_no_tables,
        positions=spec.positions,
        probes=Probes(lengths=tuple(dict.fromkeys(grid.sizes))),
    )


def _module(grid: Grid, spec: Spec, add: bool, size: tuple[int, ...]) -> nn.Module:
    dtype = getattr(torch, spec.torch_dtype)
    if spec.mode == "dynamic":
        source = grid.source(grid.weight.dtype)
        return Added(source) if add else Tokens(source, grid.prefix, dtype)
    rows = grid.resampled(size)
    if add:
        return Added(Fixed(rows))
    return WholeTable(torch.cat([grid.prefix, rows.flatten(0, -2)])[None], dtype)


def _ports(grid: Grid, spec: Spec, add: bool, size: tuple[int, ...]) -> tuple[Port, Port]:
    axes: tuple[Axis, ...] = (SEQ,) if len(grid.sizes) == 1 else (HEIGHT, WIDTH)
    tokens, features = len(grid.prefix), fixed(grid.weight.shape[-1])
    names = "*".join(axis.name for axis in axes)
    all_ = Axis(f"{tokens}+{names}" if tokens else names, "length")
    if spec.mode == "baked":
        all_ = fixed(tokens + int(np.prod(size)), "length")
        axes = tuple(fixed(n, axis.kind) for n, axis in zip(size, axes, strict=True))
    x = Port("x", (BATCH, *axes, features), spec.torch_dtype)
    y = replace(x, name="y", axes=x.axes if add else (fixed(1, "batch"), all_, features))
    return x, y


def _no_tables() -> Tables:
    """Raise NoTables: a place has no row of its own."""
    raise NoTables("its rows are weighted sums of several of a table's, which no header computes")
