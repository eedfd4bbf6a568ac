"""Features of the places of an image, half of them for the row, half for the column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posenc.formulas.fitting import Guess, Observation
from posenc.formulas.parts.decimals import shortest
from posenc.formulas.parts.sinusoids import Sinusoid, sinusoid, tolerance_of
from posenc.parameters import Value
from posenc.ports import Array

NORMALIZED = 1e-5
"""How well rows and columns go up to the same number."""
SAME = 1e-6
"""How well the features of a row are the same in all columns."""


@dataclass(frozen=True)
class Halves:
    """The features by row (height, dim / 2), those by column (width, dim / 2), and which come first."""

    rows: Array
    columns: Array
    order: str


def halves_of(seen: Observation) -> Halves | None:
    """Return the halves of features (height, width, features); None where they do not go by row and by column."""
    grid = seen.numbers
    if grid.ndim != 3 or min(seen.places) < 2 or seen.width < 4 or seen.width % 2:
        return None
    # DETR has rows before columns; MAE's first code had columns first
    first, second = np.split(grid, 2, -1)
    for order, by_row, by_column in (("row_first", first, second), ("column_first", second, first)):
        if _same_along(by_row, 1) and _same_along(by_column, 0) and not _same_along(by_row, 0):
            return Halves(by_row[:, 0], by_column[0], order)
    return None


def _same_along(grid: Array, axis: int) -> bool:
    # most arrays differ in their first two rows already
    pair = grid.take([0, 1], axis).astype(np.float64)
    if np.abs(np.diff(pair, axis=axis)).max() > SAME:
        return False
    numbers = grid.astype(np.float64)
    return bool(np.abs(numbers - numbers.take([0], axis)).max() <= SAME)


@dataclass(frozen=True)
class Sines:
    """Sinusoids by row and by column, of one layout and one base."""

    rows: Sinusoid
    columns: Sinusoid
    order: str
    sides: tuple[int, int]

    @property
    def is_of_detr(self) -> bool:
        """Whether places are counted from 1, or are fractions: those of MAE are counted from 0."""
        return self.rows.pairing.layout == "interleaved" and (
            self.rows.start != 0 or self.rows.frequencies.scale != 1.0
        )

    def parameters(self, base: str) -> dict[str, Value]:
        """Return what schemes call the parameters, and the steps of places that are no whole numbers.

        Args:
            base: the name of the base.
        """
        rows, columns = self.rows, self.columns
        spacing = "half" if rows.frequencies.shift == 1.0 else "paper"
        named: dict[str, Value] = {"dim": 2 * rows.pairing.width, base: rows.frequencies.base, "order": self.order}
        named["layout"] = rows.pairing.layout
        if not self.is_of_detr or spacing == "half":
            named["spacing"] = spacing
        if rows.pairing.cosines_first:
            named["first"] = "cos"
        if rows.amplitude != 1.0:
            named["scale"] = rows.amplitude
        if not rows.frequencies.scale == 1.0 == columns.frequencies.scale:
            named |= {"row_step": rows.frequencies.scale, "column_step": columns.frequencies.scale}
        return named | self._normalized()

    def _normalized(self) -> dict[str, Value]:
        """Return what places go up to, where rows and columns go up to the same number, however many they are."""
        steps = (axis.frequencies.scale for axis in (self.rows, self.columns))
        totals = [step * side for step, side in zip(steps, self.sides, strict=True)]
        # DETR adds a millionth to the count that it divides by
        if abs(totals[0] / totals[1] - 1) > NORMALIZED or self.rows.amplitude != 1.0 or totals[0] == self.sides[0]:
            return {}
        full = abs(totals[0] / (2 * np.pi) - 1) <= NORMALIZED
        return {"normalize": True, "scale": 2 * np.pi if full else shortest(totals[0], NORMALIZED * totals[0])}

    def guess(self, seen: Observation, base: str, typed: dict[str, Value]) -> Guess:
        """Return the guess of an observation, by the numbers of both axes."""
        height, width = self.sides
        by_row, by_column = self.rows.of_rows(height)[:, None], self.columns.of_rows(width)[None]
        halves = [np.broadcast_to(half, (height, width, half.shape[-1])) for half in (by_row, by_column)]
        numbers = np.concatenate(halves if self.order == "row_first" else halves[::-1], -1)
        tolerance = tolerance_of(seen.spacing, max(self.sides)) * max(self.rows.amplitude, self.columns.amplitude)
        return Guess(self.parameters(base), numbers, typed=typed, tolerance=tolerance + SAME)


def axes_of(seen: Observation) -> tuple[Sinusoid | None, Sinusoid | None]:
    """Return the sinusoids of a grid's rows and of its columns; None for numbers of no formula."""
    halves = seen.measured(halves_of)
    if halves is None:
        return None, None
    rows, columns = (sinusoid(Observation("rows", part, seen.spacing)) for part in (halves.rows, halves.columns))
    return rows, columns


def sines_of(seen: Observation) -> Sines | None:
    """Return the sinusoids of a grid's rows and columns; None where either is another, or has none."""
    halves, (rows, columns) = seen.measured(halves_of), seen.measured(axes_of)
    if halves is None or rows is None or columns is None or rows.pairing != columns.pairing:
        return None
    if rows.frequencies.base != columns.frequencies.base:
        return None
    return Sines(rows, columns, halves.order, (len(halves.rows), len(halves.columns)))
