"""The errors of numbers by their place: a coordinate of a grid, or a distance.

A place of a grid has two coordinates or more: its error counts for the largest of them. A distance has two rows, one
for each direction: the larger error counts.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from posenc.formulas.fitting import Form
from posenc.ports import Array, Floats, Integers
from posenc_export.read.errors.by_position import curve
from posenc_export.read.inspection import Errors


def place_errors(form: Form, bound: float) -> Errors | None:
    """Return the errors of the numbers by which a form was recognised; None where they have no places.

    Args:
        form: with the differences of these numbers from its own.
        bound: the error that counts as too large.
    """
    differences = form.differences
    if differences is None or not differences.size or not differences.ndim:
        return None
    distances = form.distances
    if distances is not None:
        return distance_errors(distances, differences, bound) if len(distances) == len(differences) else None
    if "heads" in form.parameters and differences.ndim > 2:
        differences = differences.max(axis=-1)  # heads that turn apart
    farthest = np.max(np.indices(differences.shape), axis=0)
    errors = _curve(farthest.reshape(-1), differences.reshape(-1), bound)
    if differences.ndim > 1:
        return replace(errors, place="coordinate", grid=differences.shape)
    return replace(errors, place="row" if form.family == "relative" else "position")


def distance_errors(distances: Integers, differences: Floats, bound: float) -> Errors:
    """Return the errors of rows of distances: of each, the larger of both directions."""
    return replace(_curve(np.abs(distances), differences, bound), place="distance")


def stored_distances(form: Form, rows: Array, table: Array) -> Integers | None:
    """Return the distance of each row of a table of which a call reads some; None where these are not found in it.

    Args:
        form: of the rows that were read.
        rows: that were read, (distances, width).
        table: all that are stored, (distances, width).
    """
    known = form.distances
    if known is None or len(known) != len(rows) or len(known) < 2 or rows.shape[1:] != table.shape[1:]:
        return None
    begins = np.flatnonzero((table == rows[0]).all(axis=1))
    if len(begins) != 1:
        return None
    return np.asarray(known[0] + (known[1] - known[0]) * (np.arange(len(table)) - begins[0]))


def _curve(places: Integers, differences: Floats, bound: float) -> Errors:
    """Return the largest difference of each place as a curve."""
    errors = np.zeros(int(places.max()) + 1)
    np.maximum.at(errors, places, differences)
    positions = np.unique(places)
    found = curve(positions, errors[positions], bound)
    return replace(found, last_position=int(positions[-1]))
