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
from posenc.sources.interpolated.modules import Resample1d, Resample2d, ResampledRows, ResampleEachImage
from posenc.sources.interpolated.weights import Filter
from posenc.spec import Spec
from posenc.where import Where

NO_TABLES = no_tables("its rows are weighted sums of several of a table's, which no header computes")
SUMS = "a resampled row is a sum of rows, each part of which is rounded"
HEIGHT, WIDTH = Axis("height", "grid"), Axis("width", "grid")


class AddRows(nn.Module):
    """x plus the rows of its places."""

    def __init__(self, source: nn.Module) -> None:
        super().__init__()
        self.source = source

    def forward(self, x: Tensor) -> Tensor:
        """Return x + rows: (batch, *sizes, features) -> the same."""
        return added(x, self.source(x))


class PrefixThenRows(nn.Module):
    """The rows of the prefix, then those of the places of x, line by line."""

    def __init__(self, source: nn.Module, prefix: Tensor, dtype: torch.dtype) -> None:
        super().__init__()
        self.source = source
        self.prefix = nn.Parameter(prefix)
        self.dtype = dtype

    def forward(self, x: Tensor) -> Tensor:
        """Return the rows: (batch, *sizes, features) -> (1, prefix + places, features)."""
        rows: Tensor = self.source(x).flatten(0, -2)  # (*sizes, features) -> (places, features)
        return torch.cat([self.prefix, rows]).unsqueeze(0).to(self.dtype)


class ResampledTable(nn.Module):
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
class ResampledGrid:
    """A learned grid and the filter that resamples it.

    Args:
        weight: (*grid, features).
        prefix: (tokens, features), rows that are kept as they are.
        filter: the weights of the rows near a place.
    """

    weight: Tensor
    prefix: Tensor
    filter: Filter

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many rows it has along each axis."""
        return tuple(self.weight.shape[:-1])

    def source(self, dtype: torch.dtype) -> Resample1d | Resample2d:
        """Return the module that resamples it, in a dtype."""
        kind = Resample1d if len(self.sizes) == 1 else Resample2d
        return kind(self.weight.to(dtype), self.filter)

    def resampled(self, sizes: Sequence[int]) -> Tensor:
        """Return the rows of as many places, computed in float64 and rounded once: (*sizes, features)."""
        with torch.no_grad():
            rows: Tensor = self.source(torch.float64).rows(*sizes)
        return rows.to(self.weight.dtype)

    def error_bound(self, sizes: Sequence[int], dtype: str) -> float:
        """Return a bound on the error of rows whose weights and products are of a dtype."""
        return sum(map(self.filter.roundings, self.sizes, sizes)) * self.half_ulp(dtype)

    def half_ulp(self, dtype: str) -> float:
        """Return half an eps of its largest number."""
        return float(self.weight.abs().max()) * eps(dtype) / 2


def encode(grid: ResampledGrid, spec: Spec, *, add: bool, size: tuple[int, ...], formula: Formula) -> Encoding:
    """Return the encoding that a grid makes of x (batch, *sizes, features): x + rows, or all rows.

    Args:
        add: whether rows are added to x.
        size: the size of a baked grid; a dynamic one takes any.
        formula: a call -> the output in float64.
    """
    x, y = _ports(grid, spec, add, size)
    places, baked = x.axes[1:-1], spec.mode == "baked"
    inputs = () if baked and not add else (x,)

    def error(case: CaseLike) -> Tolerance:
        sizes = [axis.size_in(case.sizes) for axis in places]
        reference = grid.error_bound(sizes, "float64")
        if baked:  # rounded once; weights of both axes add up to at most 1.375^2 < 2
            return Tolerance(reference + 2 * grid.half_ulp(spec.angle_dtype))
        return Tolerance(reference + grid.error_bound(sizes, spec.angle_dtype))

    def graph_error(case: CaseLike) -> Tolerance:
        sizes = [axis.size_in(case.sizes) for axis in places]
        return SAME_BITS if baked else Tolerance(2 * grid.error_bound(sizes, spec.angle_dtype))

    probes = Probes(lengths=tuple(dict.fromkeys(grid.sizes)))
    claims = Claims(error, graph_error, NO_TABLES, probes, half_safe="" if baked else SUMS)
    join = Join("interpolated", _module(grid, spec, add, size), inputs, (y,), add)
    return encoding(spec, Where(spec.positions), claims, join, formula)


def encode_each(grid: ResampledGrid, spec: Spec, *, add: bool, formula: Formula) -> Encoding:
    """Return the encoding that a grid makes of x (batch, seq, features) and sizes (batch, 2): x + rows, or the rows."""
    x = Port("x", (BATCH, SEQ, fixed(grid.weight.shape[-1])), spec.torch_dtype)
    sizes = Port("sizes", (BATCH, fixed(2)), "int64", Extents(SEQ.name))
    smallest_sizes = (1, 1)  # sizes are an input: any may come, and an error grows as they become smaller
    bound = grid.error_bound(smallest_sizes, spec.angle_dtype)
    reference = grid.error_bound(smallest_sizes, "float64")
    claims = Claims(
        error=lambda case: Tolerance(bound + reference),
        graph_error=lambda case: Tolerance(2 * bound),
        tables=NO_TABLES,
        probes=Probes(),
        half_safe=SUMS,
    )
    module = ResampleEachImage(grid.weight, grid.filter, add=add)
    join = Join("interpolated", module, (x,), (replace(x, name="y"),), add)
    return encoding(spec, Where(spec.positions, ports=(sizes,)), claims, join, formula)


def _module(grid: ResampledGrid, spec: Spec, add: bool, size: tuple[int, ...]) -> nn.Module:
    dtype = getattr(torch, spec.torch_dtype)
    if spec.mode == "dynamic":
        source = grid.source(grid.weight.dtype)
        return AddRows(source) if add else PrefixThenRows(source, grid.prefix, dtype)
    rows = grid.resampled(size)
    if add:
        return AddRows(ResampledRows(rows))
    return ResampledTable(torch.cat([grid.prefix, rows.flatten(0, -2)])[None], dtype)


def _ports(grid: ResampledGrid, spec: Spec, add: bool, size: tuple[int, ...]) -> tuple[Port, Port]:
    axes: tuple[Axis, ...] = (SEQ,) if len(grid.sizes) == 1 else (HEIGHT, WIDTH)
    tokens, features = len(grid.prefix), fixed(grid.weight.shape[-1])
    names = "*".join(axis.name for axis in axes)
    tokens_axis = Axis(f"{tokens}+{names}" if tokens else names, "length")
    if spec.mode == "baked":
        tokens_axis = fixed(tokens + int(np.prod(size)), "length")
        axes = tuple(fixed(n, axis.kind) for n, axis in zip(size, axes, strict=True))
    x = Port("x", (BATCH, *axes, features), spec.torch_dtype)
    y = replace(x, name="y", axes=x.axes if add else (fixed(1, "batch"), tokens_axis, features))
    return x, y
