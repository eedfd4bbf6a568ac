"""p-RoPE: only the fastest pairs are rotated."""

import numpy as np

from posenc.formulas.parts.frequencies import Frequencies
from posenc.formulas.rope_types.proportional import reference
from posenc.rope_types import geometric, rope_type


@rope_type(
    "proportional", paper="arXiv:2410.06205 (p-RoPE)", samples=({"partial_rotary_factor": 0.5},), reference=reference
)
def proportional(
    dim: int, rope_theta: float, length: int, *, factor: float = 1.0, partial_rotary_factor: float = 1.0
) -> Frequencies:
    """Rotate the first share of the pairs, at the frequencies of the whole head, and leave the rest still.

    Args:
        factor: by how much the context is stretched [default: 1].
        partial_rotary_factor: the share of pairs that are rotated at all [default: 1].
    """
    if partial_rotary_factor > 1:
        raise ValueError(f"partial_rotary_factor must be at most 1, got {partial_rotary_factor}")
    rotated = int(partial_rotary_factor * dim // 2)
    still = np.zeros(dim // 2 - rotated)
    return Frequencies(np.concatenate([geometric(2 * rotated, rope_theta, dim), still]) / factor)
