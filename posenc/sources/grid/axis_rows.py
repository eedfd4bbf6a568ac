"""Sources of rows along one axis of a grid: their protocols, the middle of a longer axis, and counts.

SD3's crop looks up the indices of the middle in a small table of places before a source sees them: angle addition
would hold positions beyond the stored grid, and ONNX divides a negative number towards zero.
"""

import math
from collections.abc import Iterator
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from posenc.encoding import Probes, RowSource, Source, Tolerance
from posenc.lookup import check_length, inside, take
from posenc.sincos import SinCosMethod
from posenc.stored import StoredRows


class AxisRows(Source, Protocol):
    """Rows of all places along an axis: sizes beyond `end` are refused, if that is not None."""

    @property
    def end(self) -> int | None:
        """The size of the longest axis; None where there is none."""

    def arange(self, length: int, width: int) -> Tensor:
        """Return the rows of an axis: (1, length, width)."""


class CountRows(AxisRows, Protocol):
    """Rows by the number of places up to a place, itself included, and by the number of all places."""

    def __call__(self, count: Tensor, whole: Tensor) -> Tensor:
        """Return rows: int64 (batch, height, width), the same with an axis of 1 -> (batch, height, width, dim)."""


class CenterCrop(nn.Module):
    """Rows of the middle of an axis that has `end` places, `step` radians from each other."""

    places: Tensor  # (end, 1): a look-up refuses what lies outside, whatever the source holds
    end: int
    __constants__ = ("count_dtype",)
    count_dtype = None

    def __init__(self, source: RowSource, end: int, *, step: float) -> None:
        super().__init__()
        self.source = source
        self.end = end
        self.farthest = math.ceil((end - 1) * max(1.0, step))
        self.probes = Probes()
        self.half_safe = source.half_safe
        self.register_buffer("places", torch.arange(end).unsqueeze(1), persistent=False)

    def arange(self, length: int, width: int) -> Tensor:
        """Return the rows of the middle: (1, length, width)."""
        check_length(length, self.end)
        index = (self.end - length) // 2 + torch.arange(length, dtype=self.count_dtype, device=self.places.device)
        positions = take(self.places, inside(index, self.end), self.end).squeeze(-1)  # (length, 1) -> (length,)
        rows: Tensor = self.source(positions, width)
        return rows.unsqueeze(0)

    def stored_rows(self) -> Iterator[StoredRows]:
        """Yield the places."""
        yield StoredRows("places", np.arange(self.end)[:, None])

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far rows may be from the reference, at the farthest place: the middle depends on the call."""
        return self.source.tolerance(self.farthest)

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return how far a graph's rows may be from these."""
        return self.source.eager_tolerance(self.farthest)


class Counts(nn.Module):
    """Rows at counts, which begin at 1: DETR without normalize."""

    one: Tensor  # (1,): the number 1
    __constants__ = ("count_dtype",)
    count_dtype = None

    def __init__(self, source: SinCosMethod) -> None:
        super().__init__()
        self.source = source
        self.width = source.width
        self.end = None if source.end is None else source.end - 1
        self.probes = source.probes
        self.half_safe = source.half_safe
        self.register_buffer("one", torch.ones(1, dtype=torch.int64), persistent=False)

    def forward(self, count: Tensor, whole: Tensor) -> Tensor:
        """Return rows: (...), unread -> (..., width)."""
        rows: Tensor = self.source(count, self.width)
        return rows

    def arange(self, length: int, width: int) -> Tensor:
        """Return the rows of 1..length: (1, length, width)."""
        rows: Tensor = self.source(
            self.one + torch.arange(length, dtype=self.count_dtype, device=self.one.device), width
        )
        return rows.unsqueeze(0)

    def tolerance(self, max_position: int) -> Tolerance:
        """Return the tolerance of the sincos method at the next position: counts begin at 1, positions at 0."""
        return self.source.tolerance(max_position + 1)

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return how far a graph's rows may be from these."""
        return self.source.eager_tolerance(max_position + 1)
