"""Relative position representations (Shaw et al., arXiv:1803.02155): a learned row for each distance up to some."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from posenc.call import Call
from posenc.formulas.fitting import Guess, Observation, fits
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


@fits("index", family="relative")
def fit(seen: Observation) -> Iterator[Guess]:
    """Guess how many rows lie on either side from the row of distance 0, and from where rows repeat."""
    queries, keys = seen.numbers.shape
    relative = np.arange(keys) - (np.arange(queries) + keys - queries)[:, None]
    at_zero, last = int(seen.numbers[relative == 0][0]), int(seen.numbers.max())
    rows = max((len(table) for table in seen.stored if table.ndim > 1), default=0)
    for distance, turned in (("key_minus_query", relative), ("query_minus_key", -relative)):
        # without a repeated row in sight, the table that the rows are of says how many there are
        before, after = at_zero, max(last, rows - 1) - at_zero
        index = at_zero + np.clip(turned, -before, after)
        if not (index != at_zero + turned).any():
            continue  # nothing is clipped in sight: other encodings count distances, too
        left, right = (before, after) if distance == "key_minus_query" else (after, before)
        yield Guess({"left": left, "right": right, "distance": distance}, index)
