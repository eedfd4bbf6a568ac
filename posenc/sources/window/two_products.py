"""Biases of places on a grid, by the queries: a product with a row for each difference of rows, and one of columns.

A table of a side has 2 side - 1 rows, and places i and j have row i - j + side - 1. For another side the table is first
resampled, linearly, to 2 side - 1 rows of that side.

The bias is two products, and a sum that repeats both: the queries of a line with the rows of that line, (side, side,
head_dim), and the same across. No square of places is stored. Weights in the graph resample a table for another side,
as in `interpolated`; Resize is not used. Measured for 25 windows of 14 x 14 with 12 heads, one thread: 37 ms
baked, 49 ms dynamic, 75 ms for transformers' own function in eager PyTorch; for two heads of 64 x 64: 48, 51 and 145
ms.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from posenc.arithmetic import added
from posenc.call import Formula
from posenc.encoding import Encoding, Probes, Tolerance, eps, no_tables
from posenc.lookup import check_width, take
from posenc.maker import Claims, Join, encoding
from posenc.ports import BATCH, Axis, Port, fixed
from posenc.sources.bias import encode as bias
from posenc.sources.bias.by_query import LARGEST, PRODUCTS
from posenc.sources.interpolated.weights import AxisWeights, Filter
from posenc.sources.window import encode as window
from posenc.sources.window.encode import Sides
from posenc.spec import Spec
from posenc.where import Where

LINEAR = Filter(cubic=False)
RESAMPLED = 8
"""Roundings of a resampled number, relative to the largest: each of its two weights has a quotient, a difference and,
beyond an edge, a sum behind it, both products add up to one rounding, and so does their sum."""
LENGTHS = (Axis("height", "grid"), Axis("width", "grid"))
TOKENS = Axis("height*width", "length")


@dataclass(frozen=True)
class SideTables:
    """What is trained: (2 height - 1, head_dim) of differences of rows, (2 width - 1, head_dim) of columns."""

    rows: Tensor
    columns: Tensor

    @property
    def both_sides(self) -> tuple[Tensor, Tensor]:
        """Both tables."""
        return self.rows, self.columns

    @property
    def sides(self) -> Sides:
        """The sides that they were trained for."""
        height, width = (len(table) // 2 + 1 for table in self.both_sides)
        return height, width

    def to(self, dtype: torch.dtype) -> "SideTables":
        """Return them in a dtype."""
        return SideTables(self.rows.to(dtype), self.columns.to(dtype))

    def resampled(self, sides: Sides) -> "SideTables":
        """Return the tables for other sides, by float64, rounded once; for its own side a table keeps its numbers."""
        with torch.no_grad():
            rows, columns = (
                Resampled(table.double()).table(side)[:-1].to(table.dtype)
                for table, side in zip(self.both_sides, sides, strict=True)
            )
        return SideTables(rows, columns)

    def error(self, unit: float, resampled: float) -> float:
        """Return how far a bias may be off where each rounding costs half a `unit`, whatever the order of sums.

        A product of a query and a row has as many roundings as features, and the sum of two products one more, each of
        the largest sum; each number of a row has `resampled` roundings.
        """
        sums = sum(float(table.abs().sum(1).max()) for table in self.both_sides)
        numbers = sum(float(table.abs().amax(0).sum()) for table in self.both_sides)
        return unit / 2 * LARGEST * ((self.rows.shape[1] + 2) * sums + resampled * numbers)


class StoredSides(nn.Module):
    """The rows of a side of a fixed length, and the row for each pair of places."""

    index: Tensor  # (side, side)

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(table)
        self.register_buffer("index", differences(table.shape[0] // 2 + 1, table), persistent=False)

    def forward(self, side: int) -> Tensor:
        """Return the row for each pair of places: (side, side, head_dim)."""
        return take(self.weight, self.index, self.weight.shape[0])


class Resampled(nn.Module):
    """The rows of any side, resampled in the graph."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(table)
        self.along = AxisWeights(table.shape[0], LINEAR, table.dtype)

    def forward(self, side: int) -> Tensor:
        """Return the row for each pair of places: (side, side, head_dim)."""
        table = self.table(side)
        return take(table, differences(side, table), table.shape[0])

    def table(self, side: int) -> Tensor:
        """Return the row of every difference, and one more that is never read: (2 side, head_dim)."""
        # (2 side, trained rows) @ (trained rows, head_dim) -> (2 side, head_dim)
        table: Tensor = self.along.differences(side) @ self.weight
        return table


def differences(side: int, like: Tensor) -> Tensor:
    """Return the row for each pair of places of a side: (side, side), on the device of another tensor."""
    place = torch.arange(side, device=like.device)
    return place.unsqueeze(1) - place + (side - 1)


