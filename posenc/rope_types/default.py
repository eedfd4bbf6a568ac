"""RoFormer's frequencies."""

from posenc.formulas.parts.frequencies import Frequencies
from posenc.formulas.rope_types.default import reference
from posenc.rope_types import geometric, rope_type


@rope_type("default", paper="arXiv:2104.09864", samples=({},), reference=reference)
def default(dim: int, rope_theta: float, length: int) -> Frequencies:
    """Return the frequencies of RoFormer: a geometric series from 1 down to nearly 1 / rope_theta."""
    return Frequencies(geometric(dim, rope_theta))
