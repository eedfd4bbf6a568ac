"""Fixed sines and cosines of the places of a grid: half of the features by the row, half by the column."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from posenc.call import Call
from posenc.formulas.fitting import Guess, Observation, fits
from posenc.formulas.parts.grids import sines_of
from posenc.ports import Array, Floats


@dataclass(frozen=True)
class Sincos2dParameters:
    """The parameters as a user gives them."""

    dim: int
    base: float
    order: str
    layout: str
    output: str
    spacing: str
    crop: int | None
    base_size: int | None
    interpolation_scale: float

    def coordinates(self, places: Array, size: int) -> Floats:
        """Return the coordinates of the places of an axis: the middle of the crop, scaled to base_size."""
        whole = size if self.crop is None else self.crop
        in_whole = places.astype(np.float64) + (whole - size) // 2
        return in_whole * (whole if self.base_size is None else self.base_size) / whole / self.interpolation_scale


def reference(call: Call, *, parameters: Sincos2dParameters) -> tuple[Array]:
    """Return the output in float64: sines and cosines of row and column, in their layout."""
    pairs = parameters.dim // 4
    exponents = np.arange(pairs) / (pairs - 1 if parameters.spacing == "half" else pairs)
    inv_freq = np.exp(-exponents * np.log(float(parameters.base)))
    angles = [
        parameters.coordinates(at, at.shape[1 + axis])[..., None] * inv_freq for axis, at in enumerate(call.positions)
    ]
    if parameters.order == "column_first":
        angles = angles[::-1]
    halves = [np.stack([np.sin(angle), np.cos(angle)]) for angle in angles]  # (2, 1, h, w, pairs)
    if parameters.layout == "sines_first":
        rows = np.concatenate([half[wave] for wave in (0, 1) for half in halves], -1)
    elif parameters.layout == "halves":
        rows = np.concatenate([half[wave] for half in halves for wave in (0, 1)], -1)
    else:
        # (2, 1, h, w, pairs) -> (1, h, w, pairs, 2) -> (1, h, w, 2 pairs)
        rows = np.concatenate([np.moveaxis(half, 0, -1).reshape(*half.shape[1:4], -1) for half in halves], -1)
    return (call.values[0].astype(np.float64) + rows if parameters.output == "add" else rows,)


@fits("rows", family="grid")
def fit(seen: Observation) -> Iterator[Guess]:
    """Guess the base from the sinusoids of the places of rows and of columns, counted from 0."""
    found = seen.measured(sines_of)
    if found is not None and not found.is_of_detr:
        read = found.parameters("base")
        known = ("dim", "base", "order", "layout", "spacing")
        yield found.guess(seen, "base", {name: read[name] for name in known} if read.keys() <= {*known} else {})
