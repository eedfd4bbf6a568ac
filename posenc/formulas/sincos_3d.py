"""Fixed sines and cosines of the places of a video: some features by the frame, the others by row and column."""

from dataclasses import dataclass

import numpy as np

from posenc.call import Call
from posenc.ports import Array, Floats


@dataclass(frozen=True)
class Parameters:
    """The parameters as a user gives them; scales of frames, and of rows and columns."""

    dim: int
    temporal: int | None
    base: float
    order: str
    output: str
    scales: tuple[float, float]


def reference(call: Call, *, parameters: Parameters) -> tuple[Array]:
    """Return the output in float64: per axis all sines, then all cosines, of place / scale / base^(2 i / width)."""
    of_frame = parameters.dim // 4 if parameters.temporal is None else parameters.temporal
    of_place = (parameters.dim - of_frame) / 2
    frames, rows, columns = call.positions
    places = [columns, rows] if parameters.order == "column_first" else [rows, columns]
    waves: list[Floats] = []
    for at, width, scale in zip(
        (frames, *places),
        (of_frame, of_place, of_place),
        (parameters.scales[0], *parameters.scales[1:] * 2),
        strict=True,
    ):
        # (1, frames, height, width, 1) / (pairs,)
        angle = at[..., None] / scale / np.power(float(parameters.base), 2.0 * np.arange(int(width) // 2) / width)
        waves += [np.sin(angle), np.cos(angle)]
    output = np.concatenate(waves, -1)  # (1, frames, height, width, dim)
    return (call.values[0].astype(np.float64) + output if parameters.output == "add" else output,)
