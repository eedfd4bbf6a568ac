"""Look-ups of stored tables: which rows they take says whether positions, buckets or windows choose them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from posenc.formulas.fitting import Form, Observation, Parameter, find_scheme, looked_at, spacing_of_dtype
from posenc_export.read.recognise.trails import LOOKUPS, Trails, is_quantized, numbers_of, shape_of
from posenc_export.read.values import Meeting, Position, Run

Array = NDArray[np.generic]
Integers = NDArray[np.int64]
NARROW = 4
"""Features below which rows may be coordinates of a place."""
EIGHT_BITS = 2.0**-7
"""The spacing of numbers up to 1 that were quantized."""


@dataclass(frozen=True)
class Lookup:
    """Rows that a node takes of a table.

    Args:
        rows: how many the table has.
        indices: of the rows, without the axes that only repeat them.
        values: the rows that were taken, dequantized where a node after the look-up does that.
        quantized: they have eight bits or fewer.
    """

    node: Meeting
    rows: int
    indices: Integers
    values: Array
    quantized: bool = False


@dataclass
class Lookups:
    """The look-ups before tensors that have a form; layers share many, which are read once.

    Args:
        run: an interpreted graph.
        form_of: names the form of a look-up, or gives None.
        trails: what is before each tensor.
        known: of look-ups that were read before, by the name of what they give.
    """

    run: Run
    form_of: Callable[[Lookup], Form | None]
    trails: Trails
    known: dict[str, tuple[Lookup, Form] | None] = field(default_factory=dict)

    def before(self, tensor: str) -> tuple[Lookup, Form] | None:
        """Return the first look-up with a form that a value was made by, and the form."""
        for node in self.trails.before(tensor):
            result = node.outputs[0]
            if result not in self.known:
                lookup = lookup_of(self.run, node)
                with looked_at(result):
                    form = None if lookup is None else self.form_of(lookup)
                self.known[result] = None if lookup is None or form is None else (lookup, form)
            if self.known[result] is not None:
                return self.known[result]
        return None


def lookup_of(run: Run, node: Meeting) -> Lookup | None:
    """Return what a node looks up at positions; None for other nodes, and for tokens."""
    if node.op_type not in LOOKUPS or len(node.operands) < 2:
        return None
    table, indices = node.operands[:2]
    result = run.values.get(node.outputs[0])
    if table is None or indices is None or not isinstance(indices.value, Position) or not isinstance(result, Position):
        return None
    if indices.value.array.dtype.kind not in "iu" or indices.value.array.size < 2:
        return None
    # tables of heads may have their rows in the second axis
    axis = node.attributes.get("axis", 0)
    shape = shape_of(table.value)
    if not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
        return None
    values = _dequantized(run, node.outputs[0], result.array)
    return Lookup(node, shape[axis], unrepeated(indices.value.array).astype(np.int64), values, is_quantized(run, table))


def _dequantized(run: Run, tensor: str, rows: Array) -> Array:
    """Return rows as the node that dequantizes them gives them, where there is such a node."""
    if rows.dtype.kind == "f" or rows.dtype.itemsize > 1:
        return rows
    for node in run.nodes[run.produced.get(tensor, 0) :]:
        if node.op_type == "DequantizeLinear" and node.operands[0] is not None and node.operands[0].tensor == tensor:
            result = run.values.get(node.outputs[0])
            return result.array if isinstance(result, Position) else rows
    return rows


def unrepeated(array: Array) -> Array:
    """Return an array without axes of size 1, and without a first axis along which it only repeats."""
    array = np.squeeze(array)
    while array.ndim > 1 and (array[1:] == array[:1]).all():
        array = array[0]
    return array


def is_range(indices: Integers) -> bool:
    """Return whether indices are consecutive."""
    return indices.ndim == 1 and len(indices) > 1 and bool((np.diff(indices) == 1).all())


def rows_lookup_form(lookup: Lookup) -> Form | None:
    """Return the form of rows that are taken at consecutive positions: sinusoids, or a learned table."""
    if not is_range(lookup.indices):
        return None
    values = rows_of(lookup.values)
    if values is None or len(values) != len(lookup.indices):
        return None
    form = form_of_rows(values, EIGHT_BITS if lookup.quantized else None)
    return form or learned_form(values, lookup.rows, int(lookup.indices[0]))


def form_of_rows(rows: Array, spacing: float | None = None) -> Form | None:
    """Return the form of rows (*places, features) by their numbers alone, whatever is stored.

    Args:
        rows: the rows.
        spacing: of their numbers around 1, where it is not that of their dtype: they were dequantized.
    """
    return find_scheme(Observation("rows", rows, spacing_of_dtype(rows.dtype) if spacing is None else spacing))


def learned_form(values: Array, rows: int, offset: int) -> Form | None:
    """Return the form of learned rows: a table without a formula; None where rows repeat."""
    narrow = values.shape[1] < NARROW
    if values.shape[1] < 2 or (values[1:] == values[:-1]).all() or (narrow and is_smooth(values)):
        return None
    return stored_rows(rows, values.shape[1], offset)


def stored_rows(rows: int, width: int, offset: int) -> Form:
    """Return the form of a table of rows that follow no formula."""
    parameters: dict[str, Parameter] = {"rows": rows, "d_model": width, "offset": offset}
    return Form("learned", "table", parameters, scheme="learned", typed={"d_model": width})


def is_smooth(rows: Array) -> bool:
    """Return whether rows are straight lines, as coordinates are."""
    numbers = rows.astype(np.float64)
    size = np.abs(numbers).max()
    # two features are a straight line whatever they are
    axes = (0, 1) if rows.shape[1] >= NARROW else (0,)
    return any(np.abs(np.diff(numbers, 2, axis=axis)).max(initial=0) <= 1e-5 * size for axis in axes)


def rows_of(array: Array) -> Array | None:
    """Return rows (positions, features) of a value whose other axes have size 1 or repeat them; else None."""
    while array.ndim > 2:
        axis = next((i for i in range(array.ndim - 1) if array.shape[i] == 1), 0)
        if array.shape[axis] > 1 and not (array == array[:1]).all():
            return None
        array = np.take(array, 0, axis)
    return array if array.ndim == 2 else None


def distance_lookup_form(lookup: Lookup) -> Form | None:
    """Return the form of rows that are taken by the distance of two places, on a line or in a window."""
    indices = lookup.indices
    side = int(indices.size**0.5)
    # Swin looks up a flat list of all pairs of places
    if indices.ndim == 1 and side > 2 and side * side == indices.size and not is_range(indices):
        indices = indices.reshape(side, side)
    # a single query, the last, sees keys before it: as many buckets as keys would be any table's rows
    if indices.ndim == 1 and len(np.unique(indices)) < len(indices):
        indices = indices[None]
    if indices.ndim != 2:
        return None
    return find_scheme(Observation("lookup", indices, 0.0, rows=lookup.rows))


def table_of(run: Run, stored: tuple[str, ...], width: int) -> Array | None:
    """Return the only stored table with rows of a width that a value is made of, as (rows, width); else None."""
    tables = [run.values[name] for name in stored if name in run.values]
    fitting = [value for value in tables if shape_of(value)[-1:] == (width,) and len(shape_of(value)) > 1]
    numbers = numbers_of(fitting[0]) if len(fitting) == 1 else None
    return None if numbers is None else rows_of(numbers)
