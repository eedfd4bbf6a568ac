"""Rotation in float64 with complex numbers, for the references of rotary schemes; shares nothing with their modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc.call import Call
from posenc.ports import Array, Floats

if TYPE_CHECKING:
    from posenc.families.apply_rotary import Heads


def apply_rotary(x: Array, angle: Floats, scale: Floats | float, heads: Heads) -> Floats:
    """Multiply each pair of features, as a complex number, by scale * exp(i angle): angle (..., seq, pairs) -> as x.

    As many features as there are pairs of angles are rotated; the others pass.
    """
    factor = np.expand_dims(scale * np.exp(1j * angle), heads.head_axis)
    pairs = angle.shape[-1]
    y: Floats = x.astype(np.float64)
    a = slice(0, 2 * pairs, 2) if heads.interleaved else slice(0, pairs)
    b = slice(1, 2 * pairs, 2) if heads.interleaved else slice(pairs, 2 * pairs)
    z = (y[..., a] + 1j * y[..., b]) * factor
    y[..., a], y[..., b] = z.real, z.imag
    return y


def cos_sin(angle: Floats, scale: float, heads: Heads, *, full: bool) -> tuple[Array, Array]:
    """Return scaled cosines and sines, a column a pair, or a column a feature of the layout."""
    columns = np.arange(angle.shape[-1])
    if full:
        columns = np.repeat(columns, 2) if heads.interleaved else np.tile(columns, 2)
    return scale * np.cos(angle)[..., columns], scale * np.sin(angle)[..., columns]


def rotary(call: Call, angle: Floats, scale: float, heads: Heads, *, full: bool) -> tuple[Array, ...]:
    """Return the outputs of a rotary encoding: queries and keys rotated by `angle`, times `scale`; else the two."""
    if not call.values:
        return cos_sin(angle, scale, heads, full=full)
    return tuple(apply_rotary(value, angle, scale, heads) for value in call.values)
