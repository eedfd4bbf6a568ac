"""The sum of a value that comes in with rows, or with a bias: written once, for every join."""

from torch import Tensor


def added(x: Tensor, rows: Tensor) -> Tensor:
    """Return x + rows: the sum is in the dtype of the rows, and is rounded to that of x last."""
    return (x.to(rows.dtype) + rows).to(x.dtype)
