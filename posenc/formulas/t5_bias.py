"""The relative position bias of T5 (arXiv:1910.10683): a learned number for each head and each bucket of distances."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from posenc.call import Call
from posenc.formulas.fitting import Form, Guess, Observation, fits
from posenc.formulas.parts.distances import by_distance
from posenc.parameters import Value
from posenc.ports import Array, Floats, Integers

LAST_DIGIT = 1e-9
"""What a logarithm in float64 may come out below an integer on the edge of a bucket, as a share of one."""


def reference(call: Call, *, weight: Floats, far: int, bidirectional: bool) -> tuple[Array]:
    """Return the bias from T5's formula, its logarithm in float64."""
    # (batch, 1, seq_k) - (batch, seq, 1)
    relative = call.key[:, None, :] - call.query[:, :, None]
    bucket = buckets(relative, len(weight), far, bidirectional, LAST_DIGIT)
    # (batch, seq, seq_k, heads) -> (batch, heads, seq, seq_k)
    return (np.moveaxis(weight[bucket], -1, 1),)


def buckets(relative: Integers, count: int, far: int | Integers, bidirectional: bool, edge: float) -> Integers:
    """Return the bucket of each distance key - query.

    Args:
        relative: distances.
        count: buckets.
        far: the distance from which on all share a bucket; several beside `relative`.
        bidirectional: half of the buckets are for keys ahead of their query.
        edge: is added to the logarithm, as a share of a bucket, before it is cut.
    """
    direction = count // 2 if bidirectional else count
    single = max(direction // 2, 1)
    distance = np.abs(relative) if bidirectional else np.maximum(-relative, 0)
    # distances up to `single` have a bucket each; the others share buckets that grow by a factor
    growth = np.log(np.maximum(distance, single) / single) / np.log(far / single)
    large = np.minimum(single + np.floor(growth * (direction - single) + edge), direction - 1)
    bucket = np.where(distance < single, distance, large).astype(np.int64)
    return np.asarray(bucket + (direction * (relative > 0) if bidirectional else 0), np.int64)


COUNTS, USUAL = (32, 64, 16, 8, 128), (128, 256, 64, 512, 1024, 2048, 800, 32, 20, 16)
"""Numbers of buckets, and distances from which on all share one, that models have; T5's first."""
MOST, FARTHEST = 512, 4096
"""Up to which other distances are tried: of a bias, and of indices, which say more."""
EDGE, ROUGH_EDGE, HALF_EDGE = 1e-4, 0.1, 2.0**-8
"""By how much a logarithm may miss the edge between two buckets: in float32; in half precision, once its angles too
were rounded; and float16's own, whose numbers near 8 buckets are as far apart."""
FEWEST = 4
"""How many different numbers a learned bias has at least."""


@fits("bias", "lookup", family="t5")
def fit(seen: Observation) -> Iterator[Guess]:
    """Guess the buckets from indices of rows, or from where a bias changes with the distance."""
    yield from _of_indices(seen) if seen.kind == "lookup" else _of_bias(seen)


def _of_bias(seen: Observation) -> Iterator[Guess]:
    """Guess the buckets from where a bias changes with the distance, as far as a stored row for each shows it."""
    diagonals = by_distance(seen.numbers) if seen.is_whole else None
    # a bias of few stored numbers was computed, and one whose every distance has its own number has no buckets
    if diagonals is None or max((table.size for table in seen.tables), default=0) < np.unique(diagonals.values).size:
        return
    queries, keys = seen.numbers.shape[-2:]
    distances, numbers = diagonals.distances() - (keys - queries), diagonals.values.astype(np.float64).T
    of_places = np.arange(keys) - np.arange(queries)[:, None] + queries - 1
    # a table of a row for each distance goes on where a short call ends
    for table in seen.tables:
        last = len(table) // 2
        known = np.clip(distances, -last, last) + last
        if table.ndim == 2 and len(table) % 2 and np.array_equal(table[known].astype(np.float64), numbers):
            of_places = np.clip(of_places + int(distances[0]) + last, 0, 2 * last)
            distances, numbers = np.arange(-last, last + 1), table.astype(np.float64)
    changes = (numbers[1:] != numbers[:-1]).any(-1)
    places = np.flatnonzero(changes)
    # equal numbers at either end alone are distances that were clipped
    if len(np.unique(numbers[:, 0])) < FEWEST or changes[places[0] : places[-1]].all():
        return
    for count in COUNTS:
        for far in dict.fromkeys((*USUAL, *range(count // 2 + 1, min(2 * int(distances[-1]) + 2, MOST)))):
            for bidirectional in (True, False):
                edges = (LAST_DIGIT, EDGE, -EDGE) if far in USUAL else (LAST_DIGIT,)
                for edge in edges if far > count // 2 else ():
                    bucket = buckets(distances, count, far, bidirectional, edge)
                    if not np.array_equal(changes, np.diff(bucket) != 0):
                        continue
                    weight = np.zeros((count, numbers.shape[-1]))
                    weight[bucket] = numbers
                    sizes = {"heads": len(seen.numbers), "num_buckets": count, "max_distance": far}
                    bias = np.moveaxis(weight[bucket[of_places]], -1, 0)
                    yield Guess({**sizes, "bidirectional": bidirectional}, bias, "buckets")
                    return


def _of_indices(seen: Observation) -> Iterator[Guess]:
    """Guess how far the buckets go from the rows that distances choose among as many as there are buckets."""
    indices = by_distance(seen.numbers)
    if indices is None or len(np.unique(indices.values)) < 2:
        return
    queries, keys = seen.numbers.shape
    of_places = np.arange(keys) - np.arange(queries)[:, None] + queries - 1
    values = indices.values.astype(np.int64)
    # the last query stands at the last key, where earlier keys are cached; else both begin at 0
    for past in dict.fromkeys((keys - queries, 0)):
        distance = indices.distances() - past
        for bidirectional in (True, False) if seen.rows % 2 == 0 else (False,):
            fitting = _distances(values, distance, seen.rows, bidirectional, EDGE)
            if not set(USUAL).intersection(fitting):
                # logarithms of half precision move edges
                rough = _distances(values, distance, seen.rows, bidirectional, ROUGH_EDGE)
                fitting = [far for far in rough if far in USUAL] or fitting
            if not fitting:
                continue
            far = next((far for far in USUAL if far in fitting), fitting[0])
            several = f"max_distance from {fitting[0]} to {fitting[-1]} fits as well at this length"
            below, above = (buckets(distance, seen.rows, far, bidirectional, edge) for edge in (-EDGE, EDGE))
            read: dict[str, Value] = {"num_buckets": seen.rows, "bidirectional": bidirectional, "max_distance": far}
            yield Guess(
                read,
                # on an edge, which floats miss, a row on either side is the formula's
                _either(values, distance, seen.rows, far, bidirectional)[of_places],
                "buckets",
                typed={name: read[name] for name in ("num_buckets", "max_distance", "bidirectional")},
                also=(several,) if len(fitting) > 1 else (),
                moved=tuple(distance[(values != below) & (values != above)].tolist()),
            )
            return


def _distances(values: Integers, distance: Integers, rows: int, bidirectional: bool, edge: float) -> list[int]:
    """Return each max_distance with which T5's formula gives the values; on an edge, which floats miss, either side."""
    # distances that nothing but T5's buckets puts there: several in one bucket, or keys after the query in others
    if not (bidirectional or np.any(np.diff(np.unique(distance[values > 0])) == 1)) or rows < 4:
        return []
    # (candidates, 1), beside distances (distances,); a file's own logarithm may miss an edge by a last digit
    candidates = np.arange(rows // 2 + 1, FARTHEST + 1)
    low, high = (buckets(distance, rows, candidates[:, None], bidirectional, side) for side in (-edge, edge))
    return [int(far) for far in candidates[((values == low) | (values == high)).all(1)]]


def _either(values: Integers, distance: Integers, rows: int, far: int, bidirectional: bool) -> Integers:
    """Return the buckets of distances: of those on an edge, the one that a value is."""
    near = [buckets(distance, rows, far, bidirectional, edge) for edge in (EDGE, -EDGE, ROUGH_EDGE, -ROUGH_EDGE)]
    return np.asarray(np.select([values == side for side in near], near, near[0]))


def is_bucketed(form: Form) -> bool:
    """Return whether a form has T5's buckets, of which a short call shows those of near distances alone."""
    return {"num_buckets", "max_distance", "bidirectional"} <= form.parameters.keys()


def on_edges(form: Form, length: int) -> Form:
    """Return a form with the distances of a call that lie on the edge of two rows: half precision rounds to either.

    ONNX Runtime keeps float32 between two nodes where its CPU has none for halves, and so rounds otherwise than a GPU.
    """
    rows, far, both = (form.parameters[name] for name in ("num_buckets", "max_distance", "bidirectional"))
    assert isinstance(rows, int)
    assert isinstance(far, int)
    distance = np.arange(1 - length, length)
    below, above = (buckets(distance, rows, far, bool(both), edge) for edge in (-HALF_EDGE, HALF_EDGE))
    # where logarithms begin, there is that of 1 alone, which is 0 whoever rounds
    is_moved = (below != above) & (np.abs(distance) > rows // (4 if both else 2))
    return replace(form, moved=tuple(sorted({*form.moved, *distance[is_moved].tolist()}, key=abs)))
