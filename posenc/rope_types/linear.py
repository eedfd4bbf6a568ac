"""Position interpolation."""

from posenc.rope_types import Frequencies, geometric, rope_type


@rope_type(
    "linear",
    paper="arXiv:2306.15595",
    samples=({"factor": 4.0},),
)
def linear(dim: int, rope_theta: float, length: int, *, factor: float) -> Frequencies:
    """Divide every frequency by `factor`: position interpolation.

    factor: by how much the context is stretched.
    """
    return Frequencies(geometric(dim, rope_theta) / factor)
