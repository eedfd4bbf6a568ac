"""Indices of rows by the distance from query to key: T5's buckets, clipped distances, distances as they are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from posenc.formulas.fitting import Form, Parameter

Integers = NDArray[np.int64]
USUAL = dict.fromkeys((128, 256, 64, 512, 1024, 2048, 800, 32, 20, 16))
"""Values of max_distance that models have, T5's first."""
FARTHEST = 4096
"""Up to which max_distance T5's formula is tried."""
EDGE = 1e-4
"""By how much a logarithm in float32 may miss the edge between two buckets."""
HALF_EDGE = 2.0**-8
"""The same for float16: its numbers near 8 buckets are as far apart."""


@dataclass(frozen=True)
class ByDistance:
    """Numbers that depend on key - query alone: values[..., d - first] at the distance d, in places of the matrix."""

    first: int
    values: NDArray[np.generic]

    def distances(self) -> Integers:
        """Return the distance of each value."""
        return self.first + np.arange(self.values.shape[-1])


def by_distance(matrix: NDArray[np.generic]) -> ByDistance | None:
    """Return a matrix (.., queries, keys) by the distance of its places; None where diagonals hold several numbers."""
    queries, keys = matrix.shape[-2:]
    if queries + keys < 4:
        return None
    # the last column of queries, downwards, then the first row: each diagonal once
    values = np.concatenate([matrix[..., ::-1, 0], matrix[..., 0, 1:]], -1)
    places = np.arange(keys) - np.arange(queries)[:, None] + queries - 1
    if not np.array_equal(values[..., places], matrix):
        return None
    return ByDistance(1 - queries, values)


def relative_index_form(index: NDArray[np.integer], rows: int) -> Form | None:
    """Return the form of indices (queries, keys) of a table of `rows` rows that distances choose."""
    diagonals = by_distance(index)
    if diagonals is None or len(np.unique(diagonals.values)) < 2:
        return None
    values = diagonals.values.astype(np.int64)
    # the last query stands at the last key, where earlier keys are cached; else both begin at 0
    for past in dict.fromkeys((index.shape[1] - index.shape[0], 0)):
        distance = diagonals.distances() - past
        form = _t5_form(values, distance, rows) or _clipped_form(values, distance, rows)
        if form is not None:
            return form
    return None


def t5_buckets(
    distance: Integers, num_buckets: int, max_distance: int | Integers, bidirectional: bool, edge: float
) -> Integers:
    """Return the bucket of each distance key - query, in float64; `edge` is added before a logarithm is cut."""
    direction = num_buckets // 2 if bidirectional else num_buckets
    single = max(direction // 2, 1)
    far = np.abs(distance) if bidirectional else np.maximum(-distance, 0)
    growth = np.log(np.maximum(far, single) / single) / np.log(max_distance / single)
    large = np.minimum(np.floor(single + growth * (direction - single) + edge), direction - 1)
    bucket = np.where(far < single, far, large).astype(np.int64)
    return np.asarray(bucket + (direction * (distance > 0) if bidirectional else 0), np.int64)


def on_edges(form: Form, length: int) -> Form:
    """Return a form of T5's with the distances that lie on the edge of two rows: half precision rounds to either.

    ONNX Runtime keeps float32 between two nodes where its CPU has none for halves, and so rounds otherwise than a GPU.
    """
    rows, far, both = (form.parameters[name] for name in ("num_buckets", "max_distance", "bidirectional"))
    distance = np.arange(1 - length, length)
    below, above = (t5_buckets(distance, int(rows), int(far), bool(both), edge) for edge in (-HALF_EDGE, HALF_EDGE))  # type: ignore[arg-type]
    # where logarithms begin, there is that of 1 alone, which is 0 whoever rounds
    beyond = np.abs(distance) > int(rows) // (4 if both else 2)  # type: ignore[arg-type]
    return replace(form, moved=tuple(sorted({*form.moved, *distance[(below != above) & beyond].tolist()}, key=abs)))


def _t5_form(values: Integers, distance: Integers, rows: int) -> Form | None:
    for bidirectional in (True, False):
        if bidirectional and rows % 2:
            continue
        fitting = _max_distances(values, distance, rows, bidirectional, EDGE)
        if not USUAL.keys() & set(fitting):
            # logarithms of half precision move edges
            rough = _max_distances(values, distance, rows, bidirectional, 0.1)
            fitting = [far for far in rough if far in USUAL] or fitting
        if not fitting:
            continue
        far = next((far for far in USUAL if far in fitting), fitting[0])
        parameters: dict[str, Parameter] = {"num_buckets": rows, "bidirectional": bidirectional, "max_distance": far}
        several = f"max_distance from {fitting[0]} to {fitting[-1]} fits as well at this length"
        below, above = (t5_buckets(distance, rows, far, bidirectional, edge) for edge in (-EDGE, EDGE))
        moved = distance[(values != below) & (values != above)]
        return Form("t5", "buckets", parameters, None, (several,) if len(fitting) > 1 else (), tuple(moved.tolist()))
    return None


def _max_distances(values: Integers, distance: Integers, rows: int, bidirectional: bool, off: float) -> list[int]:
    """Return each max_distance with which T5's formula gives the values; on an edge, which floats miss, either side."""
    # distances that nothing but T5's buckets puts there: several in one bucket, or keys after the query in others
    if not (bidirectional or np.any(np.diff(np.unique(distance[values > 0])) == 1)) or rows < 4:
        return []
    # (candidates, 1), beside distances (distances,); a file's own logarithm may miss an edge by a last digit
    candidates = np.arange(rows // 2 + 1, FARTHEST + 1)
    low, high = (t5_buckets(distance, rows, candidates[:, None], bidirectional, edge) for edge in (-off, off))
    return [int(far) for far in candidates[((values == low) | (values == high)).all(1)]]


def padded_form(rows: NDArray[np.generic], table: NDArray[np.generic]) -> Form | None:
    """Return the form of stored rows, for each distance (distances, features), with zeros for those farther (VITS).

    Args:
        rows: of all distances of a call, 0 in the middle.
        table: the stored rows.
    """
    beyond = (len(rows) - len(table)) // 2
    if beyond < 1 or len(rows) != len(table) + 2 * beyond or not len(table) % 2 or not table.any(1).all():
        return None
    if not np.array_equal(rows[beyond:-beyond], table) or rows[:beyond].any() or rows[-beyond:].any():
        return None
    side = len(table) // 2
    parameters: dict[str, Parameter] = {"head_dim": table.shape[1], "left": side, "right": side, "beyond": "zero"}
    return Form("relative", "clipped", {**parameters, "rows": len(table)})


def _clipped_form(values: Integers, distance: Integers, rows: int) -> Form | None:
    """Return the form of distances, clipped to those that the table has a row of."""
    center = values[distance == 0]
    if len(center) != 1:
        return None
    for sign, order in ((1, "key_minus_query"), (-1, "query_minus_key")):
        # where no distance is clipped, the table alone tells how far its rows go
        steps = sign * distance + center[0]
        lowest, highest = int(values.min()), int(values.max())
        if not np.array_equal(np.clip(steps, lowest, highest), values) or highest - lowest < 2:
            continue
        clipped = bool((steps < lowest).any() or (steps > highest).any())
        before, after = int(center[0]), rows - 1 - int(center[0])
        left, right = (before, after) if sign > 0 else (after, before)
        parameters: dict[str, Parameter] = {"left": left, "right": right, "distance": order, "rows": rows}
        return Form("relative", "clipped" if clipped else "distances", parameters)
    return None
