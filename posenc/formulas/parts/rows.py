"""Sines and cosines of distances, in float64, for the references of relative rows."""

from __future__ import annotations

import numpy as np

from posenc.ports import Floats, Integers


def waves(distance: Integers, inv_freq: Floats, *, interleaved: bool) -> Floats:
    """Return the rows of distances in float64: (1, positions, 2 pairs)."""
    angle = distance[:, None] * inv_freq
    pairs = [np.sin(angle), np.cos(angle)]
    # (positions, pairs, 2) -> (positions, 2 pairs)
    rows = np.stack(pairs, -1).reshape(len(distance), -1) if interleaved else np.concatenate(pairs, -1)
    return np.asarray(rows[None])
