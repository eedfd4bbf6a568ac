"""Rotary position embedding of DINOv3 (arXiv:2508.10104): patches are rotated by where they lie in their image."""

import numpy as np

from posenc.call import Call
from posenc.formulas.parts import rotation
from posenc.ports import Array


def reference(
    call: Call,
    *,
    head_dim: int,
    rope_theta: float | None,
    periods: tuple[float | None, float | None],
    pairs: rotation.Pairs,
) -> tuple[Array, ...]:
    """Return the outputs in float64: coordinates in -1..1, over periods."""
    quarter = head_dim // 4
    low, high = periods
    if low is None or high is None:
        period = np.power(100.0 if rope_theta is None else rope_theta, 4 * np.arange(quarter) / head_dim)
    else:
        # The last pair has the longest period; a single pair has the shortest.
        period = high * (high / low) ** (np.linspace(0, 1, quarter) - 1)
    angles = []
    for axis, place in enumerate(call.positions):
        coordinate = 2 * (place + 0.5) / place.shape[1 + axis] - 1  # (1, height, width)
        angles.append(2 * np.pi * coordinate[..., None] / period)
    # (1, height, width, pairs): first those of the row
    return rotation.rotary(call, np.concatenate(angles, -1), 1.0, pairs)
