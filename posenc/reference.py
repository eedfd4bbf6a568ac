"""Rotation in float64 with complex numbers, for the oracles of rotary schemes; shares nothing with their modules."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from posenc.scheme import Feeds, Form


def told_positions(form: Form, feeds: Feeds, seq_axis: int) -> NDArray[np.int64]:
    """Return the positions of a call: those fed, (..., batch, seq), or (1, seq), or all of a whole table (max_len,)."""
    if "positions" in feeds:
        return feeds["positions"]
    if "q" not in feeds:
        return np.arange(form.max_len)
    start = int(feeds["start"][0]) if "start" in feeds else 0
    return start + np.arange(feeds["q"].shape[seq_axis])[None, :]


def turned(
    x: NDArray[Any], angle: NDArray[np.float64], scale: NDArray[np.float64] | float, *, layout: str, head_axis: int
) -> NDArray[np.float64]:
    """Multiply each pair of features, as a complex number, by scale * exp(i angle): angle (..., seq, pairs) -> as x.

    As many features as there are pairs of angles turn; the others pass.
    """
    turns = np.expand_dims(scale * np.exp(1j * angle), head_axis)
    pairs = angle.shape[-1]
    y = x.astype(np.float64)
    a = slice(0, pairs) if layout == "halves" else slice(0, 2 * pairs, 2)
    b = slice(pairs, 2 * pairs) if layout == "halves" else slice(1, 2 * pairs, 2)
    z = (y[..., a] + 1j * y[..., b]) * turns
    y[..., a], y[..., b] = z.real, z.imag
    return y


def cos_sin(angle: NDArray[np.float64], scale: float, *, layout: str, full: bool) -> dict[str, NDArray[Any]]:
    """Return scaled cosines and sines, a column a pair, or a column a feature of the layout."""
    columns = np.arange(angle.shape[-1])
    if full:
        columns = np.tile(columns, 2) if layout == "halves" else np.repeat(columns, 2)
    return {"cos": scale * np.cos(angle)[..., columns], "sin": scale * np.sin(angle)[..., columns]}
