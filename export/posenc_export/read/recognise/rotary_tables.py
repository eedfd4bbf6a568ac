"""Stored rotary tables: one, or two of longrope end to end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from posenc.formulas.fitting import Form, Parameter
from posenc_export.read.recognise.circle import FIRST_ROWS, Floats
from posenc_export.read.recognise.closed_forms import rows_of
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
            return _two_tables(rotary_form(rows.before(seam), np.arange(seam)) or first, second, seam, start)
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


def formula_of(form: Form) -> Callable[[NDArray[np.int64]], Floats]:
    """Return the form's formula, or else that of its measured frequencies."""
    if form.exact is not None:
        return form.exact
    inv_freq, amplitude = form.parameters["inv_freq"], form.parameters["attention_factor"]
    return rows_of(np.asarray(inv_freq, np.float64), float(np.asarray(amplitude)))


def _two_tables(first: Form, second: Form, seam: int, start: int) -> Form:
    """Return longrope with both sides of its switch; unknown frequencies where the tables have no base together."""
    theta, pairs = first.parameters.get("rope_theta"), formula_of(first)(np.zeros(1, np.int64)).size // 2
    short, long = _divisors(first, pairs), _divisors(second, pairs)
    parameters: dict[str, Parameter] = {
        "original_max_position_embeddings": seam,
        "attention_factor": second.parameters["attention_factor"],
        "short_attention_factor": first.parameters["attention_factor"],
        "long_first_position": start,
    }
    exact = _piecewise(formula_of(first), formula_of(second), seam, start)
    # each side alone might be named by chance
    if theta is None or theta != second.parameters.get("rope_theta") or not (short and long):
        return Form("rotary", "unknown frequencies", {**parameters, "short": first.name, "long": second.name})
    parameters |= {"rope_theta": theta, "short_factor": short, "long_factor": long}
    return Form("rotary", "longrope", parameters, exact)


def two_sides(short: Form, long: Form, context: int) -> Form | None:
    """Return longrope of the forms of calls within a context and of longer ones; None where they have no base together.

    Its formula is that of the longer calls.
    """
    theta, pairs = short.parameters.get("rope_theta"), formula_of(short)(np.zeros(1, np.int64)).size // 2
    divisors = _divisors(short, pairs), _divisors(long, pairs)
    if theta is None or theta != long.parameters.get("rope_theta") or not all(divisors):
        return None
    # what the place in the graph says is the same on both sides
    placed = {name: value for name, value in short.parameters.items() if name not in ("divisors", "factor")}
    factor = long.parameters["attention_factor"]
    parameters: dict[str, Parameter] = {**placed, "short_factor": divisors[0], "long_factor": divisors[1]}
    parameters |= {"original_max_position_embeddings": context, "attention_factor": factor}
    if short.parameters["attention_factor"] != factor:
        parameters["short_attention_factor"] = short.parameters["attention_factor"]
    return Form("rotary", "longrope", parameters, long.exact)


def _divisors(form: Form, pairs: int) -> tuple[float, ...]:
    """Return by what each pair is divided; nothing where that is not known."""
    if form.name == "default":
        return (1.0,) * pairs
    divisors = form.parameters.get({"longrope": "divisors", "linear": "factor"}.get(form.name, ""), ())
    if isinstance(divisors, float):
        return (divisors,) * pairs
    return tuple(float(divisor) for divisor in divisors) if isinstance(divisors, tuple) else ()


def _piecewise(
    short: Callable[[NDArray[np.int64]], Floats], long: Callable[[NDArray[np.int64]], Floats], seam: int, start: int
) -> Callable[[NDArray[np.int64]], Floats]:
    """Return the formula of the rows of two tables end to end, by row."""

    def exact(rows: NDArray[np.int64]) -> Floats:
        after = rows >= seam
        shifted = np.where(after, rows - seam + start, 0)
        return np.where(after[:, None], long(shifted), short(np.where(after, 0, rows)))

    return exact
