"""The relative positions of DeBERTa-v2 and v3 (arXiv:2006.03654): indices of a model's table."""

from collections.abc import Iterator

import numpy as np

from posenc.call import Call
from posenc.formulas.fitting import Guess, Observation, call_of_scores, fits
from posenc.ports import Array, Floats, Integers


def reference(call: Call, *, num_buckets: int, far: int) -> tuple[Array]:
    """Return the buckets from DeBERTa's formula, with their signs."""
    relative = call.query[:, :, None] - call.key[:, None, :]
    return (np.sign(relative) * by_logarithm(np.abs(relative), num_buckets=num_buckets, far=far),)


def by_logarithm(distance: Integers, *, num_buckets: int, far: int) -> Floats:
    """Return the bucket of each distance from DeBERTa's formula, its logarithm in float64.

    On an edge the logarithm may come out a last digit above an integer: 1e-9 of a bucket is taken off.
    """
    mid = num_buckets // 2
    growth = np.log(np.maximum(distance, mid) / mid) / np.log((far - 1) / mid)
    grown = mid + np.ceil(growth * (mid - 1) - 1e-9)
    return np.where(distance <= mid, distance, grown).astype(np.float64)


FARTHEST = 4096
"""Up to which max_distance buckets are tried."""


@fits("index", family="relative")
def fit(seen: Observation) -> Iterator[Guess]:
    """Guess the buckets from the first distance that shares one, as far as a stored row for each distance shows it."""
    last = seen.numbers[-1]
    buckets = np.abs(last[::-1]) if len(last) and last[-1] == 0 else np.zeros(0)
    for table in seen.tables:
        flat = table.reshape(-1)[:FARTHEST].astype(np.int64)
        if len(flat) >= len(buckets) and np.array_equal(flat[: len(buckets)], buckets):
            buckets = flat
    distance = np.arange(len(buckets))
    shared = np.flatnonzero(buckets != distance)
    if len(shared) < 2:
        return
    # just behind mid the logarithm still gives each distance a bucket of its own: two share one a few steps later
    for mid in range(int(shared[0]) - 1, max(int(shared[0]) // 2, 2) - 1, -1):
        for far in _max_distances(mid, len(buckets) - 1, int(buckets[-1]), min(FARTHEST, 64 * len(buckets))):
            if np.array_equal(by_logarithm(distance, num_buckets=2 * mid, far=far), buckets):
                (expected,) = reference(call_of_scores(seen), num_buckets=2 * mid, far=far)
                yield Guess({"num_buckets": 2 * mid, "max_distance": far}, expected[0])
                return


def _max_distances(mid: int, distance: int, bucket: int, limit: int) -> range:
    """Return the values of max_distance that may give a distance its bucket: several do, as buckets are rounded up."""
    if bucket <= mid + 1:
        return range(mid + 2, limit)
    growth = np.log(max(distance, mid) / mid) * (mid - 1) / np.array([bucket - mid, bucket - mid - 1])
    nearest, farthest = (mid * np.exp(np.minimum(growth, np.log(limit)))).astype(np.int64).tolist()
    return range(max(mid + 2, nearest), min(limit, farthest + 3))
