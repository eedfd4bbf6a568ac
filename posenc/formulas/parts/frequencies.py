"""RoFormer's frequencies, and the ratio of two contexts, for the references of rope types."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posenc.ports import Floats


@dataclass(frozen=True)
class Frequencies:
    """The frequencies of pairs, (pairs,) in radians per position, and the factor of cosines and sines."""

    inv_freq: Floats
    attention_factor: float = 1.0


def rope_frequencies(dim: int, rope_theta: float) -> Floats:
    """Return theta_i = rope_theta^(-2 (i - 1) / dim), i = 1, ..., dim / 2 (arXiv:2104.09864, equation 15)."""
    i = np.arange(1, dim // 2 + 1)
    return np.asarray(np.exp(-2 * (i - 1) / dim * np.log(float(rope_theta))))


def context_ratio(factor: float | None, longer: int | None, original: int) -> float:
    """Return s = L' / L: the factor, or else the ratio of the two contexts."""
    return float(factor) if factor is not None else float(longer or original) / original
