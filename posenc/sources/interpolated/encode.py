"""Encodings that are a grid of rows, resampled to as many places as x has: added to x, or returned."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from posenc.arithmetic import added
from posenc.call import Formula
from posenc.encoding import SAME_BITS, CaseLike, Encoding, Probes, Tolerance, eps, no_tables
from posenc.maker import Claims, Join, encoding
from posenc.ports import BATCH, SEQ, Axis, Extents, Port, fixed
from posenc.sources.interpolated.modules import Each, Fixed, Line, Plane
from posenc.sources.interpolated.weights import Filter
from posenc.spec import Spec
from posenc.where import Where

NO_TABLES = no_tables("its rows are weighted sums of several of a table's, which no header computes")
SUMS = "a resampled row is a sum of rows, each part of which is rounded"
HEIGHT, WIDTH = Axis("height", "grid"), Axis("width", "grid")


class Added(nn.Module):
    """x plus the rows of its places."""

    def __init__(self, source: nn.Module) -> None:
        super().__init__()
        self.source = source

    def forward(self, x: Tensor) -> Tensor:
        """Return x + rows: (batch, *sizes, features) -> the same."""
        return added(x, self.source(x))


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

    size: to which a baked grid is resampled; a dynamic one takes any. formula: a call -> the output in float64.
    """
    x, y = _ports(grid, spec, add, size)
    places, baked = x.axes[1:-1], spec.mode == "baked"
    inputs = () if baked and not add else (x,)

    def error(case: CaseLike) -> Tolerance:
        sizes = [axis.size_in(case.sizes) for axis in places]
        own = grid.off(sizes, "float64")
        more = 2 * grid.rounded(spec.angle_dtype) if baked else grid.off(sizes, spec.angle_dtype)  # weights: 1.375^2
        return Tolerance(own + more)

    def graph_error(case: CaseLike) -> Tolerance:
        off = grid.off([axis.size_in(case.sizes) for axis in places], spec.angle_dtype)
        return SAME_BITS if baked else Tolerance(2 * off)

    probes = Probes(lengths=tuple(dict.fromkeys(grid.sizes)))
    claims = Claims(error, graph_error, NO_TABLES, probes, half_safe="" if baked else SUMS)
    join = Join("interpolated", _module(grid, spec, add, size), inputs, (y,), add)
    return encoding(spec, Where(spec.positions), claims, join, formula)


def encode_each(grid: Grid, spec: Spec, *, add: bool, formula: Formula) -> Encoding:
    """Return the encoding that a grid makes of x (batch, seq, features) and sizes (batch, 2): x + rows, or the rows."""
    x = Port("x", (BATCH, SEQ, fixed(grid.weight.shape[-1])), spec.torch_dtype)
    sizes = Port("sizes", (BATCH, fixed(2)), "int64", Extents(SEQ.name))
    worst = (1, 1)  # sizes are numbers of a call: any may come
    off, exact = grid.off(worst, spec.angle_dtype), grid.off(worst, "float64")
    claims = Claims(
        error=lambda case: Tolerance(off + exact),
        graph_error=lambda case: Tolerance(2 * off),
        tables=NO_TABLES,
        probes=Probes(),
        half_safe=SUMS,
    )
    module = Each(grid.weight, grid.of, add=add)
    join = Join("interpolated", module, (x,), (replace(x, name="y"),), add)
    return encoding(spec, Where(spec.positions, ports=(sizes,)), claims, join, formula)


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
