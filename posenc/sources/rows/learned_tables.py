"""Sources of trained rows: a table of positions, or several tables whose rows are added up."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from posenc.encoding import SAME_BITS, NoTables, Probes, Tables, Tolerance, too_small
from posenc.lookup import check_width, inside, leading, take


class LearnedTable(nn.Module):
    """A trainable row for each position."""

    probes = Probes()

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.half_safe = too_small(float(weight.abs().max()))
        self.weight = nn.Parameter(weight)
        self.end = weight.shape[0]

    def forward(self, positions: Tensor, width: int) -> Tensor:
        """Return the rows at int64 positions: (...) -> (..., dim)."""
        check_width(width, self.weight.shape[1])
        return take(self.weight, inside(positions, self.weight.shape[0]), self.weight.shape[0])

    def arange(self, length: int, width: int) -> Tensor:
        """Return the rows of positions 0..length-1: (1, length, dim)."""
        check_width(width, self.weight.shape[1])
        return leading(self.weight, length)

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far rows may be from the reference: a look-up is exact."""
        return Tolerance()

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Graphs must give the same bits as eager."""
        return SAME_BITS

    def tables(self) -> Tables:
        """Return the table, whose rows hold no pairs."""
        rows = self.weight.detach()
        return Tables("rows", {"table": rows}, (0,) * rows.shape[1], rows.shape[1], None, self.end)


class SummedTables(nn.Module):
    """Rows of several tables, one for each position of a token, added up from the first to the last.

    A table may stand there twice: LayoutLM reads both edges of a word in one table.
    """

    probes = Probes()
    __constants__ = ("count_dtype",)
    count_dtype = None

    def __init__(self, tables: Sequence[LearnedTable]) -> None:
        super().__init__()
        self.half_safe = max((table.half_safe for table in tables), key=len)
        self.each = nn.ModuleList(tables)
        self.ends = tuple(table.end for table in tables)
        self.end = max(self.ends)

    def forward(self, positions: Tensor, width: int) -> Tensor:
        """Return the sums of rows at int64 positions: (tables, ...) -> (..., dim)."""
        # (tables, ...) -> (..., dim) of each table
        rows: list[Tensor] = []
        for i, table in enumerate(self.each):
            rows.append(table(positions[i], width))
        # The order of a sum decides its last bit: the first table comes first, as in the models.
        total: Tensor = rows[0]
        for row in rows[1:]:
            total = total + row
        return total

    def arange(self, length: int, width: int) -> Tensor:
        """Return the sums at positions 0..length-1 of every table: (1, length, dim)."""
        return self.forward(torch.arange(length, dtype=self.count_dtype).expand(len(self.each), 1, length), width)

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far sums may be from the reference: half an eps of the largest possible sum for each addition."""
        weights = [weight.detach() for table in self.each for weight in table.parameters()]
        largest = sum(float(weight.abs().max()) for weight in weights)
        return Tolerance(atol=(len(weights) - 1) * torch.finfo(weights[0].dtype).eps / 2 * largest)

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Graphs must give the same bits as eager."""
        return SAME_BITS

    def tables(self) -> Tables:
        """Raise NoTables: a header looks up one row and cannot sum several."""
        raise NoTables("a row of it is a sum of rows of several tables: export each by its key, and add those up")
