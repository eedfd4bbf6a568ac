"""The sinusoidal encoding of "Attention Is All You Need" (arXiv:1706.03762, section 3.5)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from posenc.call import Call
from posenc.formulas.fitting import Guess, Observation, fits
from posenc.formulas.parts.sinusoids import sinusoid
from posenc.parameters import Value
from posenc.ports import Array, Floats


@dataclass(frozen=True)
class SinusoidParameters:
    """The parameters of a row of sinusoids.

    Args:
        width: columns; None for as many as x has.
        base: of the frequencies.
        interleaved: whether sines and cosines lie in turn; else sines come first.
        half: whether exponents are i / (half - 1), so that frequencies end at 1 / base.
        padding_row: the row of a padding token, which is 0; None where there is none.
        scale: what the module's rows are multiplied by; `reference` has its own.
    """

    width: int | None
    base: float
    interleaved: bool
    half: bool
    padding_row: int | None
    scale: float


def reference(call: Call, *, rows: SinusoidParameters, scale: float, scale_x: float | str, add: bool) -> tuple[Array]:
    """Return the output in float64, from the formula alone, at the positions to compare."""
    d = call.values[0].shape[2] if rows.width is None else rows.width
    # (batch, seq, 1)
    positions = call.positions[..., call.picked, None].astype(np.float64)
    y = scale * rows_at(positions, d, rows)
    if not (add and call.values):
        return (y,)
    grown = d**0.5 if isinstance(scale_x, str) else scale_x
    return (call.values[0][:, call.picked].astype(np.float64) * grown + y,)


def rows_at(positions: Floats, d: int, rows: SinusoidParameters) -> Floats:
    """Return the rows of positions, without a scale of their own: (..., 1) -> (..., d)."""
    column = np.arange(d)
    # with an odd d there is one sine more; fairseq's spacing leaves the last column 0
    sines = d // 2 if rows.half else (d + 1) // 2
    pair, is_cosine = column // 2, column % 2 == 1
    if not rows.interleaved:
        pair, is_cosine = np.where(column < sines, column, column - sines), column >= sines
    exponent = pair / max(d // 2 - 1, 1) if rows.half else 2.0 * pair / d
    # (batch, seq, 1) / (d,)
    angle = positions / np.power(float(rows.base), exponent)
    waves: Floats = np.where(is_cosine, np.cos(angle), np.sin(angle))
    waves *= column < 2 * sines
    return waves if rows.padding_row is None else np.where(positions == rows.padding_row, 0.0, waves)


@fits("rows", "taken", family="sinusoidal")
def fit(seen: Observation) -> Iterator[Guess]:
    """Guess the layout, base and spacing of rows that go up, from any position on, with an amplitude of any size."""
    found = seen.measured(sinusoid)
    if found is None or found.step < 0 or found.frequencies.scale != 1.0 or found.start < 0:
        return
    more: dict[str, Value] = {"offset": int(found.start)} if found.start else {}
    if found.padding:
        more["padding_row"] = int(found.start) + found.padding[0]
    guess, pairing = found.guess(seen, **more), found.pairing
    if not pairing.cosines_first:
        given, padding_row = guess.parameters, int(found.start) + found.padding[0] if found.padding else None
        is_half = given["spacing"] == "half"
        rows = SinusoidParameters(
            pairing.width, found.frequencies.base, pairing.layout == "interleaved", is_half, padding_row, 1.0
        )
        positions = found.start + np.arange(len(guess.numbers), dtype=np.float64)[:, None]
        expected = found.amplitude * rows_at(positions, pairing.width, rows)
        # rows whose frequencies lie otherwise are not this scheme's
        if np.abs(expected - guess.numbers).max() <= guess.tolerance:
            typed = {name: value for name, value in given.items() if name != "offset"}
            guess = replace(guess, numbers=expected, typed=typed)
    yield guess


BASES = (1e4, 1e6, 5e5, 1e3, 1e2)
"""Bases of sinusoids that are tried on tables of which some columns alone are sinusoids."""
FEWEST_WAVES = 8
"""Features and rows that such a table has at least."""
SAME = 2e-3


def near_columns(rows: Array) -> tuple[str, float, int] | None:
    """Return the layout and the base of rows of which some columns alone are sinusoids, and how many are not.

    The reader names by it what is nearly this scheme.
    """
    width = rows.shape[1]
    if width < FEWEST_WAVES or width % 2 or len(rows) < FEWEST_WAVES:
        return None
    numbers, positions = rows.astype(np.float64), np.arange(len(rows), dtype=np.float64)[:, None]
    for base in BASES:
        for layout in ("interleaved", "halves"):
            exact = rows_at(
                positions, width, SinusoidParameters(width, base, layout == "interleaved", False, None, 1.0)
            )
            wrong = np.abs(numbers - exact).max(0) > SAME
            # the slowest are nearly straight in a few rows
            if 0 < wrong.sum() <= 3 * width // 4 and (~wrong[: width // 2]).sum() >= FEWEST_WAVES // 2:
                return layout, base, int(wrong.sum())
    return None
