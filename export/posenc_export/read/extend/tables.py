"""Stored tables written anew from their closed form in float64, and every row of them held against it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from posenc.formulas.families import FAMILIES
from posenc.formulas.fitting import Form
from posenc_export.common.errors import BadInput
from posenc_export.read.extend.held import Array, half_steps, held
from posenc_export.read.extend.layouts import Layout, layout_of
from posenc_export.read.extend.model import Model
from posenc_export.read.extend.quantized import dequantize
from posenc_export.read.extend.result import Table
from posenc_export.read.recognise.named import Named
from posenc_export.read.report.text import parameters_in_words

CHUNK = 1 << 20
"""How many numbers are computed at once."""
WRONG = 0.25
"""An old row that is farther off belongs to another form: half precision of the angles themselves is not so far."""
FLOATS = ("float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True)
class Planned:
    """A table that is rewritten.

    Args:
        name: the stored tensor.
        axis: the axis of its rows.
        old: what its rows were made of.
        new: what they are made of now.
        layout: how it holds them.
        rows: how many it has afterwards.
        quantized: the element type that it was quantised to; an empty text where it was not.
    """

    name: str
    axis: int
    old: Form
    new: Form
    layout: Layout
    rows: int
    quantized: str = ""


def check_form(named: Named) -> None:
    """Raise BadInput, in one line, where the rows of an encoding follow no formula that tables are written from."""
    where = next(iter((*named.stored, *named.nodes)), "")
    if named.form.traits.is_learned:
        raise BadInput(f"{where} is a learned table of {named.rows} rows: no formula gives it more, train them instead")
    if not named.form.traits.is_computed:
        raise BadInput(f"{where}: {not_rewritten(named.form.family)}")
    if named.form.exact is None:
        raise BadInput(
            f"{where}: its rows fit no closed form ({named.form.name}), so that further ones cannot be computed"
        )


def not_rewritten(family: str) -> str:
    """Return, in words, that tables of a family are not rewritten."""
    known = ", ".join(name for name, traits in FAMILIES.items() if traits.is_computed)
    return f"tables of the family {family} are not rewritten: {known} are"


def planned(model: Model, named: Named, new: Form, max_len: int) -> list[Planned]:
    """Return the stored tables of an encoding, with their layouts; BadInput where one has none that is known."""
    check_form(named)
    assert named.rows is not None
    tables = []
    for name in named.stored:
        array = model.array(name) if len(model.tensors(name)) == 1 else np.zeros(0)
        axis = next((axis for axis, size in enumerate(array.shape[:-1]) if size == named.rows), None)
        if axis is None or array.shape[-1] < 2:
            continue  # a scale, or an index
        quantized = "" if array.dtype.name in FLOATS else array.dtype.name
        if quantized:
            array = dequantize(model, name)
        layout = layout_of(_rows(array, axis), named.form)
        if layout is None:
            raise BadInput(f"{name}: its columns are not the cosines and sines that were read from it in a known order")
        tables.append(Planned(name, axis, named.form, new, layout, _count(named.form, layout, max_len), quantized))
    if not tables:
        raise BadInput(f"{', '.join(named.stored)}: no stored table of {named.rows} rows is found in the file")
    return tables


def _count(form: Form, layout: Layout, max_len: int) -> int:
    """Return how many rows a length needs: the second of two tables end to end may count positions anew."""
    before = 0
    if form.parameters.get("long_first_position") == 0:
        seam = form.parameters.get("original_max_position_embeddings", 0)
        before = seam if isinstance(seam, int) else 0
    # the first row is used by padding where positions begin later
    offset = form.parameters.get("offset", 0)
    return max_len + before + (offset - layout.start if isinstance(offset, int) else 0)


def rewrite(model: Model, table: Planned, keep_rows: bool) -> Table:
    """Write a table anew into a model, and return what that changed; its error is measured when it is read back."""
    old = model.array(table.name)
    before = _rows(old, table.axis)
    new = _computed(table, old.dtype, before.shape[1])
    if keep_rows:
        new[: len(before)] = before[: len(new)]
    off, where = _worst(before, table.old, table.layout)
    if off > WRONG:
        raise BadInput(
            f"{table.name}: row {where} is off by {off:.2g} from {table.old.name}: its rows are of another form"
        )
    shape = (*old.shape[: table.axis], len(new), *old.shape[table.axis + 1 :])
    model.replace(
        table.name, np.moveaxis(new.reshape(len(new), *_others(old, table.axis)), 0, table.axis).reshape(shape)
    )
    common = min(len(before), len(new))
    moved = float(np.abs(new[:common].astype(np.float64) - before[:common].astype(np.float64)).max(initial=0.0))
    words = f"{table.new.family} ({table.new.name}), {parameters_in_words(table.new.parameters)}"
    return Table(table.name, words, old.dtype.name, len(before), len(new), off, where, moved, 0.0, 0.0)


def proved(table: Planned, result: Table, array: Array, first: int) -> Table:
    """Return a result with the error of each row of a table that was read back; ValueError where one is not right.

    Args:
        table: what it is to be.
        result: what was written.
        array: what was read back.
        first: the first row that was made anew: earlier ones are those of before.
    """
    rows = _rows(array, table.axis)
    if len(rows) != table.rows:
        raise ValueError(f"{table.name} has {len(rows)} rows in the new file, and not {table.rows}")
    error = steps = 0.0
    for part in _parts(first, len(rows), rows.shape[1]):
        assert table.new.exact is not None
        exact = table.layout.rows(table.new.exact, part.start, part.stop)
        numbers = rows[part].astype(np.float64)
        off = np.abs(numbers - exact)
        error = max(error, float(off.max()))
        steps = max(steps, float((off / (2 * half_steps(numbers, rows.dtype))).max()))
    if not steps <= 0.5 + 1e-6:
        raise ValueError(f"{table.name} is off by {steps:.3g} steps of {rows.dtype.name} in the new file")
    return replace(result, error=error, steps=steps)


def _rows(array: Array, axis: int) -> Array:
    """Return a table as (rows, columns); axes of size 1 beside those two vanish."""
    moved = np.moveaxis(array, axis, 0)
    if moved.size != moved.shape[0] * moved.shape[-1]:
        raise BadInput(f"a table of shape {list(array.shape)} has more axes than rows and columns")
    return moved.reshape(moved.shape[0], moved.shape[-1])


def _others(array: Array, axis: int) -> tuple[int, ...]:
    return tuple(np.delete(array.shape, axis).tolist())


def _computed(table: Planned, dtype: np.dtype[np.generic], columns: int) -> Array:
    assert table.new.exact is not None
    new = np.empty((table.rows, columns), dtype)
    for part in _parts(0, table.rows, columns):
        new[part] = held(table.layout.rows(table.new.exact, part.start, part.stop), dtype)
    return new


def _worst(rows: Array, form: Form, layout: Layout) -> tuple[float, int]:
    """Return the largest error of rows against a form, and its row."""
    worst = (0.0, 0)
    for part in _parts(0, len(rows), rows.shape[1]):
        assert form.exact is not None
        off = np.abs(rows[part].astype(np.float64) - layout.rows(form.exact, part.start, part.stop)).max(axis=1)
        row = int(np.argmax(off))
        worst = max(worst, (float(off[row]), part.start + row))
    return worst


def _parts(first: int, last: int, columns: int) -> Iterator[slice]:
    count = max(1, CHUNK // columns)
    return (slice(start, min(start + count, last)) for start in range(first, last, count))
