"""The embedding of diffusion timesteps: sines and cosines of a step, a row for each sequence of a batch."""

import math

import numpy as np

from posenc.call import Call
from posenc.ports import Array


def reference(call: Call, *, dim: int, first: bool, shift: float, scale: float, period: float) -> tuple[Array]:
    """Return the features in float64, at the steps to compare."""
    steps = call.values[0] if call.values else call.positions
    half = dim // 2
    exponent = -math.log(period) * np.arange(half) / (half - shift)
    # (steps, 1) * (half,)
    angle = scale * (steps[call.picked, None].astype(np.float64) * np.exp(exponent))
    waves = [np.cos(angle), np.sin(angle)] if first else [np.sin(angle), np.cos(angle)]
    return (np.concatenate([*waves, np.zeros((len(angle), dim % 2))], -1),)  # (steps, dim)
