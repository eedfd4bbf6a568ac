"""The angles by which pairs of features were rotated, as numbers that went in and came out show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from posenc.ports import Floats

CLOSE = 1e-2
"""How far the length of a rotated pair may be off: half precision is that near."""
SMALL = 1e-3
"""Pairs that are shorter say nothing of an angle."""


@dataclass(frozen=True)
class RotatedPairs:
    """Pairs of features that were rotated: which ones they are, and the cosine of each pair's angle."""

    layout: Literal["halves", "neighbours"]
    cosines: Floats


def rotation(taken: Floats, rotated: Floats) -> RotatedPairs | None:
    """Return the pairs that were rotated; None where lengths of pairs change, as no rotation changes them.

    Args:
        taken: What went in, features along the last axis.
        rotated: What came out, of the same shape.
    """
    count = _rotated_features(taken, rotated)
    if count < 2:
        return None
    before, after = taken[..., :count], rotated[..., :count]
    layouts: tuple[Literal["halves", "neighbours"], ...] = ("halves", "neighbours")
    # no field of a manifest says which features are a pair in every encoding: lengths of pairs do
    for layout in layouts:
        (a, b), (c, d) = _pairs(before, layout), _pairs(after, layout)
        length, length_after = np.hypot(a, b), np.hypot(c, d)
        if np.all(np.abs(length_after - length) <= CLOSE * np.maximum(length, 1)):
            with np.errstate(invalid="ignore", divide="ignore"):
                cosines = np.where(length > SMALL, (a * c + b * d) / (length * length_after), np.nan)
            return RotatedPairs(layout, np.clip(cosines, -1, 1))
    return None


def _rotated_features(taken: Floats, rotated: Floats) -> int:
    """Return how many features, from the first on, differ anywhere: an even number."""
    differs = np.flatnonzero((taken != rotated).reshape(-1, taken.shape[-1]).any(0))
    # features beyond the rotated ones come out as they went in
    count = int(differs[-1]) + 1 if differs.size else 0
    whole: int = taken.shape[-1] // 2 * 2
    return min(count + count % 2, whole)


def _pairs(features: Floats, layout: str) -> tuple[Floats, Floats]:
    """Return the first and the second of each pair: (..., features) -> (..., pairs) twice."""
    half = features.shape[-1] // 2
    if layout == "halves":
        return features[..., :half], features[..., half:]
    return features[..., 0::2], features[..., 1::2]
