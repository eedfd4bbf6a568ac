"""Arithmetic that joins and sources share: the sum with a value that comes in, the larger of two sizes."""

import torch
from torch import Tensor


def added(x: Tensor, rows: Tensor) -> Tensor:
    """Return x + rows: the sum is in the dtype of the rows, and is rounded to that of x last."""
    return (x.to(rows.dtype) + rows).to(x.dtype)


def larger(a: int, b: int) -> int:
    """Return the larger of two sizes, which a tracer follows without a branch: it may differ from call to call."""
    if torch.jit.is_scripting():  # type: ignore[attr-defined]
        return max(a, b)
    size: int = torch.sym_max(a, b)
    return size