class PlacesBias(nn.Module):
    """The bias of the places of a grid, by their queries: the part that all forms share."""

    def __init__(self, down: nn.Module, across: nn.Module, sides: Sides, like: Tensor, dtype: torch.dtype) -> None:
        super().__init__()
        self.down = down
        self.across = across
        self.height, self.width = sides
        self.head_dim = like.shape[1]
        self.own_dtype = like.dtype
        self.dtype = dtype

    def bias(self, q: Tensor) -> Tensor:
        """Return the bias: (batch, heads, height, width, head_dim) -> (batch, heads, places, places)."""
        check_width(q.shape[4], self.head_dim)
        q = q.to(self.own_dtype)
        of_rows: Tensor = self.down(q.shape[2])
        of_columns: Tensor = self.across(q.shape[3])
        # Each line of queries with the rows of that line:
        # (batch, heads, height, width, head_dim) @ (height, head_dim, height) -> (batch, heads, height, width, height)
        by_row = torch.matmul(q, of_rows.transpose(1, 2))
        # (batch, heads, width, height, head_dim) @ (width, head_dim, width), then height before width again
        by_column = torch.matmul(q.transpose(2, 3), of_columns.transpose(1, 2)).transpose(2, 3)
        # (batch, heads, height, width, height, width) -> (batch, heads, places, places)
        return (by_row.unsqueeze(5) + by_column.unsqueeze(4)).flatten(4).flatten(2, 3)

    def on_grid(self, q: Tensor) -> Tensor:
        """Return queries by their rows and columns: (batch, heads, height * width, head_dim)."""
        if q.shape[2] != self.height * self.width:
            raise ValueError("q has {} tokens, this window {} x {}".format(q.shape[2], self.height, self.width))
        grid: Tensor = q.unflatten(2, [self.height, self.width])
        return grid


class Window(PlacesBias):
    """The bias of a window of a fixed size."""

    def forward(self, q: Tensor) -> Tensor:
        """Return the bias: (batch, heads, tokens, head_dim) -> (batch, heads, tokens, tokens)."""
        return self.bias(self.on_grid(q)).to(self.dtype)


class WindowScores(PlacesBias):
    """Scores with the bias of a window of a fixed size."""

    def forward(self, q: Tensor, scores: Tensor) -> Tensor:
        """Return biased scores: (batch, heads, tokens, head_dim), (batch, heads, tokens, tokens) -> as scores."""
        return added(scores, self.bias(self.on_grid(q)))


class AnyGrid(PlacesBias):
    """The bias of a grid as large as each q."""

    def forward(self, q: Tensor) -> Tensor:
        """Return the bias: (batch, heads, height, width, head_dim) -> (batch, heads, places, places)."""
        return self.bias(q).to(self.dtype)


def encode(tables: SideTables, spec: Spec, *, size: Sides, scores: bool, formula: Formula) -> Encoding:
    """Return the encoding that two tables make: a bias, or biased scores of a fixed window.

    Args:
        tables: Rows and columns, in the dtype of angles.
        spec: A baked encoding has a fixed window, a dynamic one takes any.
        size: The sides of a baked window, to which the tables are resampled once.
        scores: Whether scores come in.
        formula: A call -> the output in float64.
    """
    inputs, output = _ports(spec, tables.rows.shape[1], size, scores)
    resampled = int(size != tables.sides) if spec.mode == "baked" else RESAMPLED
    own, exact = tables.error(eps(spec.angle_dtype), resampled), tables.error(eps("float64"), RESAMPLED)
    claims = Claims(
        error=lambda case: Tolerance(own + exact),
        graph_error=lambda case: Tolerance(2 * own),
        tables=no_tables(window.NO_TABLES),
        probes=Probes(lengths=tuple(dict.fromkeys(tables.sides))),
        half_safe=PRODUCTS,
    )
    module = _module(tables, spec, size, scores)
    join = Join("window", module, inputs, (output,), added=scores)
    return encoding(spec, Where(spec.positions), claims, join, formula)


def _module(tables: SideTables, spec: Spec, size: Sides, scores: bool) -> nn.Module:
    dtype = getattr(torch, spec.torch_dtype)
    if spec.mode == "dynamic":
        return AnyGrid(Resampled(tables.rows), Resampled(tables.columns), size, tables.rows, dtype)
    tables = tables.resampled(size)
    kind = WindowScores if scores else Window
    return kind(StoredSides(tables.rows), StoredSides(tables.columns), size, tables.rows, dtype)


def _ports(spec: Spec, head_dim: int, size: Sides, scores: bool) -> tuple[tuple[Port, ...], Port]:
    """Return the inputs, queries by tokens of a fixed window or by rows and columns, and scores; and the output."""
    baked, heads = spec.mode == "baked", Axis("heads", "heads")
    tokens = fixed(size[0] * size[1], "length") if baked else TOKENS
    places: Sequence[Axis] = (tokens,) if baked else LENGTHS
    q = Port("q", (BATCH, heads, *places, fixed(head_dim)), spec.torch_dtype)
    square = Port("scores", (BATCH, heads, tokens, tokens), spec.torch_dtype)
    output = replace(square, name=bias.BIASED if scores else "bias")
    return (q, square) if scores else (q,), output
