"""The errors of stored tables: of all rows, a block at a time; a block that several layers have is measured once.

Layers mostly store the same table again. Bytes are compared ten times as fast as numbers with their closed form: every
row of gigabytes of tables is looked at in a few seconds, and one wrong row among millions is seen.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from posenc_export.read.errors.by_position import Columns, Exact, Floats, columns_of, errors_of
from posenc_export.read.values import Array

BLOCK = 1 << 18
"""Numbers of a block: 2048 rows of 128."""
REFERENCES = 4
"""Tables that others are compared with: cosines and sines, of two kinds."""
NUMBERS = 1 << 28
"""Numbers of a file that are compared with their closed form: 16 tables of 131072 x 128."""
ALIKE = 32
"""How many bytes' worth of comparing with another table count as a number: it is that much faster."""
MATCHED = 1024
"""Rows by which columns are told apart."""
SECONDS = 20.0
"""How long that may take, on a disk of any kind."""
Indices = NDArray[np.int64]


@dataclass
class Effort:
    """How much may still be compared.

    Args:
        numbers: that are compared with a closed form.
        seconds: how long it may take, from the first block on.
    """

    numbers: int = NUMBERS
    seconds: float = SECONDS
    _deadline: float | None = field(default=None, init=False)

    def spend(self, numbers: int) -> bool:
        """Count numbers that are to be compared; return whether that is within the bounds."""
        if self._deadline is None:
            self._deadline = time.monotonic() + self.seconds
        self.numbers -= numbers
        return self.numbers >= 0 and time.monotonic() <= self._deadline


@dataclass(frozen=True)
class RowErrors:
    """The errors of the rows that were measured.

    Args:
        positions: of the rows that were measured in a table, in order.
        errors: the largest of the tables, at each of them.
        rows: how many were measured in all tables.
        tensor: the name of the table with the largest.
    """

    positions: Indices
    errors: Floats
    rows: int
    tensor: str


@dataclass
class _Table:
    """A table that is measured.

    Args:
        name: of its tensor.
        array: its numbers, a row a position.
        columns: which of them are which of the closed form.
        errors: of each row; NaN where a number is missing.
        seen: whether each row was measured.
        everywhere: the same, in all of several tables.
        is_new: whether a block of it was like none of another table.
    """

    name: str
    array: Array
    columns: Columns
    errors: Floats
    seen: NDArray[np.bool_]
    everywhere: NDArray[np.bool_]
    is_new: bool = False

    @property
    def worst(self) -> float:
        """The largest error."""
        worst = float(self.errors[self.seen].max(initial=0.0))
        return np.inf if np.isnan(worst) else worst

    def with_other(self, other: _Table) -> _Table:
        """Return the worst of two tables, row by row, under the name of the worse."""
        name = other.name if other.worst > self.worst else self.name
        errors, both = np.maximum(self.errors, other.errors), self.everywhere & other.everywhere
        return replace(self.without_numbers(), name=name, errors=errors, seen=self.seen | other.seen, everywhere=both)

    def without_numbers(self) -> _Table:
        """Return the errors alone."""
        return replace(self, array=self.array[:0, :0].copy())


def table_errors(tables: Iterable[tuple[str, Array]], exact: Exact, some: Indices, effort: Effort) -> RowErrors | None:
    """Return the errors of tables with a row for each position; None where none has rows like those of the form.

    Args:
        tables: their names, and their numbers as (rows, columns); each is let go before the next is read.
        exact: the rows of the form in float64.
        some: the positions that are measured even where the effort does not suffice for all.
        effort: how much may be compared; what is spent is counted.
    """
    references: list[_Table] = []
    total: _Table | None = None
    expected = exact(some)
    for pair in _pairs(_matched(tables, some, expected)):
        _measure(pair, exact, references, effort)
        for table in pair:
            if not table.seen.all():
                table.errors[some] = errors_of(table.array[some], table.columns, expected)
                table.seen[some] = True
            elif table.is_new and len(references) < REFERENCES:
                references.append(table)
            total = table.without_numbers() if total is None else total.with_other(table)
        # files that are mapped count as memory as long as anything names them
        pair.clear()
        del table
    if total is None:
        return None
    positions = np.flatnonzero(total.seen)
    return RowErrors(positions, total.errors[positions], int(total.everywhere.sum()), total.name)


def _matched(tables: Iterable[tuple[str, Array]], some: Indices, expected: Floats) -> Iterator[_Table]:
    """Yield the tables with columns of the form."""
    step = max(1, len(some) // MATCHED)
    for name, array in tables:
        columns = columns_of(np.asarray(array[some[::step]], np.float64), expected[::step])
        if columns is not None:
            seen = np.zeros(len(array), bool)
            yield _Table(name, array, columns, np.zeros(len(array)), seen, seen)
        del array


def _pairs(tables: Iterator[_Table]) -> Iterator[list[_Table]]:
    """Yield two tables at a time: cosines and sines of a layer, which one block of the form is for."""
    while pair := list(islice(tables, 2)):
        yield pair


def _measure(pair: list[_Table], exact: Exact, references: list[_Table], effort: Effort) -> None:
    """Measure the rows of tables, as far as the effort suffices."""
    for block in _blocks(pair[0].array):
        expected: Floats | None = None
        for table in pair:
            rows = table.array[block]
            known = next((other for other in references if _alike(rows, other.array[block])), None)
            if not effort.spend(rows.size if known is None else rows.nbytes // ALIKE):
                return
            if known is not None:
                table.errors[block] = known.errors[block]
            else:
                table.is_new = True
                expected = exact(np.arange(block.start, block.stop)) if expected is None else expected
                table.errors[block] = errors_of(rows, table.columns, expected)
            table.seen[block] = True


def _blocks(array: Array) -> Iterator[slice]:
    rows = max(1, BLOCK // max(array.shape[1], 1))
    return (slice(start, min(start + rows, len(array))) for start in range(0, len(array), rows))


def _alike(first: Array, second: Array) -> bool:
    """Return whether a block is bit by bit that of another table."""
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    words = f"u{first.dtype.itemsize}"
    # most blocks that differ do so in their first rows
    return all(np.array_equal(first[rows].view(words), second[rows].view(words)) for rows in (slice(1), slice(1, None)))
