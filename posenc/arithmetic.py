"""Arithmetic that joins and sources share: sums with a value that comes in, the larger size, rows along a grid."""

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


def spread(rows: Tensor, axis: int, sizes: list[int]) -> Tensor:
    """Return the rows of one axis of a grid at every place: (1, size, width) -> (1, *sizes, width)."""
    # of a video: (1, frames, 1, 1, width), (1, 1, height, 1, width), (1, 1, 1, columns, width)
    for _ in range(axis):
        rows = rows.unsqueeze(1)
    for _ in range(len(sizes) - 1 - axis):
        rows = rows.unsqueeze(-2)
    return rows.expand([1] + sizes + [rows.shape[-1]])  # noqa: RUF005 (TorchScript unpacks no list)
