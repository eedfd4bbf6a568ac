"""Grids: features of places in an image, half of them for the row, half for the column."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from posenc.formulas.fitting import Form, Parameter
from posenc.formulas.parts.decimals import shortest
from posenc.formulas.parts.windows import sides_of
from posenc_export.read.recognise.sinusoidal import Sinusoid, sinusoid

NORMALIZED = 1e-5
"""How well rows and columns go up to the same number."""
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def grid_form(grid: NDArray[np.generic]) -> Form | None:
    """Return the form of features of places (height, width, features), half by row, half by column."""
    if not np.isfinite(grid).all():
        return None
    if grid.ndim != 3 or min(grid.shape[:2]) < 2 or grid.shape[2] < 4 or grid.shape[2] % 2:
        return None
    half = grid.shape[2] // 2
    # DETR has rows before columns; MAE's first code had columns first
    first, second = grid[..., :half], grid[..., half:]
    for order, by_row, by_column in (("row_first", first, second), ("column_first", second, first)):
        if _same_along(by_row, 1) and _same_along(by_column, 0) and not _same_along(by_row, 0):
            return _halves_form(by_row[:, 0], by_column[0], order)
    return None


def flat_grid_form(rows: NDArray[np.generic]) -> Form | None:
    """Return the form of rows (places, features) that are a grid's, with rows of zeros before for tokens of a class."""
    if not np.isfinite(rows).all():
        return None
    # tokens of a class come before the places, with rows of zeros
    before = int(np.argmax(rows.any(1))) if rows.any() else len(rows)
    if before > 2:
        return None
    for sides in sides_of(len(rows) - before):
        # (places, features) -> (height, width, features)
        form = grid_form(rows[before:].reshape(*sides, -1))
        if form is not None:
            tokens: dict[str, Parameter] = {"class_tokens": before} if before else {}
            return Form(form.family, form.name, {**form.parameters, "grid": sides, **tokens}, None, form.also)
    return None


def _same_along(grid: NDArray[np.generic], axis: int) -> bool:
    # most arrays differ in their first two rows already
    pair = grid.take([0, 1], axis).astype(np.float64)
    if np.abs(np.diff(pair, axis=axis)).max() > 1e-6:
        return False
    numbers = grid.astype(np.float64)
    return bool(np.abs(numbers - numbers.take([0], axis)).max() <= 1e-6)


def _halves_form(by_row: NDArray[np.generic], by_column: NDArray[np.generic], order: str) -> Form | None:
    """Return the form of a half of the features by row (height, half), and of the others by column."""
    rows, columns = sinusoid(by_row), sinusoid(by_column)
    dim = by_row.shape[1] * 2
    if rows is None or columns is None:
        # learned numbers have no formula, but as many as this are no accident
        varied = by_row.shape[1] >= 8 and np.ptp(by_row.astype(np.float64), axis=0).all()
        return Form("grid", "learned rows and columns", {"dim": dim, "order": order}) if varied else None
    if rows.pairing != columns.pairing or rows.frequencies.base != columns.frequencies.base:
        return None
    # DETR's are in turn, of places that are counted from 1 or are fractions; MAE's are of places from 0
    is_of_detr = rows.pairing.layout == "interleaved" and (rows.start != 0 or rows.frequencies.scale != 1.0)
    base, spacing = rows.frequencies.base, "half" if rows.frequencies.shift == 1.0 else "paper"
    sides = len(by_row), len(by_column)
    parameters: dict[str, Parameter] = {"dim": dim, "temperature" if is_of_detr else "base": base, "order": order}
    parameters |= {"layout": rows.pairing.layout}
    if not is_of_detr or spacing == "half":
        parameters["spacing"] = spacing
    if rows.pairing.cosines_first:
        parameters["first"] = "cos"
    name = "sine_2d" if is_of_detr else "sincos_2d"
    return Form("grid", name, parameters | _scales(rows, columns) | _normalized(rows, columns, sides))


def _normalized(rows: Sinusoid, columns: Sinusoid, sides: tuple[int, int]) -> dict[str, Parameter]:
    """Return what places go up to, where rows and columns go up to the same number, however many they are."""
    totals = [axis.frequencies.scale * side for axis, side in zip((rows, columns), sides, strict=True)]
    # DETR adds a millionth to the count that it divides by
    if abs(totals[0] / totals[1] - 1) > NORMALIZED or rows.amplitude != 1.0 or totals[0] == sides[0]:
        return {}
    scale = 2 * np.pi if abs(totals[0] / (2 * np.pi) - 1) <= NORMALIZED else shortest(totals[0], NORMALIZED * totals[0])
    return {"normalize": True, "scale": float(scale)}


def _scales(rows: Sinusoid, columns: Sinusoid) -> dict[str, Parameter]:
    """Return the factors of places where they are no whole numbers, and the place of the first."""
    scales = {"scale": rows.amplitude} if rows.amplitude != 1.0 else {}
    if rows.frequencies.scale == 1.0 == columns.frequencies.scale:
        return {**scales}
    return {**scales, "row_step": rows.frequencies.scale, "column_step": columns.frequencies.scale}
