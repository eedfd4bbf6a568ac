"""Features of coordinates by a hash grid: a look-up for each corner of a cell, weighted, at all levels at once.

Integers are int32 where products with primes modulo T fit, as with 2^11 cells and T = 2^19: tract has no xor of int64.
Larger grids take int64. MNN's converter has no bitwise operator at all.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from posenc.formulas.hash_grid import Grids

PRIMES = (1, 2654435761, 805459861)


@dataclass(frozen=True)
class Level:
    """A level: its cells along each side, the rows of its table, and whether its corners are hashed."""

    cells: int
    rows: int
    is_hashed: bool


def levels_of(grids: Grids) -> list[Level]:
    """Return the sizes of all levels."""
    levels, size = [], 2**grids.log2_size
    for i in range(grids.levels):
        # A product 1e-9 below a whole number was meant to be that number: 16 * cbrt(2)^3 is 31.999999999999996.
        cells = int(grids.min_resolution * grids.growth**i * (1 + 1e-9))
        corners = (cells + 1) ** grids.in_features
        is_hashed = corners > size or not grids.dense
        levels.append(Level(cells, size if is_hashed else corners, is_hashed))
    return levels


class HashGrid(nn.Module):
    """A source of features of coordinates: the rows of the corners around each, interpolated, all levels at once."""

    cells: Tensor  # (levels, 1)
    strides: Tensor  # (levels, numbers): rows from a corner to the next along each side, 0 where hashed
    primes: Tensor  # (numbers,)
    is_hashed: Tensor  # (levels,)
    first: Tensor  # (levels,): the first row of each level
    numbers: Final[int]
    corners: Final[int]  # of a cell
    mask: Final[int]  # takes a hash modulo the rows of a table

    def __init__(self, table: Tensor, grids: Grids, dtype: torch.dtype) -> None:
        super().__init__()
        numbers, levels = grids.in_features, levels_of(grids)
        self.numbers, self.corners, self.mask, self.dtype = numbers, 2**numbers, 2**grids.log2_size - 1, dtype
        self.table = nn.Parameter(table)
        # T is a power of two: modulo T, a product with a prime is that with the prime modulo T.
        primes = torch.tensor([prime % 2**grids.log2_size for prime in PRIMES[:numbers]])
        fits = max(int(primes.max()) * levels[-1].cells, len(table)) < 2**31
        self.integers = torch.int32 if fits else torch.int64
        strides = [[(level.cells + 1) ** i * (not level.is_hashed) for i in range(numbers)] for level in levels]
        ends = np.cumsum([level.rows for level in levels])
        cells = torch.tensor([[level.cells] for level in levels], dtype=table.dtype)
        self.register_buffer("cells", cells, persistent=False)
        self.register_buffer("strides", torch.tensor(strides, dtype=self.integers), persistent=False)
        self.register_buffer("primes", primes.to(self.integers), persistent=False)
        self.register_buffer("is_hashed", torch.tensor([level.is_hashed for level in levels]), persistent=False)
        self.register_buffer("first", torch.tensor([0, *ends[:-1]], dtype=self.integers), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the features: (batch, seq, numbers) -> (batch, seq, levels * features)."""
        inside = (x >= 0) & (x <= 1)  # NaN is outside
        # (batch, seq, 1, numbers) * (levels, 1) -> (batch, seq, levels, numbers)
        scaled = x.masked_fill(~inside, 0.0).unsqueeze(2) * self.cells
        low = scaled.floor()
        shares = [1 - (scaled - low), scaled - low]
        corners = [low.to(self.integers), scaled.ceil().to(self.integers)]
        rows = [corners[0] * self.strides, corners[1] * self.strides]
        mixed = [corners[0] * self.primes, corners[1] * self.primes]
        # A coordinate outside 0..1 gets a row that does not exist, which the look-up refuses: (batch, seq, levels)
        first = self.first.masked_fill(~inside.all(2, keepdim=True), self.table.shape[0])
        features: list[Tensor] = []
        for corner in range(self.corners):
            # Bit i of a corner's number says on which side of the cell it lies along axis i.
            weight, row, code = shares[corner & 1][..., 0], rows[corner & 1][..., 0], mixed[corner & 1][..., 0]
            for i in range(1, self.numbers):
                side = corner >> i & 1
                weight, row, code = weight * shares[side][..., i], row + rows[side][..., i], code ^ mixed[side][..., i]
            row = first + torch.where(self.is_hashed, code & self.mask, row)
            features.append(weight.unsqueeze(3) * looked_up(self.table, row, x))
        # A sum of terms, one after the other, has the same bits on every runtime.
        total = features[0]
        for feature in features[1:]:
            total = total + feature
        # (batch, seq, levels, features) -> (batch, seq, levels * features)
        return total.flatten(2).to(self.dtype)


def looked_up(table: Tensor, row: Tensor, x: Tensor) -> Tensor:
    """Return `table[row]`: (rows, features), (batch, seq, levels) -> (batch, seq, levels, features)."""
    if torch.jit.is_scripting():  # type: ignore[attr-defined]
        return nn.functional.embedding(row, table)
    return _of_coordinates(table, row, x)


def _of_coordinates(table: Tensor, row: Tensor, x: Tensor) -> Tensor:
    try:
        return nn.functional.embedding(row, table)
    except IndexError:
        raise IndexError(f"coordinates must be in 0..1, got {x.min()} to {x.max()}") from None
