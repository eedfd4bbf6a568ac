"""The sum of what goes in and of rows, or of a bias: written once, for every family."""

from torch import Tensor


def added(x: Tensor, rows: Tensor) -> Tensor:
    """Return x + rows, in what rows are in, rounded to the dtype of x last."""
    return (x.to(rows.dtype) + rows).to(x.dtype)
