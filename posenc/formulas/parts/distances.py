"""Numbers that depend on the distance from query to key alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posenc.ports import Array, Integers


@dataclass(frozen=True)
class DistanceValues:
    """Numbers of distances key - query: values[..., d - first] at the distance d."""

    first: int
    values: Array

    def distances(self) -> Integers:
        """Return the distance of each value."""
        return self.first + np.arange(self.values.shape[-1])


def by_distance(matrix: Array) -> DistanceValues | None:
    """Return a matrix (.., queries, keys) by the distance of its places; None where diagonals hold several numbers."""
    queries, keys = matrix.shape[-2:]
    if queries + keys < 4:
        return None
    # the last column of queries, downwards, then the first row: each diagonal once
    values = np.concatenate([matrix[..., ::-1, 0], matrix[..., 0, 1:]], -1)
    places = np.arange(keys) - np.arange(queries)[:, None] + queries - 1
    if not np.array_equal(values[..., places], matrix):
        return None
    return DistanceValues(1 - queries, values)
