"""The relative position bias of T5 (arXiv:1910.10683): a learned number for each head and each bucket of distances."""

from collections.abc import Iterator

import numpy as np

from posenc.call import Call
from posenc.formulas.fitting import Guess, Observation, call_of_scores, fits
from posenc.ports import Array, Bools, Floats, Integers


def reference(call: Call, *, weight: Floats, far: int, bidirectional: bool) -> tuple[Array]:
    """Return the bias from T5's formula, its logarithm in float64.

    On an edge the logarithm may come out a last digit below an integer: 1e-9 of a bucket is added.
    """
    # (batch, 1, seq_k) - (batch, seq, 1)
    relative = call.key[:, None, :] - call.query[:, :, None]
    # half of the buckets are for keys ahead, where they count
    direction = len(weight) // 2 if bidirectional else len(weight)
    single = direction // 2
    distance = np.abs(relative) if bidirectional else np.maximum(-relative, 0)
    # distances up to `single` have a bucket each; the others share buckets that grow by a factor
    growth = np.log(np.maximum(distance, single) / single) / np.log(far / single)
    large = np.minimum(single + np.floor(growth * (direction - single) + 1e-9), direction - 1)
    bucket = np.where(distance < single, distance, large).astype(np.int64)
    bucket += direction * (relative > 0) if bidirectional else 0
    # (batch, seq, seq_k, heads) -> (batch, heads, seq, seq_k)
    return (np.moveaxis(weight[bucket], -1, 1),)


BUCKETS, FARTHEST = (32, 64, 16, 8, 128), (128, 256, 64, 512, 32, 1024, 16, 2048)
"""Numbers of buckets, and distances that the last begins before, which models have; others are tried after them."""
MOST = 512
"""Up to which other distances are tried."""


@fits("bias", family="t5")
def fit(seen: Observation) -> Iterator[Guess]:
    """Guess the buckets from where the bias changes with the distance, as far as a stored row for each shows it."""
    by_distance = _by_distance(seen)
    if by_distance is None:
        return
    distances, numbers = by_distance
    changes = (numbers[1:] != numbers[:-1]).any(-1)
    # a bias of few stored numbers was computed, and one whose every distance has its own number has no buckets
    if changes.all() or max((table.size for table in seen.stored), default=0) < np.unique(numbers, axis=0).size:
        return
    for count in BUCKETS:
        for far in (*FARTHEST, *range(count // 2 + 1, min(2 * int(distances[-1]) + 2, MOST))):
            for bidirectional in (True, False):
                if far <= count // 2 or not (changes == _changes(distances, count, far, bidirectional)).all():
                    continue
                weight = np.zeros((count, numbers.shape[-1]))
                weight[_buckets(distances, count, far, bidirectional)] = numbers
                (bias,) = reference(call_of_scores(seen), weight=weight, far=far, bidirectional=bidirectional)
                sizes = {"heads": len(seen.numbers), "num_buckets": count, "max_distance": far}
                yield Guess({**sizes, "bidirectional": bidirectional}, bias[0])
                return


def _by_distance(seen: Observation) -> tuple[Integers, Floats] | None:
    """Return distances from key to query, and a row of all heads for each; None where the bias is not of distances."""
    heads, queries, keys = seen.numbers.shape
    relative = np.arange(keys) - (np.arange(queries) + keys - queries)[:, None]
    distances = np.arange(relative.min(), relative.max() + 1)
    rows = np.zeros((len(distances), heads))
    rows[relative - distances[0]] = np.moveaxis(seen.numbers, 0, -1)
    if not np.array_equal(np.moveaxis(rows[relative - distances[0]], -1, 0), seen.numbers.astype(np.float64)):
        return None
    # a table of a row for each distance goes on where a short call ends
    for table in seen.stored:
        last = len(table) // 2
        known = np.clip(distances, -last, last) + last
        if table.ndim == 2 and len(table) % 2 and np.array_equal(table[known].astype(np.float64), rows):
            return np.arange(-last, last + 1), table.astype(np.float64)
    return distances, rows


def _buckets(distances: Integers, count: int, far: int, bidirectional: bool) -> Integers:
    """Return the bucket of each distance, by the formula itself: with a weight that is the bucket's own number."""
    numbers = np.zeros((1, 1, len(distances)))
    seen = Observation("bias", numbers, 0.0, positions=(np.zeros(1, np.int64), distances))
    weight = np.arange(count, dtype=np.float64)[:, None]
    (bucket,) = reference(call_of_scores(seen), weight=weight, far=far, bidirectional=bidirectional)
    return np.asarray(bucket[0, 0, 0], np.int64)


def _changes(distances: Integers, count: int, far: int, bidirectional: bool) -> Bools:
    return np.asarray(np.diff(_buckets(distances, count, far, bidirectional)) != 0)
