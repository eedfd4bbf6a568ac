"""Position interpolation."""

from posenc.formulas.parts.frequencies import Frequencies
from posenc.formulas.rope_types.linear import reference
from posenc.rope_types import geometric, rope_type


@rope_type("linear", paper="arXiv:2306.15595", samples=({"factor": 4.0},), reference=reference)
def linear(dim: int, rope_theta: float, length: int, *, factor: float) -> Frequencies:
    """Divide every frequency by `factor`: position interpolation.

    Args:
        factor: by how much the context is stretched.
    """
    return Frequencies(geometric(dim, rope_theta) / factor)
