"""RoFormer's frequencies."""

from posenc.formulas.parts.frequencies import Frequencies, roformer


def reference(dim: int, rope_theta: float, length: int) -> Frequencies:
    """Return theta_i of equation 15, for the judge."""
    return Frequencies(roformer(dim, rope_theta))
