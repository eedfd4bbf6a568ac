"""Stored rotary tables: one, or two of longrope end to end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from posenc.formulas.fitting import Form
from posenc.formulas.parts.circles import FIRST_ROWS
from posenc.formulas.parts.turned import formula_of
from posenc.formulas.rope_types.longrope import two_tables
from posenc_export.read.recognise.rotary_rows import Rows, rotary_form, row_errors, some_of

SECOND_TABLE = 0.02
"""An error above this may be the beginning of a second table."""

NEXT_ROWS = 64
"""How many rows of a second table must be right."""


def rotary_table(rows: Rows) -> Form | None:
    """Return the form of a stored table, whose row r is position r; two tables end to end have one form."""
    first = rotary_form(rows, np.arange(len(rows)))
    seam = None if first is None else _seam(rows, first)
    if first is None or seam is None:
        return first
    # the second table counts positions on, or anew
    for start in (seam, 0):
        second = rotary_form(rows.after(seam), np.arange(len(rows) - seam) + start)
        if second is not None and _is_right(rows.after(seam), second, start):
            return two_tables(rotary_form(rows.before(seam), np.arange(seam)) or first, second, seam, start)
    return first


def _seam(rows: Rows, first: Form) -> int | None:
    """Return the row from which on a table is not that of its first rows."""
    # noise of half precision grows slowly; a second table begins at once
    checked = replace(first, exact=formula_of(first))
    seam, places = None, some_of(len(rows))
    beyond = np.flatnonzero(row_errors(rows.some, checked, places) > SECOND_TABLE)
    if beyond.size:
        # of a large table some rows were looked at: it begins between a right one and the next
        before = int(places[beyond[0] - 1]) if beyond[0] else 0
        between = np.arange(before, int(places[beyond[0]]) + 1)
        wrong = np.flatnonzero(row_errors(rows.at(between), checked, between) > SECOND_TABLE)
        seam = int(between[wrong[0]])
    return seam if seam is not None and FIRST_ROWS <= seam <= len(rows) - FIRST_ROWS else None


def _is_right(rows: Rows, form: Form, start: int) -> bool:
    """Tell whether the first rows of a second table are those of its form."""
    rows = rows.before(NEXT_ROWS)
    checked = replace(form, exact=formula_of(form))
    return bool(np.all(row_errors(rows, checked, np.arange(len(rows)) + start) <= SECOND_TABLE))
