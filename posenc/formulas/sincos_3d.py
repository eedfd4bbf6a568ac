"""Fixed sines and cosines of the places of a video: some features by the frame, the others by row and column."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from posenc.call import Call
from posenc.formulas.fitting import Guess, Observation, call_of, fits
from posenc.formulas.parts.decimals import positive_guesses
from posenc.formulas.parts.turning import bases_of, frequencies_of, varying
from posenc.ports import Array, Floats


@dataclass(frozen=True)
class Sincos3dParameters:
    """The parameters as a user gives them; scales of frames, and of rows and columns."""

    dim: int
    temporal: int | None
    base: float
    order: str
    output: str
    scales: tuple[float, float]


def reference(call: Call, *, parameters: Sincos3dParameters) -> tuple[Array]:
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


@fits("rows", family="grid")
def fit(seen: Observation) -> Iterator[Guess]:
    """Guess how many features are the frame's from what each column varies by, and bases and scales from turns."""
    if seen.numbers.ndim != 4 or seen.width < 6:
        return
    axes = varying(seen.numbers)
    for of_frame in (seen.width // 4, *range(2, seen.width - 3, 2)):
        half = (seen.width - of_frame) // 2
        blocks = [axes[:of_frame], axes[of_frame : of_frame + half], axes[of_frame + half :]]
        by = [set().union(*block) for block in blocks]
        if of_frame % 2 or half % 2 or by not in ([{0}, {1}, {2}], [{0}, {2}, {1}]):
            continue
        rows = seen.numbers.astype(np.float64)
        order = "row_first" if by[1] == {1} else "column_first"
        first = rows[0, :, 0] if order == "row_first" else rows[0, 0]
        waves = [np.split(block, 2, -1) for block in (rows[:, 0, 0, :of_frame], first[:, of_frame : of_frame + half])]
        turns = [frequencies_of(cosine + 1j * sine) for sine, cosine in waves]
        scales = [positive_guesses(1 / turn[0]) for turn in turns]
        for temporal, spatial in product(*scales):
            for base in bases_of(turns[1] * spatial, np.arange(half // 2) * 2.0 / half):
                parameters = Sincos3dParameters(seen.width, of_frame, base, order, "rows", (temporal, spatial))
                (expected,) = reference(call_of(seen), parameters=parameters)
                named = {"dim": seen.width, "temporal": of_frame, "base": base, "order": order}
                divisors = {"spatial_interpolation_scale": spatial, "temporal_interpolation_scale": temporal}
                yield Guess({**named, **divisors}, expected[0])
