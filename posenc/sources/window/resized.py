"""A table of a window's biases, resampled to a window as large as x, as BEiT and Swin do for images of other sizes.

The table is a grid of the differences of two places' rows and columns, and is resampled as any grid is. Indices of the
resampled table follow from the sides of x, in integers: each place has the number row * 2w + column, and an index is
the difference of two such numbers.

A resampled table has one more row and one more column, which are never read: they keep the size 2 * n - 1 from being -1
for n = 0.
"""

import torch
from torch import Tensor, nn

from posenc.sources.interpolated.modules import Resample2d
from posenc.sources.window.encode import by_head, differences


class ResampledWindow(nn.Module):
    """A table of differences (2h - 1, 2w - 1, heads), for windows of all sizes."""

    def __init__(self, plane: Resample2d, dtype: torch.dtype) -> None:
        super().__init__()
        self.plane = plane
        self.dtype = dtype

    def table(self, height: int, width: int) -> Tensor:
        """Return the biases of the differences in a window, and of one more each way: (2 height * 2 width, heads)."""
        down, across = self.plane.down.differences(height), self.plane.across.differences(width)
        # (2 height, 2 width, heads) -> (2 height * 2 width, heads)
        return self.plane.weighed(down, across).flatten(0, 1)

    def index(self, height: int, width: int) -> Tensor:
        """Return the row of that table for each pair of places: (tokens, tokens)."""
        return differences(height, width, 2 * width, self.plane.weight.device)


class ResampledBias(ResampledWindow):
    """The bias of a window as large as x."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the bias: (batch, height, width, dim) -> (1, heads, height * width, height * width)."""
        height, width = x.shape[1], x.shape[2]
        return by_head(self.table(height, width), self.index(height, width)).to(self.dtype)


class ResampledBiasOfClass(ResampledWindow):
    """The bias of a window as large as x, and of a class token before its places, whose rows are kept as they are."""

    which: Tensor  # (3, 1): row numbers for class token to place, place to class token, and class token to itself

    def __init__(self, plane: Resample2d, of_class: Tensor, dtype: torch.dtype) -> None:
        super().__init__(plane, dtype)
        self.of_class = nn.Parameter(of_class)
        self.register_buffer("which", torch.arange(3).unsqueeze(1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the bias: (batch, height, width, dim) -> (1, heads, 1 + height * width, 1 + height * width)."""
        height, width = x.shape[1], x.shape[2]
        table = torch.cat([self.of_class, self.table(height, width)])
        return by_head(table, self.with_class(self.index(height, width) + 3)).to(self.dtype)

    def with_class(self, index: Tensor) -> Tensor:
        """Return indices with those of the class token before them: (tokens, tokens) -> (1 + tokens, 1 + tokens)."""
        tokens = index.shape[0]
        first = torch.cat([self.which[2:], self.which[:1].expand(1, tokens)], 1)
        others = torch.cat([self.which[1:2].expand(tokens, 1), index], 1)
        return torch.cat([first, others])
