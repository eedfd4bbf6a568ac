"""How cosines and sines lie in a row, and their float64 values.

interleaved   s0 c0 s1 c1 s2 c2        halves   s0 s1 s2 c0 c1 c2
"""

import numpy as np
import torch
from torch import Tensor

from posenc.encoding import Tolerance
from posenc.ports import Floats, Integers


def inverse_frequencies_to_base(d_model: int, base: float) -> Floats:
    """Return base^(-i / (half - 1)), from 1 to 1 / base, for half of the columns: (d_model // 2,).

    Source: `get_timing_signal_1d` of tensor2tensor, whence fairseq and Whisper have it; a single pair has frequency 1.
    """
    half = d_model // 2
    return np.asarray(base ** (-np.arange(half, dtype=np.float64) / max(half - 1, 1)))


def inverse_frequencies(d_model: int, base: float) -> Floats:
    """Return base^(-2i / d_model) for every pair of columns, an odd last column counting as one: (ceil(d_model / 2),).

    Source: Vaswani et al., "Attention Is All You Need", section 3.5, arXiv:1706.03762.
    """
    return np.asarray(base ** (-np.arange(0, d_model, 2, dtype=np.float64) / d_model))


def arrange(sin: Tensor, cos: Tensor, interleaved: bool, width: int) -> Tensor:
    """Lay sines and cosines out as columns: twice (..., pairs) -> (..., width); an odd width drops the last cosine."""
    if interleaved:
        return torch.stack([sin, cos], -1).flatten(-2)[..., :width]  # (..., pairs, 2) -> (..., 2 pairs)
    return torch.cat([sin, cos[..., : width // 2]], -1)


def layout_of(interleaved: bool) -> str:
    """Return the name of a layout."""
    return "interleaved" if interleaved else "halves"


def waves(
    positions: Integers, inv_freq: Floats, scale: float = 1.0, phase: Floats | None = None
) -> tuple[Tensor, Tensor]:
    """Return float64 sines and cosines of positions x frequencies + phase, times `scale`, each (positions, pairs)."""
    angles = positions[:, None] * inv_freq
    if phase is not None:
        angles += phase
    return torch.from_numpy(scale * np.sin(angles)), torch.from_numpy(scale * np.cos(angles))


def largest_angle(max_position: int, inv_freq: Floats, phase: Floats | None = None) -> float:
    """Return the largest angle, in radians, of positions up to one."""
    ahead = 0.0 if phase is None else float(np.abs(phase).max(initial=0.0))
    return max_position * float(np.abs(inv_freq).max(initial=0.0)) + ahead


def float64_error(max_position: float) -> float:
    """Return a bound on the error of float64 itself, in tables and references: some 2^-52 of the angle."""
    return 4 * 2.0**-52 * max_position


def rounded_once(dtype: torch.dtype, max_angle: float) -> Tolerance:
    """Return how far a sine may be off that is computed in float64, at an angle up to one, and rounded: half an ulp."""
    return Tolerance(atol=torch.finfo(dtype).eps / 4 + float64_error(max_angle))
