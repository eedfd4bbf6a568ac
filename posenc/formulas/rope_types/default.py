"""RoFormer's frequencies."""

from posenc.formulas.parts.frequencies import Frequencies, rope_frequencies


def reference(dim: int, rope_theta: float, length: int) -> Frequencies:
    """Return theta_i of equation 15, for the judge."""
    return Frequencies(rope_frequencies(dim, rope_theta))
