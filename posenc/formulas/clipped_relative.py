"""Relative position representations (Shaw et al., arXiv:1803.02155): a learned row for each distance up to some."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from posenc.call import Call
from posenc.formulas.fitting import Guess, Observation, fits
from posenc.formulas.parts.distances import by_distance
from posenc.parameters import Value
from posenc.ports import Array, Floats, Integers


@dataclass(frozen=True)
class ClippedTable:
    """The rows of a table in float64, as they stand there, and the parameters: all that the references know."""

    table: Floats
    left: int
    right: int
    beyond: str
    distance: str
    scale: float | None

    def of_pairs(self, query: Integers, key: Integers) -> tuple[Integers, Integers]:
        """Return the index of the row of each query and key, and 1, or 0 where nothing is added: (seq, seq_k) each."""
        relative = key - query[:, None]
        clipped = np.clip(relative, -self.left, self.right)
        index = self.right - clipped if self.distance == "query_minus_key" else self.left + clipped
        return index, (relative == clipped) | (self.beyond == "clip")


def reference(call: Call, *, rows: ClippedTable) -> tuple[Array]:
    """Return the bias in float64: each query times the row of each distance."""
    q = call.values[0].astype(np.float64)
    scale = 1 / np.sqrt(rows.table.shape[1]) if rows.scale is None else rows.scale
    bias = np.zeros((*q.shape[:3], call.key.shape[1]))
    for sequence in range(len(q)):  # positions are the same for a batch, or each sequence has its own
        index, counts = rows.of_pairs(*(at[min(sequence, len(at) - 1)] for at in (call.query, call.key)))
        products = scale * (q[sequence] @ rows.table.T)  # (heads, seq, rows)
        bias[sequence] = np.stack([products[:, i, row] for i, row in enumerate(index)], 1) * counts
    return (bias,)


def added_values(call: Call, *, rows: ClippedTable) -> tuple[Array]:
    """Return in float64 what is added to values: the sum over keys of probabilities times the row of each distance."""
    index, counts = rows.of_pairs(call.query[0], call.key[0])
    p = call.values[0].astype(np.float64) * counts * (1.0 if rows.scale is None else rows.scale)
    return (np.stack([p[:, :, i] @ rows.table[row] for i, row in enumerate(index)], 2),)


@fits("index", "lookup", "distances", family="relative", last=True)
def fit(seen: Observation) -> Iterator[Guess]:
    """Guess how many rows lie on either side from the row of distance 0, and from where rows repeat, or are zeros."""
    of_kind = {"index": _of_columns, "lookup": _of_rows, "distances": _among_zeros}
    yield from of_kind[seen.kind](seen)


def _of_columns(seen: Observation) -> Iterator[Guess]:
    """Guess the rows from columns of scores, one for each row, that queries and keys choose."""
    queries, keys = seen.numbers.shape
    relative = np.arange(keys) - (np.arange(queries) + keys - queries)[:, None]
    at_zero, last = int(seen.numbers[relative == 0][0]), int(seen.numbers.max())
    rows = max((len(table) for table in seen.tables if table.ndim > 1), default=0)
    for distance, turned in (("key_minus_query", relative), ("query_minus_key", -relative)):
        # without a repeated row in sight, the table that the rows are of says how many there are
        before, after = at_zero, max(last, rows - 1) - at_zero
        index = at_zero + np.clip(turned, -before, after)
        if not (index != at_zero + turned).any():
            continue  # nothing is clipped in sight: other encodings count distances, too
        left, right = (before, after) if distance == "key_minus_query" else (after, before)
        yield Guess({"left": left, "right": right, "distance": distance}, index)


def _of_rows(seen: Observation) -> Iterator[Guess]:
    """Guess the rows from those of a stored table that distances choose, clipped in sight or not."""
    queries, keys = seen.numbers.shape
    indices = by_distance(seen.numbers)
    if indices is None or len(np.unique(indices.values)) < 2:
        return
    of_places = np.arange(keys) - np.arange(queries)[:, None] + queries - 1
    values = indices.values.astype(np.int64)
    lowest, highest = int(values.min()), int(values.max())
    # the last query stands at the last key, where earlier keys are cached; else both begin at 0
    for past in dict.fromkeys((keys - queries, 0)):
        distances = indices.distances() - past
        at_zero = int(values[distances == 0][0]) if 0 in distances else None
        for sign, distance in ((1, "key_minus_query"), (-1, "query_minus_key")):
            if at_zero is None or highest - lowest < 2:
                continue
            # where no distance is clipped, the table alone tells how far its rows go
            steps = sign * distances + at_zero
            before, after = at_zero, seen.rows - 1 - at_zero
            left, right = (before, after) if sign > 0 else (after, before)
            read: dict[str, Value] = {"left": left, "right": right, "distance": distance, "rows": seen.rows}
            name = "clipped" if (steps < lowest).any() or (steps > highest).any() else "distances"
            # rows that are added to scores, and not multiplied with queries, are no scheme
            yield Guess(read, np.clip(steps, lowest, highest)[of_places], name, typed={})


def _among_zeros(seen: Observation) -> Iterator[Guess]:
    """Guess that stored rows stand in the middle of zeros, for distances farther off (VITS)."""
    for table in seen.tables:
        beyond = (len(seen.numbers) - len(table)) // 2
        if beyond < 1 or len(seen.numbers) != len(table) + 2 * beyond or not len(table) % 2 or not table.any(1).all():
            continue
        side = len(table) // 2
        sizes: dict[str, Value] = {"head_dim": table.shape[1], "left": side, "right": side, "beyond": "zero"}
        rows = np.pad(table.astype(np.float64), ((beyond, beyond), (0, 0)))
        yield Guess({**sizes, "rows": len(table)}, rows, "clipped", typed=sizes)
