"""Position interpolation."""

import numpy as np

from posenc.formulas.parts.frequencies import Frequencies, roformer
from posenc.rope_types import geometric, rope_type


def reference(dim: int, rope_theta: float, length: int, *, factor: float) -> Frequencies:
    """Return f'(x, m) = f(x, m L / L'), equation 4: as many radians take `factor` positions."""
    positions_a_radian = factor / roformer(dim, rope_theta)
    return Frequencies(np.reciprocal(positions_a_radian))


@rope_type("linear", paper="arXiv:2306.15595", samples=({"factor": 4.0},), reference=reference)
def linear(dim: int, rope_theta: float, length: int, *, factor: float) -> Frequencies:
    """Divide every frequency by `factor`: position interpolation.

    Args:
        factor: by how much the context is stretched.
    """
    return Frequencies(geometric(dim, rope_theta) / factor)
