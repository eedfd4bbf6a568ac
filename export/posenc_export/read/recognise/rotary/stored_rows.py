"""The stored table that rows were looked up in: all its rows, in the columns that the rows have."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from posenc.ports import Floats
from posenc_export.read.recognise.flow import MOVES, Flow
from posenc_export.read.recognise.rotary.rows import CosSinRows
from posenc_export.read.values import Array, Constant, Meeting, Operand, Position, Value

DEEPEST = 400
"""How many nodes are gone back from a looked up table to where it is stored."""

TABLES = ("float16", "bfloat16", "float32", "float64", "int8", "uint8")
"""The element types of tables; those of 8 bits are scaled after they are looked up."""

ARITHMETIC = ("Add", "Sub", "Mul", "Div", "MatMul", "Gemm", "Einsum", "Pow")

MATCHED = 64
"""How many rows tell columns apart."""


@dataclass(frozen=True)
class Stored:
    """A stored table.

    Args:
        count: how many rows it has.
        rows: all of them; None where numbers were changed after they were looked up.
    """

    count: int
    rows: CosSinRows | None


def stored_table(
    flow: Flow, tables: tuple[Operand, Operand], rows: CosSinRows, positions: NDArray[np.int64]
) -> Stored | None:
    """Return the table that cosines and sines were looked up in; None where they are computed."""
    parts = [
        _columns(flow, table, np.asarray(numbers, np.float64), positions)
        for table, numbers in zip(tables, (rows.cosine, rows.sine), strict=True)
    ]
    cosine, sine = parts
    if cosine is not None and sine is not None and len(cosine) == len(sine):
        return Stored(len(cosine), CosSinRows(cosine, sine))
    count = _count(flow, tables[0], rows)
    return None if count is None else Stored(count, None)


def _columns(flow: Flow, table: Operand, numbers: Floats, positions: NDArray[np.int64]) -> Array | None:
    """Return all rows of the columns that numbers at positions are, or their negatives."""
    for whole in (rows for stored in _behind(flow, table) for rows in _as_rows(stored)):
        # a table that was sliced before begins elsewhere than at position 0
        for start in dict.fromkeys((0, int(positions[0]))):
            if positions[-1] - start >= len(whole) or positions[0] < start:
                continue
            seen = whole[positions - start].astype(np.float64)
            for sign in (1, -1):
                columns = _matching(seen, sign * numbers)
                if columns is not None:
                    taken = whole[:, columns]
                    return taken if sign == 1 else np.negative(taken.astype(np.float32))
    return None


def _as_rows(stored: Array) -> Iterator[Array]:
    """Yield a stored table as rows: its last axis has the columns, or all axes but the first have.

    torchtune keeps the cosine and the sine of each pair together: (rows, pairs, 2).
    """
    yield stored.reshape(-1, stored.shape[-1])
    if stored.ndim > 2 and stored.shape[0] > 1:
        yield stored.reshape(len(stored), -1)


def _matching(seen: Floats, numbers: Floats) -> slice | NDArray[np.int64] | None:
    """Return the columns of a table that numbers are; None where a number is in no column or may be in several."""
    count, width = numbers.shape[1], seen.shape[1]
    # slow columns of half precision are alike in the rows of a call: what is in order is tried first
    for first in np.flatnonzero(np.all(seen == numbers[:, :1], axis=0)).tolist():
        for step in (1, 2):
            if first + step * (count - 1) < width and np.array_equal(seen[:, first::step][:, :count], numbers):
                return slice(first, first + step * (count - 1) + 1, step)
    # columns in any order, if each is in one place alone
    alike = np.all(seen[:MATCHED, :, None] == numbers[:MATCHED, None, :], axis=0)
    return np.argmax(alike, axis=0) if np.all(alike.sum(axis=0) == 1) else None


def _count(flow: Flow, table: Operand, rows: CosSinRows) -> int | None:
    """Return how many rows the one table has that a value was made of, if it is as wide as the value."""
    tables = list(_behind(flow, table))
    if len(tables) != 1:
        return None
    pairs, (*outer, width) = rows.cosine.shape[1], tables[0].shape
    count = int(np.prod(outer))
    return count if width in (pairs, 2 * pairs) and count >= len(rows) else None


def _behind(flow: Flow, table: Operand) -> Iterator[Array]:
    """Yield the constants of several rows that a value was made of."""
    waiting, seen = [table], {table.tensor}
    while waiting and len(seen) < DEEPEST:
        operand = waiting.pop()
        if isinstance(operand.value, Constant):
            if _has_rows(operand.value.shape):
                numbers = flow.numbers(operand)
                if numbers is not None and numbers.dtype.name in TABLES:
                    yield numbers
            continue
        node = flow.maker(operand.tensor) if isinstance(operand.value, Position) else None
        # sums of products of several tables are computed: their ends are not those of one
        for source in _sources(node) if node is not None and not _computes(node) else ():
            if source is not None and source.tensor not in seen:
                seen.add(source.tensor)
                waiting.append(source)


def _sources(node: Meeting) -> Sequence[Operand | None]:
    """Return the inputs that a node takes numbers from; the others say where they go."""
    moves = node.op_type in MOVES or node.op_type in ("DequantizeLinear", "GatherElements", "GatherND")
    return node.operands[:1] if moves and node.op_type != "Concat" else node.operands


def _computes(node: Meeting) -> bool:
    """Tell whether a node makes new numbers of several arrays."""
    sizes = [_size(operand.value) for operand in node.operands if operand is not None]
    return node.op_type in ARITHMETIC and sum(size > 1 for size in sizes) > 1


def _size(value: Value) -> int:
    shape = value.array.shape if isinstance(value, Position) else getattr(value, "shape", ())
    return math.prod(shape)


def _has_rows(shape: tuple[int, ...]) -> bool:
    return len(shape) > 1 and shape[-1] > 1 and any(size > 1 for size in shape[:-1])
