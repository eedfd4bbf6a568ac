"""The sines and cosines of DETR (arXiv:2005.12872) for places of padded images, as fractions of the valid size."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from posenc.call import Call
from posenc.formulas.fitting import Guess, Observation, fits
from posenc.formulas.parts.grids import sines_of
from posenc.ports import Array
from posenc.spec import Spec


@dataclass(frozen=True)
class Sine2dParameters:
    """The parameters as a user gives them."""

    dim: int
    temperature: float
    normalize: bool
    scale: float
    shift: float
    order: str
    tensor_layout: str


def reference(spec: Spec, call: Call, *, parameters: Sine2dParameters) -> tuple[Array]:
    """Return the output in float64, by DETR's formula: see the scheme."""
    counts = call.positions if spec.positions == "mask" else call.positions + 1
    column, half = np.arange(parameters.dim // 2), parameters.dim // 2
    halves = []
    for axis in (0, 1) if parameters.order == "row_first" else (1, 0):
        count = counts[axis].astype(np.float64)
        if parameters.normalize:
            whole = np.maximum(count.max(1 + axis, keepdims=True), 1)  # (batch, 1, width) or (batch, height, 1)
            count = parameters.scale * (count + parameters.shift) / (whole + 1e-6)
        # (batch, height, width, dim / 2)
        angle = count[..., None] / np.power(float(parameters.temperature), 2.0 * (column // 2) / half)
        halves.append(np.where(column % 2, np.cos(angle), np.sin(angle)))
    # (batch, height, width, dim): the half of the rows, then that of the columns
    rows = np.concatenate(halves, -1)
    return (np.moveaxis(rows, -1, 1) if parameters.tensor_layout == "bdhw" else rows,)


@fits("rows", family="grid")
def fit(seen: Observation) -> Iterator[Guess]:
    """Guess the temperature, and the scale of fractions, from the sinusoids of rows and columns counted from 1."""
    found = seen.measured(sines_of)
    if found is None or not found.is_of_detr:
        return
    read = found.parameters("temperature")
    known = ("dim", "temperature", "order", "normalize", "scale")
    # steps that are no whole numbers are those of a normalized grid, or of none that the scheme has
    is_known = "first" not in read and ("row_step" not in read or "normalize" in read)
    yield found.guess(seen, "temperature", {name: read[name] for name in known if name in read} if is_known else {})
