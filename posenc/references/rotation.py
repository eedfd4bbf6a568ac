"""Rotation in float64 with complex numbers, for the references of rotary schemes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posenc.call import Call
from posenc.ports import Array, Floats


@dataclass(frozen=True)
class Pairs:
    """Which features of queries and keys are a pair, and on which axis heads are: the parameters of a scheme.

    Args:
        layout: "halves" or "interleaved".
        tensor_layout: "bhsd" or "bshd".
        full: cosines and sines have a column a feature; else a column a pair.
    """

    layout: str
    tensor_layout: str
    full: bool = False


def apply_rotary(x: Array, angle: Floats, scale: Floats | float, pairs: Pairs) -> Floats:
    """Multiply each pair of features, as a complex number, by scale * exp(i angle): angle (..., seq, pairs) -> as x.

    The first 2 x pairs features are rotated; the others pass.
    """
    # (batch, seq, pairs) -> (batch, 1, seq, pairs) or (batch, seq, 1, pairs)
    factor = np.expand_dims(scale * np.exp(1j * angle), 1 if pairs.tensor_layout == "bhsd" else -2)
    count, neighbours = angle.shape[-1], pairs.layout == "interleaved"
    y: Floats = x.astype(np.float64)
    a = slice(0, 2 * count, 2) if neighbours else slice(0, count)
    b = slice(1, 2 * count, 2) if neighbours else slice(count, 2 * count)
    z = (y[..., a] + 1j * y[..., b]) * factor
    y[..., a], y[..., b] = z.real, z.imag
    return y


def cos_sin(angle: Floats, scale: float, pairs: Pairs) -> tuple[Array, Array]:
    """Return scaled cosines and sines: (..., pairs), or with `full` (..., 2 pairs)."""
    columns = np.arange(angle.shape[-1])
    if pairs.full:
        columns = np.repeat(columns, 2) if pairs.layout == "interleaved" else np.tile(columns, 2)
    return scale * np.cos(angle)[..., columns], scale * np.sin(angle)[..., columns]


def rotary(call: Call, angle: Floats, scale: float, pairs: Pairs) -> tuple[Array, ...]:
    """Return the outputs of a rotary encoding: queries and keys rotated by `angle`, times `scale`; else the two."""
    if len(call.values) != 2:  # beside a start x stands alone, whose length counts, and no number
        return cos_sin(angle, scale, pairs)
    return tuple(apply_rotary(value, angle, scale, pairs) for value in call.values)
