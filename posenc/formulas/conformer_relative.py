"""Relative positions of Conformers (arXiv:2005.08100): rows of distances, and scores moved to their keys."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from posenc.call import Call
from posenc.formulas.fitting import Guess, Observation, fits
from posenc.formulas.parts.rows import waves
from posenc.formulas.parts.sinusoids import distances_of, is_even
from posenc.formulas.parts.turning import bases_of, frequencies_of
from posenc.ports import Array


def of_chunk(call: Call, *, past: int, future: int, d_model: int, base: float) -> tuple[Array]:
    """Return the rows of every chunk in float64 from the formula."""
    # the last frequency is 1 / base itself, as in Gemma 3n
    growth = np.log(base) / max(d_model // 2 - 1, 1)
    inv_freq = np.exp(-growth * np.arange(d_model // 2))
    return (waves(np.arange(past, -future - 1, -1), inv_freq, interleaved=False),)


def shift_reference(call: Call) -> tuple[Array]:
    """Return for every query and key the score at the column of their distance."""
    (scores,) = call.values
    seq, columns = scores.shape[2:]
    # (batch, heads, seq, seq + seq_k - 1): the keys follow from the columns
    seq_k = columns - seq + 1
    # queries are the last of the keys
    distance = np.arange(seq_k - seq, seq_k)[:, None] - np.arange(seq_k)
    return (scores[:, :, np.arange(seq)[:, None], seq_k - 1 - distance].astype(np.float64),)


def chunk_shift_reference(call: Call) -> tuple[Array]:
    """Return the score of every query of a chunk with every key that the chunk sees; 0 where the query does not."""
    (scores,) = call.values
    chunk, columns = scores.shape[3:]
    by_key = np.zeros((*scores.shape[:4], columns + chunk - 1))
    for query in range(chunk):
        by_key[:, :, :, query, query : query + columns] = scores[:, :, :, query]
    return (by_key,)


@fits("rows", "taken", family="relative")
def fit(seen: Observation) -> Iterator[Guess]:
    """Guess the base from sines and cosines by turns that go back from row to row: both ways, or behind alone."""
    if seen.kind == "taken":
        # as many distances below zero as above
        yield from (replace(guess, name="conformer") for guess in distances_of(seen) if is_even(guess))
        return
    half, count = seen.width // 2, len(seen.numbers)
    if len(seen.places) != 1 or seen.width % 2 or count < 4:
        return
    sine, cosine = (seen.numbers[:, wave::2].astype(np.float64) for wave in (0, 1))
    turns = -frequencies_of(cosine + 1j * sine)
    for base in bases_of(turns, np.arange(half) / half):
        inv_freq = base ** (-np.arange(half) / half)
        for style, farthest in (("both", (count - 1) // 2), ("descending", count - 1)):
            expected = waves(farthest - np.arange(count), inv_freq, interleaved=True)[0]
            yield Guess({"d_model": seen.width, "style": style, "base": base}, expected)
