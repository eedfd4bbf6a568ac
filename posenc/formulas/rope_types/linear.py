"""Position interpolation."""

import numpy as np

from posenc.formulas.parts.frequencies import Frequencies, rope_frequencies


def reference(dim: int, rope_theta: float, length: int, *, factor: float) -> Frequencies:
    """Return f'(x, m) = f(x, m L / L'), equation 4: as many radians take `factor` positions."""
    positions_a_radian = factor / rope_frequencies(dim, rope_theta)
    return Frequencies(np.reciprocal(positions_a_radian))
