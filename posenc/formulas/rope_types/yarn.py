"""YaRN: slow pairs interpolated, fast ones left."""

import math

import numpy as np

from posenc.formulas.parts.frequencies import Frequencies, context_ratio, rope_frequencies


def reference(
    dim: int,
    rope_theta: float,
    length: int,
    *,
    original_max_position_embeddings: int,
    factor: float | None = None,
    max_position_embeddings: int | None = None,
    attention_factor: float | None = None,
    mscale: float | None = None,
    mscale_all_dim: float | None = None,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    truncate: bool = True,
) -> Frequencies:
    """Return (1 - gamma) theta_i / s + gamma theta_i, definition 2, with gamma by pairs as the authors' code has it.

    Source: https://github.com/jquesnelle/yarn, `_yarn_find_correction_range`, `_yarn_linear_ramp_mask`; mscale as in
    DeepSeek-V2's `yarn_get_mscale`.
    """
    s = context_ratio(factor, max_position_embeddings, original_max_position_embeddings)
    rotations = original_max_position_embeddings / (2 * math.pi)  # of the first pair, in the original context
    bounds = [dim / 2 * math.log(rotations / beta, rope_theta) for beta in (beta_fast, beta_slow)]
    if truncate:
        bounds = [math.floor(bounds[0]), math.ceil(bounds[1])]
    low, high = max(bounds[0], 0), min(bounds[1], dim - 1)
    high = high + 0.001 if low == high else high
    gamma = 1 - np.clip((np.arange(dim // 2) - low) / (high - low), 0, 1)
    theta = rope_frequencies(dim, rope_theta)
    weights = (mscale, mscale_all_dim) if mscale and mscale_all_dim else (1, 0)
    grown = [1 + 0.1 * weight * math.log(max(s, 1.0)) for weight in weights]
    scale = grown[0] / grown[1] if attention_factor is None else attention_factor
    return Frequencies((1 - gamma) * theta / s + gamma * theta, scale)
