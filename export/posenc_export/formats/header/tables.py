"""Tables as hexadecimal constants, and the functions that read a row out of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING

from posenc.encoding import Tables
from posenc_export.cpp import filled
from posenc_export.formats.header.constants import constant

if TYPE_CHECKING:
    from torch import Tensor

FIT: Mapping[str, int] = {"float32": 6, "float64": 4}
"""How many constants of a dtype fit a line."""


def tables_text(tables: Tables, dtype: str, storage: Mapping[str, str]) -> str:
    """Return the tables and what reads rows; storage: what tables and functions are declared with."""
    arrays = "\n".join(line for name, table in tables.arrays.items() for line in _array(name, table, dtype, storage))
    runs = _runs(tables.axes)
    fields = {"tables": arrays, "runs": ", ".join(runs), "row_width": tables.width, **storage}
    if tables.kind == "rows":
        return filled("table", **fields)
    low, mid = tables.digits
    interleaved = int(tables.layout == "interleaved")
    digits = {"low_rows": low, "mid_rows": mid, "run_count": len(runs), "row_interleaved": interleaved}
    zero_row = "" if tables.zero_row is None else filled("zero_row", row=tables.zero_row)
    return filled("digits", zero_row=zero_row, **digits, **fields)


def _runs(axes: tuple[int, ...]) -> list[str]:
    """Return {axis, first, one past the last} of every run of one axis."""
    runs, first = [], 0
    for axis, run in groupby(axes):
        end = first + len(list(run))
        runs.append(f"{{{axis}, {first}, {end}}}")
        first = end
    return runs


def _array(name: str, table: Tensor, dtype: str, storage: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of an array: (rows, columns)."""
    fit = FIT[dtype]
    yield f"{storage['table']} pe_real pe_{name}[{table.shape[0]}][{table.shape[1]}] = {{"
    for row in table.double().tolist():
        texts = [constant(value, dtype) for value in row]
        yield "{" + ",\n".join(", ".join(texts[i : i + fit]) for i in range(0, len(texts), fit)) + "},"
    yield "};\n"
