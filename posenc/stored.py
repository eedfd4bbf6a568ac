"""The tensors that modules store, held against float64 a few rows at a time.

A module with rows that no call of a plan may read has a method `stored_rows`, which yields what each row must be.
Learned rows, and rows that every call reads, need no such method.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from posenc.encoding import Tolerance
from posenc.ports import Array, Floats

if TYPE_CHECKING:
    from torch import Tensor, nn


ROUNDED = Tolerance(ulps=0.5)
"""The cost of one rounding."""
OF_FLOAT64 = 4 * 2.0**-52
"""How far a sine or cosine of float64 is off, for each radian of its angle."""


@dataclass(frozen=True)
class StoredRows:
    """Rows of a buffer, from row `first` on: their float64 values, and how far off they may be."""

    buffer: str
    expected: Array
    tolerance: Tolerance = ROUNDED
    first: int = 0


def stored_rows(module: nn.Module) -> Iterator[tuple[str, Tensor, StoredRows]]:
    """Yield the name of a stored tensor, some of its rows, and what they must be, until all were held.

    A module that stands at several places is asked at the first.
    """
    for place, part in module.named_modules():
        if hasattr(part, "stored_rows"):
            for rows in part.stored_rows():
                tensor = getattr(part, rows.buffer)[rows.first : rows.first + len(rows.expected)]
                yield f"{place}.{rows.buffer}".removeprefix("."), tensor, rows


def circular(
    positions: Array, inv_freq: Floats, scale: float = 1.0, phase: Floats | float = 0.0
) -> tuple[Floats, Floats]:
    """Return sines and cosines of positions x frequencies + phase, times a scale: parts of complex numbers."""
    # (n,) x (pairs,) -> (n, pairs)
    waves = scale * np.exp(1j * (np.multiply.outer(positions.astype(np.float64), inv_freq) + phase))
    return np.asarray(waves.imag), np.asarray(waves.real)


def rounded(largest: float, scale: float = 1.0) -> Tolerance:
    """Return how far rows may be off that are made in float64, of angles up to `largest`, and rounded once."""
    return Tolerance(atol=abs(scale) * OF_FLOAT64 * largest, ulps=0.5)


def laid_out(even: Floats, odd: Floats, interleaved: bool, width: int) -> Floats:
    """Return two halves of rows as columns, by turns or one half after the other: twice (n, pairs) -> (n, width)."""
    rows = np.zeros((len(even), width))
    if interleaved:
        rows[:, 0::2], rows[:, 1::2] = even, odd[:, : width // 2]
    else:
        rows[:, : even.shape[1]], rows[:, even.shape[1] :] = even, odd[:, : width - even.shape[1]]
    return rows
