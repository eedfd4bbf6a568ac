"""A bias of attention that a small network makes from two differences, as in Swin Transformer V2."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from posenc.ports import Array
from posenc.sources.window.encode import Sides, by_head, differences


@dataclass(frozen=True)
class Network:
    """The weights, in the dtype of angles: (hidden, 2), (hidden,), (heads, hidden)."""

    first: Tensor
    bias: Tensor
    second: Tensor

    def to(self, dtype: torch.dtype) -> "Network":
        """Return it in a dtype."""
        return Network(self.first.to(dtype), self.bias.to(dtype), self.second.to(dtype))

    def numbers(self) -> tuple[Array, Array, Array]:
        """Return the weights in float64, as NumPy has them."""
        first, bias, second = (tensor.double().numpy() for tensor in (self.first, self.bias, self.second))
        return first, bias, second


class ContinuousBias(nn.Module):
    """The bias of a window as large as x, its network in the graph."""

    log8: Tensor
    rows_norm: Final[int]  # the height that differences of rows are divided by; 0 for the height of x
    columns_norm: Final[int]
    __constants__ = ("count_dtype", "integer_dtype")
    count_dtype = None
    integer_dtype = torch.int64

    def __init__(self, network: Network, norm: Sides, dtype: torch.dtype) -> None:
        super().__init__()
        self.rows_norm, self.columns_norm = norm
        self.dtype = dtype
        self.first = nn.Parameter(network.first.T.contiguous())
        self.bias = nn.Parameter(network.bias)
        self.second = nn.Parameter(network.second.T.contiguous())
        log8 = torch.tensor(np.log(8.0), dtype=network.first.dtype)
        self.register_buffer("log8", log8, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the bias: (batch, height, width, dim) -> (1, heads, height * width, height * width)."""
        height, width = x.shape[1], x.shape[2]
        index = differences(height, width, 2 * width - 1, self.log8.device, self.count_dtype)
        return by_head(self.table(height, width), index).to(self.dtype)

    def table(self, height: int, width: int) -> Tensor:
        """Return the bias of every pair of differences: ((2 height - 1) (2 width - 1), heads)."""
        by_row = self.coordinates(height, self.rows_norm) * self.first[0]
        by_column = self.coordinates(width, self.columns_norm) * self.first[1] + self.bias
        # (2 height - 1, 1, hidden) + (2 width - 1, hidden) -> ((2 height - 1) (2 width - 1), hidden)
        hidden = torch.relu(by_row.unsqueeze(1) + by_column).flatten(0, 1)
        return 16.0 * torch.sigmoid(torch.matmul(hidden, self.second))

    def coordinates(self, side: int, norm: int) -> Tensor:
        """Return c of the differences 1 - side .. side - 1: (2 side - 1, 1)."""
        # For side == 0, arange(2 * side)[1:] stays empty where arange(1 - side, side) would raise.
        difference = (torch.arange(2 * side, dtype=self.count_dtype, device=self.log8.device)[1:] - side).to(
            self.log8.dtype
        )
        full = side if norm == 0 else norm
        largest = torch.full((1,), full, dtype=self.integer_dtype, device=self.log8.device).to(self.log8.dtype) - 1
        scaled = difference.abs() * 8.0 / largest.clamp(min=1.0)
        return (difference.sign() * (scaled + 1.0).log() / self.log8).unsqueeze(1)
