"""Rows of positions that a weight takes in: steps of diffusion, distances, coordinates of windows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from posenc.formulas.fitting import Form, Observation, find_scheme, spacing_of_dtype
from posenc_export.read.recognise.added.claimed_rows import of_numbers
from posenc_export.read.recognise.claims import Claim, claim
from posenc_export.read.recognise.lookups import rows_of
from posenc_export.read.recognise.trails import is_float
from posenc_export.read.values import Meeting, Operand, Position, Run

Array = NDArray[np.generic]


def taken_in(run: Run, meeting: Meeting, operand: Operand) -> Claim | None:
    """Return the encoding that a weight takes in: steps of diffusion, distances, coordinates of windows."""
    if not isinstance(operand.value, Position) or not is_float(operand.value):
        return None
    array = operand.value.array
    rows = rows_of(array)
    wide = rows if rows is not None and rows.shape[1] >= 4 else None
    steps = step_of(run, meeting, operand)
    if steps is not None:
        return steps
    form = None if wide is None else find_scheme(Observation("taken", wide, spacing_of_dtype(wide.dtype)))
    form = form or coordinates_form(array)
    if form is None:
        return None
    return of_numbers(run, form, meeting, operand, array)


def coordinates_form(array: Array) -> Form | None:
    """Return the form of coordinates (.., rows, columns, 2) of differences in a window, which a network takes in."""
    if array.ndim < 3 or array.shape[-1] != 2:
        return None
    grid = array.reshape(-1, *array.shape[-3:])[0]
    return find_scheme(Observation("coordinates", grid, spacing_of_dtype(grid.dtype)))


def step_of(run: Run, meeting: Meeting, operand: Operand) -> Claim | None:
    """Return the features of a step of diffusion, a number that an input gives: no table has a row for each."""
    if not isinstance(operand.value, Position) or not is_float(operand.value):
        return None
    rows = rows_of(operand.value.array)
    form = None if rows is None or rows.shape[1] < 4 else _step_form(run, operand.value, rows)
    return None if form is None else claim(run, form, meeting, operand)


def unquantized(run: Run, operand: Operand) -> Operand:
    """Return what was quantized for a product of integers, or the operand as it is."""
    place = run.produced.get(operand.tensor)
    node = None if place is None else run.nodes[place]
    if (
        node is not None
        and node.op_type in ("DynamicQuantizeLinear", "QuantizeLinear")
        and node.operands
        and node.operands[0] is not None
    ):
        return node.operands[0]
    return operand


def _step_form(run: Run, value: Position, rows: Array) -> Form | None:
    """Return the form of rows of an input that has a step for each."""
    for name in sorted(value.inputs):
        fed = run.values.get(name)
        if isinstance(fed, Position) and fed.array.ndim < 2 and fed.array.size in (1, len(rows)):
            form = form_of_steps(rows, np.broadcast_to(fed.array.reshape(-1), (len(rows),)))
            if form is not None:
                return form
    return None


def form_of_steps(rows: Array, steps: Array) -> Form | None:
    """Return the form of features (steps, width) of known steps (steps,), which may be fractions."""
    at = steps.astype(np.float64).reshape(-1)
    return find_scheme(Observation("features", rows, spacing_of_dtype(rows.dtype), at=at))
