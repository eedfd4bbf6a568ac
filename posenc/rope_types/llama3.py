"""Llama 3's blend of interpolated and unscaled frequencies."""

import math

import numpy as np

from posenc.formulas.parts.frequencies import Frequencies
from posenc.formulas.rope_types.llama3 import reference
from posenc.rope_types import geometric, rope_type


@rope_type(
    "llama3",
    paper="arXiv:2407.21783",
    samples=({"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32},),
    reference=reference,
)
def llama3(
    dim: int,
    rope_theta: float,
    length: int,
    *,
    factor: float,
    low_freq_factor: float,
    high_freq_factor: float,
    original_max_position_embeddings: int,
) -> Frequencies:
    """Interpolate pairs of long wavelength, leave those of short, and blend those between.

    Args:
        factor: by how much the context is stretched.
        low_freq_factor: original context / wavelength below which a pair is interpolated in full.
        high_freq_factor: original context / wavelength above which a pair is left as it is.
        original_max_position_embeddings: the context the model was first trained for.
    """
    if high_freq_factor < low_freq_factor:
        raise ValueError(f"high_freq_factor ({high_freq_factor}) must be at least low_freq_factor ({low_freq_factor})")
    unscaled = geometric(dim, rope_theta)
    rotations = original_max_position_embeddings * unscaled / (2 * math.pi)
    width = max(high_freq_factor - low_freq_factor, 1e-30)  # Llama 4 has a step, not a ramp
    blend = np.clip((rotations - low_freq_factor) / width, 0, 1)
    return Frequencies((1 - blend) * unscaled / factor + blend * unscaled)
