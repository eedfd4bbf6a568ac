"""xPos: rotary position embedding whose scores fade with distance (Sun et al., arXiv:2212.10554, section 2)."""

from dataclasses import dataclass

import numpy as np

from posenc.call import Call
from posenc.formulas.parts import rotation
from posenc.ports import Array


@dataclass(frozen=True)
class Parameters:
    """The parameters as a user gives them."""

    head_dim: int
    rope_theta: float
    gamma: float
    scale_base: float
    center: int | str


def reference(call: Call, *, parameters: Parameters, pairs: rotation.Pairs) -> tuple[Array, Array]:
    """Return the outputs in float64, at every position."""
    positions = call.positions[..., None].astype(np.float64)
    share = 2 * np.arange(parameters.head_dim // 2) / parameters.head_dim
    # (batch, seq, 1) * (pairs,)
    angle = positions * np.power(float(parameters.rope_theta), -share)
    middle = parameters.center if isinstance(parameters.center, int) else (max(int(positions.max()), -2) + 2) // 2
    zeta = (share + parameters.gamma) / (1 + parameters.gamma)
    # (batch, seq, pairs): queries grow with their position, keys shrink, and the product decays with distance
    scale = np.power(zeta, (positions - middle) / parameters.scale_base)
    q, k = call.values
    return rotation.apply_rotary(q, angle, scale, pairs), rotation.apply_rotary(k, angle, 1 / scale, pairs)
