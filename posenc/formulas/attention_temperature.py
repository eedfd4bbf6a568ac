"""Attention temperature by position: what queries far along in a text are multiplied by (Llama 4, Ministral 3)."""

import numpy as np

from posenc.call import Call
from posenc.ports import Array, Floats, Integers


def factors(positions: Integers, *, beta: float, step: int, offset: int) -> Floats:
    """Return the factors in float64, from the formula alone."""
    whole = positions.astype(np.int64) + offset
    steps = (whole - whole % step) / step
    return np.asarray(1.0 + beta * np.log(1.0 + steps))


def reference(call: Call, *, beta: float, step: int, offset: int) -> tuple[Array]:
    """Return the factors in float64 at the positions to compare: (batch, seq, 1)."""
    positions = call.positions[..., call.picked, None]
    return (factors(positions, beta=beta, step=step, offset=offset),)
