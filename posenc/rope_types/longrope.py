"""LongRoPE: each pair has a divisor."""

import math

import numpy as np

from posenc.formulas.parts.frequencies import Frequencies
from posenc.formulas.rope_types.longrope import reference
from posenc.rope_types import geometric, rope_type, stretch_of


@rope_type(
    "longrope",
    paper="arXiv:2402.13753",
    samples=(
        {
            "factor": 2.0,
            "original_max_position_embeddings": 32,
            "short_factor": (1.0,) * 8,
            "long_factor": (1.0, 1.1, 1.3, 1.5, 2.0, 2.0, 3.0, 4.0),
        },
    ),
    by_length="original_max_position_embeddings",
    reference=reference,
)
def longrope(
    dim: int,
    rope_theta: float,
    length: int,
    *,
    short_factor: tuple[float, ...],
    long_factor: tuple[float, ...],
    original_max_position_embeddings: int,
    factor: float | None = None,
    max_position_embeddings: int | None = None,
    attention_factor: float | None = None,
) -> Frequencies:
    """Divide each pair's frequency by a factor, from one set up to the original context and from another beyond it.

    Args:
        short_factor: a divisor a pair, for calls up to the original context.
        long_factor: a divisor a pair, for longer calls.
        original_max_position_embeddings: the context the model was first trained for.
        factor: by how much the context is stretched [default: the ratio of the two contexts].
        max_position_embeddings: the context the model is made for.
        attention_factor: multiplies cosines and sines [default: from factor].
    """
    for name, factors in (("short_factor", short_factor), ("long_factor", long_factor)):
        if len(factors) != dim // 2:
            raise ValueError(f"{name} must have {dim // 2} numbers, one a pair of {dim} features, got {len(factors)}")
    original = original_max_position_embeddings
    stretch = stretch_of(factor, max_position_embeddings, original)
    if attention_factor is None:
        attention_factor = math.sqrt(1 + math.log(stretch) / math.log(original)) if stretch > 1 else 1.0
    divisors = np.asarray(long_factor if length > original else short_factor, np.float64)
    return Frequencies(geometric(dim, rope_theta) / divisors, attention_factor)
