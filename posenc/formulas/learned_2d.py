"""Learned embeddings of the rows and of the columns of a grid: DETR with position_embedding_type="learned"."""

from collections.abc import Iterator

import numpy as np

from posenc.call import Call
from posenc.formulas.fitting import Guess, Observation, call_of, fits
from posenc.formulas.parts.grids import axes_of, halves_of
from posenc.ports import Array, Floats


def reference(tables: list[Floats], call: Call, *, order: str, tensor_layout: str) -> tuple[Array]:
    """Return the output in float64: the embeddings of column and row of each place, in the layout of the output."""
    by_row, by_column = (table[at] for table, at in zip(tables, call.positions, strict=True))
    # twice (1, height, width, dim / 2)
    rows = np.concatenate([by_column, by_row] if order == "column_first" else [by_row, by_column], -1)
    # (1, height, width, dim) -> (1, dim, height, width)
    return (np.moveaxis(rows, -1, 1) if tensor_layout == "bdhw" else rows,)


FEWEST = 8
"""How many features of a row learned ones have at least."""


@fits("rows", family="grid", last=True)
def fit(seen: Observation) -> Iterator[Guess]:
    """Find the rows of each half of the features in the tables that the numbers were made of."""
    half = seen.width // 2
    if len(seen.places) != 2 or seen.width % 2:
        return
    for order in ("column_first", "row_first"):
        first, second = seen.numbers[0, :, :half], seen.numbers[:, 0, half:]
        if order == "row_first":
            first, second = seen.numbers[:, 0, :half], seen.numbers[0, :, half:]
        columns, rows = (first, second) if order == "column_first" else (second, first)
        if all(any(_holds(table, part) for table in seen.tables) for part in (rows, columns)):
            tables = [part.astype(np.float64) for part in (rows, columns)]
            (expected,) = reference(tables, call_of(seen), order=order, tensor_layout="bhwd")
            yield Guess({"dim": seen.width, "order": order}, expected[0])
    halves = seen.measured(halves_of)
    # numbers of no formula: as many as this, which differ by row and by column, are no accident
    if halves is None or half < FEWEST or seen.tables or None not in seen.measured(axes_of):
        return
    if np.ptp(halves.rows.astype(np.float64), axis=0).all():
        numbers = seen.numbers.astype(np.float64)
        yield Guess({"dim": seen.width, "order": halves.order}, numbers, "learned rows and columns", typed={})


def _holds(table: Array, rows: Array) -> bool:
    """Return whether rows are the first ones of a stored table, which may be of more digits."""
    return table.shape[1:] == rows.shape[1:] and np.array_equal(table[: len(rows)].astype(rows.dtype), rows)
