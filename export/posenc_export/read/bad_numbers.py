"""Numbers that are wrong whatever encoding they are of: tables that turn nothing, NaN and infinity."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from posenc_export.read.findings import finding
from posenc_export.read.inspection import Finding
from posenc_export.read.interpret.state import is_data
from posenc_export.read.recognise.flow import Flow
from posenc_export.read.recognise.named import Named
from posenc_export.read.recognise.rotary.operators import is_rotation, rotary_tables
from posenc_export.read.recognise.rotary.rows import CosSinRows
from posenc_export.read.recognise.trails import is_float
from posenc_export.read.values import Array, Constant, Position, Run, Value

BLOCK = 1 << 20
"""Numbers that are looked at together."""
LARGEST_TABLE = 1 << 28
"""Numbers of a table that are looked at, at most."""


def bad_numbers(run: Run, named: Iterable[Named]) -> Iterator[Finding]:
    """Yield a finding for each table of a rotary operator that is no rotation, and for each with NaN or infinity.

    Args:
        run: the graph, interpreted.
        named: its encodings.
    """
    seen: set[tuple[str, str]] = set()
    told: set[str] = set()
    for node, (cosine, sine), rows in rotary_tables(Flow(run)):
        key = (cosine.tensor, sine.tensor)
        if key in seen or is_rotation(rows):
            continue
        seen.add(key)
        told.update(key)
        words = f"{cosine.tensor} and {sine.tensor} are no cosines and sines of one angle: {_odd_row(rows)}"
        yield finding("no-rotation", node.node, words)
    for name in _tables(run, named):
        value = run.values.get(name)
        place = None if name in told or not isinstance(value, Constant) else _first_odd(value)
        if place is not None:
            yield finding("not-finite", name, f"a table of positions has a number that is none, first in row {place:,}")


def _odd_row(rows: CosSinRows) -> str:
    """Return what is wrong with the row that is farthest from a rotation."""
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.square(rows.cosine.astype(np.float64)) + np.square(rows.sine.astype(np.float64))
    if not np.isfinite(size).all():
        return f"row {int(np.argmax(~np.isfinite(size).all(1))):,} has a number that is none"
    row = int(np.argmax(np.ptp(size, axis=1)))
    return f"cos^2 + sin^2 is from {size[row].min():.3g} to {size[row].max():.3g} in row {row:,}"


def _tables(run: Run, named: Iterable[Named]) -> dict[str, None]:
    """Return the names of stored tables of encodings, and those behind other position values that meet data."""
    names = dict.fromkeys(name for entry in named for name in (*entry.stored, *entry.tensors))
    for meeting in run.meetings:
        values = [operand.value for operand in meeting.operands if operand is not None]
        if any(map(is_data, values)):
            odd = (
                value for value in values if isinstance(value, Position) and is_float(value) and _is_odd(value.array)
            )
            names.update(dict.fromkeys(name for value in odd for name in sorted(value.stored)))
    return names


def _first_odd(value: Value) -> int | None:
    """Return the first row of a stored table with NaN, or with infinity above 0; None where there is none."""
    if (
        not isinstance(value, Constant)
        or not is_float(value)
        or math.prod(value.shape) > LARGEST_TABLE
        or not value.shape
    ):
        return None
    try:
        table = value.load()
    except ValueError:  # the file with its weights is missing
        return None
    rows = table.reshape(-1, table.shape[-1])
    step = max(1, BLOCK // max(rows.shape[1], 1))
    for start in range(0, len(rows), step):
        block = rows[start : start + step]
        if _is_odd(block):
            odd = np.array([_is_odd(row) for row in block])
            return start + int(np.argmax(odd))
    return None


def _is_odd(array: Array) -> bool:
    """Return whether numbers are none: minus infinity is a mask's."""
    numbers = array.astype(np.float32) if array.dtype.kind != "f" else np.asarray(array, array.dtype)
    return bool(np.isnan(numbers).any() or (numbers == np.inf).any())
