"""Tables as hexadecimal constants, and the functions that read a row out of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING

from posenc.encoding import Tables
from posenc_export.cpp import filled

if TYPE_CHECKING:
    from torch import Tensor

CONSTANTS: Mapping[str, tuple[str, int]] = {"float32": ("f", 6), "float64": ("", 4)}
"""What constants of a dtype end with, and how many of them fit a line."""


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
    return filled("digits", **digits, **fields)


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
    suffix, fit = CONSTANTS[dtype]
    yield f"{storage['table']} pe_real pe_{name}[{table.shape[0]}][{table.shape[1]}] = {{"
    for row in table.double().tolist():
        texts = [_hexadecimal(value) + suffix for value in row]
        yield "{" + ",\n".join(", ".join(texts[i : i + fit]) for i in range(0, len(texts), fit)) + "},"
    yield "};\n"


def _hexadecimal(value: float) -> str:
    digits, _, exponent = value.hex().partition("p")
    return f"{digits.rstrip('0').rstrip('.') if '.' in digits else digits}p{exponent}"
