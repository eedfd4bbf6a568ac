"""Claims on rows of positions: where their numbers come from, and how far off they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from posenc.formulas.fitting import Form
from posenc_export.read.recognise.claims import Claim, claim
from posenc_export.read.recognise.lookups import rows_of, table_of
from posenc_export.read.recognise.trails import stored_of
from posenc_export.read.values import Meeting, Operand, Position, Run

Array = NDArray[np.generic]


def from_input(run: Run, form: Form, source: str) -> Form:
    """Return a form whose offset is what is added to an input's positions, where they come from one."""
    fed = run.values.get(source)
    offset = form.parameters.get("offset", 0)
    if not isinstance(fed, Position) or fed.array.dtype.kind not in "iu" or not isinstance(offset, int):
        return form
    added = offset - int(fed.array.reshape(-1)[0])
    named = {name: value for name, value in form.parameters.items() if name != "offset"}
    return replace(form, parameters={**named, "offset": added} if added or form.exact is None else named)


def of_numbers(run: Run, form: Form, meeting: Meeting, operand: Operand, array: Array) -> Claim:
    """Return the claim of rows that are named by their numbers, with the stored table of their width."""
    rows = rows_of(array)
    stored = None if rows is None else table_of(run, stored_of(operand), rows.shape[1])
    item = claim(run, form, meeting, operand)
    count = None if stored is None else len(stored)
    return replace(item, form=from_input(run, form, item.positions), rows=count, error=error_of_rows(form, rows))


def error_of_rows(form: Form, rows: Array | None) -> float | None:
    """Return the largest absolute error of rows against their form, None without a formula."""
    if form.exact is None or rows is None:
        return None
    offset = form.parameters.get("offset", 0)
    positions = form.distances
    if positions is None:
        positions = np.arange(len(rows)) + (offset if isinstance(offset, int) else 0)
    return float(np.abs(form.exact(positions) - rows.astype(np.float64)).max())
