"""YaRN: slow pairs interpolated, fast ones left."""

import math

import numpy as np

from posenc.formulas.parts.frequencies import Frequencies
from posenc.formulas.rope_types.yarn import reference
from posenc.rope_types import geometric, rope_type, stretch_of


@rope_type(
    "yarn",
    paper="arXiv:2309.00071",
    samples=({"factor": 4.0, "original_max_position_embeddings": 32},),
    reference=reference,
)
def yarn(
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
    """Interpolate slow pairs, leave fast ones, and ramp between those that rotate beta_fast and beta_slow times.

    Args:
        original_max_position_embeddings: the context the model was first trained for.
        factor: by how much the context is stretched [default: the ratio of the two contexts].
        max_position_embeddings: the context the model is made for.
        attention_factor: multiplies cosines and sines [default: from factor].
        mscale: with mscale_all_dim, weighs log(factor) in the attention factor.
        mscale_all_dim: see mscale.
        beta_fast: rotations over the original context from which a pair is left as it is [default: 32].
        beta_slow: rotations below which a pair is interpolated in full [default: 1].
        truncate: round the ends of the ramp to whole pairs [default: true].
    """
    stretch = stretch_of(factor, max_position_embeddings, original_max_position_embeddings)
    first, last = (_pair_of(beta, dim, rope_theta, original_max_position_embeddings) for beta in (beta_fast, beta_slow))
    if truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, dim - 1)
    width = last - first if first != last else 0.001
    # 0 for fast pairs, which stay; 1 for slow pairs, which are interpolated
    ramp = np.clip((np.arange(dim // 2) - first) / width, 0, 1)
    unscaled = geometric(dim, rope_theta)
    if attention_factor is None:
        weighed = (mscale, mscale_all_dim) if mscale and mscale_all_dim else (1.0, 0.0)
        attention_factor = _yarn_scale(stretch, weighed[0]) / _yarn_scale(stretch, weighed[1])
    return Frequencies(unscaled / stretch * ramp + unscaled * (1 - ramp), attention_factor)


def _pair_of(rotations: float, dim: int, rope_theta: float, context: int) -> float:
    """Return the (fractional) index of the pair that makes so many rotations over the original context."""
    return dim * math.log(context / (rotations * 2 * math.pi)) / (2 * math.log(rope_theta))


def _yarn_scale(factor: float, mscale: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0
