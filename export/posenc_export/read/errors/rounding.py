"""What half precision does to rotary angles: every number on the way from a position to its row is rounded."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from posenc_export.read.errors.by_position import Exact, Floats
from posenc_export.read.inspection import Rounded

HALVES: Sequence[tuple[str, np.dtype[np.generic]]] = (
    ("float16", np.dtype(np.float16)),
    ("bfloat16", np.dtype(ml_dtypes.bfloat16)),
)
NOISE = 0.1
"""The share of the largest number that an error must exceed for a row to be noise."""


def rounded_table(exact: Exact, positions: NDArray[np.int64]) -> tuple[Rounded, ...]:
    """Return what becomes of stored rows: each number is rounded once."""
    rows = exact(positions)
    return tuple(_measured(name, _held(rows, dtype), rows, positions) for name, dtype in HALVES)


def rounded_rotary(exact: Exact, positions: NDArray[np.int64]) -> tuple[Rounded, ...]:
    """Return what becomes of cosines and sines that are computed: position, frequency, angle and row are rounded."""
    rows = exact(positions)
    frequencies, amplitude = frequencies_of(exact)
    made = []
    for name, dtype in HALVES:
        with np.errstate(all="ignore"):  # float16 has no number above 65504
            angles = _held(_held(positions, dtype)[:, None] * _held(frequencies, dtype), dtype)
            held = _held(amplitude * np.concatenate([np.cos(angles), np.sin(angles)], axis=1), dtype)
        made.append(_measured(name, held, rows, positions))
    return tuple(made)


def frequencies_of(exact: Exact) -> tuple[Floats, float]:
    """Return the angles at position 1, and the factor of cosines and sines."""
    row = exact(np.array([1]))[0]
    pairs = row.size // 2
    cosines, sines = row[:pairs], row[pairs:]
    return np.arctan2(sines, cosines), float(np.hypot(cosines, sines).max())


def _held(numbers: NDArray[np.generic], dtype: np.dtype[np.generic]) -> Floats:
    return np.asarray(numbers, np.float64).astype(dtype).astype(np.float64)


def _measured(name: str, held: Floats, rows: Floats, positions: NDArray[np.int64]) -> Rounded:
    """Return the worst error of rounded rows, and where they become noise."""
    with np.errstate(invalid="ignore"):
        errors = np.abs(held - rows).max(axis=1)
    noisy = np.flatnonzero(~(errors <= NOISE * np.abs(rows).max()))
    worst = int(np.argmax(np.where(np.isnan(errors), np.inf, errors)))
    error = float(errors[worst])
    first = int(positions[noisy[0]]) if noisy.size else None
    return Rounded(name, error if np.isfinite(error) else None, int(positions[worst]), first)
