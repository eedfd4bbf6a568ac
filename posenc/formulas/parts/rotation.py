"""Rotation in float64 with complex numbers, for the references of rotary schemes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posenc.call import Call
from posenc.ports import Array, Floats, Integers


@dataclass(frozen=True)
class Pairs:
    """Which features of queries and keys are a pair, and on which axis heads are: the parameters of a scheme.

    Args:
        layout: "halves", "interleaved", or "axis_halves" for halves of equal parts.
        tensor_layout: "bhsd" or "bshd".
        full: cosines and sines have a column a feature; else a column a pair.
        parts: how many parts there are.
        backward: queries and keys are rotated by minus the angle.
        apart: angles are those of features, (..., 2 pairs).
        prefix: cosines and sines of so many tokens that are not rotated come before those of the places of a grid.
    """

    layout: str
    tensor_layout: str
    full: bool = False
    parts: int = 1
    backward: bool = False
    apart: bool = False
    prefix: int = 0

    def features(self, count: int) -> tuple[Integers, Integers]:
        """Return the first and the second feature of each of so many pairs."""
        pair = np.arange(count)
        if self.layout == "interleaved":
            return 2 * pair, 2 * pair + 1
        # halves of the whole, or of each part
        size = count // self.parts
        first = pair // size * (2 * size) + pair % size
        return first, first + size


def apply_rotary(x: Array, angle: Floats, scale: Floats | float, pairs: Pairs) -> Floats:
    """Multiply each pair of features, as a complex number, by scale * exp(i angle): angle (..., seq, pairs) -> as x.

    With `backward` by its conjugate. The first 2 x pairs features are rotated; the others pass.
    """
    # (batch, seq, pairs) -> (batch, 1, seq, pairs) or (batch, seq, 1, pairs)
    factor = np.expand_dims(scale * np.exp(1j * angle), 1 if pairs.tensor_layout == "bhsd" else -2)
    factor = factor.conj() if pairs.backward else factor
    y: Floats = x.astype(np.float64)
    a, b = pairs.features(angle.shape[-1])
    z = (y[..., a] + 1j * y[..., b]) * factor
    y[..., a], y[..., b] = z.real, z.imag
    return y


def apply_apart(x: Array, angle: Floats, scale: float, pairs: Pairs) -> Floats:
    """Return x with each feature as it is where its pair, a complex number, is turned by the feature's own angle.

    First features are real parts, second ones imaginary parts: angle (..., seq, features) -> as x.
    """
    factor = np.expand_dims(scale * np.exp(1j * angle), 1 if pairs.tensor_layout == "bhsd" else -2)
    y: Floats = x.astype(np.float64)
    a, b = pairs.features(angle.shape[-1] // 2)
    z = y[..., a] + 1j * y[..., b]
    y[..., a], y[..., b] = (z * factor[..., a]).real, (z * factor[..., b]).imag
    return y


def cos_sin(angle: Floats, scale: float, pairs: Pairs) -> tuple[Array, Array]:
    """Return scaled cosines and sines: (..., pairs), or with `full` (..., 2 pairs)."""
    columns = np.arange(angle.shape[-1])
    if pairs.full and not pairs.apart:
        columns = np.argsort(np.concatenate(pairs.features(len(columns)))) % len(columns)
    cos, sin = scale * np.cos(angle)[..., columns], scale * np.sin(angle)[..., columns]
    if not pairs.prefix:
        return cos, sin
    # (1, *grid, columns) -> (1, prefix + places, columns)
    width = [(0, 0), (pairs.prefix, 0), (0, 0)]
    flat = [part.reshape(len(part), -1, part.shape[-1]) for part in (cos, sin)]
    return np.pad(flat[0], width, constant_values=1.0), np.pad(flat[1], width)


def rotary(call: Call, angle: Floats, scale: float, pairs: Pairs) -> tuple[Array, ...]:
    """Return the outputs of a rotary encoding: queries and keys rotated by `angle`, times `scale`; else the two."""
    if len(call.values) != 2:  # beside a start x stands alone, whose length counts, and no number
        return cos_sin(angle, scale, pairs)
    if pairs.apart:
        return tuple(apply_apart(value, angle, float(scale), pairs) for value in call.values)
    return tuple(apply_rotary(value, angle, scale, pairs) for value in call.values)
