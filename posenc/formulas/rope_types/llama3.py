"""Llama 3's blend of interpolated and unscaled frequencies."""

import math

import numpy as np

from posenc.formulas.parts.frequencies import Frequencies, rope_frequencies


def reference(
    dim: int,
    rope_theta: float,
    length: int,
    *,
    factor: float,
    low_freq_factor: float,
    high_freq_factor: float,
    original_max_position_embeddings: int,
) -> Frequencies:
    """Return the frequencies of `apply_scaling` in the authors' code, pair by pair, by wavelengths.

    Source: https://github.com/meta-llama/llama-models, models/llama3/model.py.
    """
    slow, fast = (original_max_position_embeddings / bound for bound in (low_freq_factor, high_freq_factor))
    scaled = []
    for frequency in rope_frequencies(dim, rope_theta).tolist():
        wavelength = 2 * math.pi / frequency
        if wavelength < fast:
            scaled.append(frequency)
        elif wavelength > slow or slow == fast:
            scaled.append(frequency / factor)
        else:
            rotations = original_max_position_embeddings / wavelength
            smooth = (rotations - low_freq_factor) / (high_freq_factor - low_freq_factor)
            scaled.append((1 - smooth) * frequency / factor + smooth * frequency)
    return Frequencies(np.asarray(scaled))
