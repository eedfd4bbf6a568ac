"""Tables as hexadecimal constants, and the functions that read a row out of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from posenc.encoding import Tables
from posenc_export.write.cpp import filled
from posenc_export.write.cpp.names import braced
from posenc_export.write.formats.header.constants import constant

if TYPE_CHECKING:
    from torch import Tensor

FIT: Mapping[str, int] = {"float32": 6, "float64": 4}
"""How many constants of a dtype fit a line."""


def tables_text(tables: Tables, dtype: str, storage: Mapping[str, str]) -> str:
    """Return the tables and what reads rows; storage: what tables and functions are declared with."""
    arrays = "\n".join(_array(name, table, dtype, storage) for name, table in tables.arrays.items())
    runs = _runs(tables.axes)
    fields = {"tables": arrays, "runs": ", ".join(runs), "row_width": tables.width, **storage}
    if tables.kind == "rows":
        return filled("table", **fields)
    block, mid = tables.digits
    low = len(tables.arrays["low_sin"])
    interleaved = int(tables.layout == "interleaved")
    digits = {"low_rows": low, "block": block, "mid_rows": mid, "run_count": len(runs), "row_interleaved": interleaved}
    zero_row = "" if tables.zero_row is None else filled("zero_row", row=tables.zero_row)
    return filled("digits", zero_row=zero_row, **digits, **fields)


def _runs(axes: tuple[int, ...]) -> list[str]:
    """Return axis, first and one past the last of every run of one axis, in braces."""
    runs, first = [], 0
    for axis, run in groupby(axes):
        end = first + len(list(run))
        runs.append(braced(axis, first, end))
        first = end
    return runs


def _array(name: str, table: Tensor, dtype: str, storage: Mapping[str, str]) -> str:
    """Return an array: (rows, columns)."""
    rows, columns = table.shape
    numbers = "\n".join(_row(row, dtype) for row in table.double().tolist())
    return filled("array", name=name, rows=rows, columns=columns, numbers=numbers, **storage)


def _row(row: Sequence[float], dtype: str) -> str:
    """Return a row of an array, in lines of as many constants as fit."""
    texts, fit = [constant(value, dtype) for value in row], FIT[dtype]
    return "{" + ",\n".join(", ".join(texts[i : i + fit]) for i in range(0, len(texts), fit)) + "},"
