"""p-RoPE: only the fastest pairs are rotated."""

import numpy as np

from posenc.formulas.parts.frequencies import Frequencies, rope_frequencies


def reference(
    dim: int, rope_theta: float, length: int, *, factor: float = 1.0, partial_rotary_factor: float = 1.0
) -> Frequencies:
    """Return RoFormer's frequencies of the pairs below the share p, and 0, the identity, of the others (section 6)."""
    pair = np.arange(1, dim // 2 + 1)
    return Frequencies(
        np.where(2 * pair <= partial_rotary_factor * dim, rope_frequencies(dim, rope_theta) / factor, 0.0)
    )
