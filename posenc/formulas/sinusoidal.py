"""The sinusoidal encoding of "Attention Is All You Need" (arXiv:1706.03762, section 3.5)."""

from dataclasses import dataclass

import numpy as np

from posenc.call import Call
from posenc.ports import Array, Floats


@dataclass(frozen=True)
class SinusoidParameters:
    """The parameters of a row of sinusoids.

    Args:
        width: columns; None for as many as x has.
        half: whether exponents are i / (half - 1), so that frequencies end at 1 / base.
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
    y = scale * _waves(positions, d, rows)
    if rows.padding_row is not None:
        y = np.where(positions == rows.padding_row, 0.0, y)
    if not (add and call.values):
        return (y,)
    grown = d**0.5 if isinstance(scale_x, str) else scale_x
    return (call.values[0][:, call.picked].astype(np.float64) * grown + y,)


def _waves(positions: Floats, d: int, rows: SinusoidParameters) -> Floats:
    """Return sines and cosines of every column: (..., 1) -> (..., d)."""
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
    return waves * (column < 2 * sines)
