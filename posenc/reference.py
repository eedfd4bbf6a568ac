"""The mathematics in float64, for the references of schemes; shares nothing with their modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc.ports import Array, Feeds, Floats, Integers
from posenc.spec import Spec

if TYPE_CHECKING:
    from posenc.families.apply_rotary import Heads


def positions_of(spec: Spec, feeds: Feeds, tokens: int | None) -> Integers:
    """Return the positions of a call: those fed, (..., batch, seq); else those of its tokens, counted, (1, seq).

    tokens: how many a sequence has; None where the call has no sequences, but is for a whole table: (max_len,).
    """
    if "positions" in feeds:
        return feeds["positions"]
    if tokens is None:
        return np.arange(spec.max_len)
    start = int(feeds["start"][0]) if "start" in feeds else 0
    return start + np.arange(tokens)[None, :]


def tokens_of(feeds: Feeds, heads: Heads) -> int | None:
    """Return how many tokens queries have, if there are queries."""
    return feeds["q"].shape[heads.seq_axis] if "q" in feeds else None


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


def cos_sin(angle: Floats, scale: float, heads: Heads, *, full: bool) -> dict[str, Array]:
    """Return scaled cosines and sines, a column a pair, or a column a feature of the layout."""
    columns = np.arange(angle.shape[-1])
    if full:
        columns = np.repeat(columns, 2) if heads.interleaved else np.tile(columns, 2)
    return {"cos": scale * np.cos(angle)[..., columns], "sin": scale * np.sin(angle)[..., columns]}


def rotary(feeds: Feeds, angle: Floats, scale: float, heads: Heads, *, full: bool) -> dict[str, Array]:
    """Return the outputs of a rotary encoding whose queries and keys are rotated alike: by `angle`, times `scale`."""
    if "q" not in feeds:
        return cos_sin(angle, scale, heads, full=full)
    return {f"{name}_rotated": apply_rotary(feeds[name], angle, scale, heads) for name in ("q", "k")}
