"""The relative positions of Transformer-XL (arXiv:1901.02860, appendix B) and XLNet (arXiv:1906.08237)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import numpy as np

from posenc.call import Call
from posenc.formulas.fitting import Guess, Observation, fits
from posenc.formulas.parts.rows import waves
from posenc.formulas.parts.sinusoids import distances_of, is_even
from posenc.formulas.parts.turning import bases_of, frequencies_of
from posenc.ports import SEQ, Array, Axis

Attention = Literal["causal", "uni", "bi"]


KEYS = Axis("seq_k", "length")


def reference(call: Call, *, attention: Attention, clamp: int | None, d_model: int, base: float) -> tuple[Array]:
    """Return the rows in float64 from the formula, from the farthest key behind to the farthest ahead."""
    seq_k = call.sizes[KEYS.name]
    if attention == "causal":
        # the newest key is at distance 0
        distance = np.arange(seq_k - 1, -1, -1)
    else:
        distance = np.arange(seq_k, -call.sizes[SEQ.name] if attention == "bi" else -1, -1)
    if clamp is not None:
        distance = np.minimum(np.maximum(distance, -clamp), clamp)
    return (waves(distance, base ** -(2.0 * np.arange(d_model // 2) / d_model), interleaved=False),)


def shift_reference(call: Call, *, attention: Attention) -> tuple[Array]:
    """Return for every query and key the score at the column of their distance, and 0 where there is none."""
    (scores,) = call.values
    seq, columns = scores.shape[2:]
    seq_k = {"causal": columns, "uni": columns - 1, "bi": columns - seq}[attention]
    farthest = seq_k - 1 if attention == "causal" else seq_k
    distance = np.arange(seq_k - seq, seq_k)[:, None] - np.arange(seq_k)
    column = farthest - distance
    exists = column < columns
    picked = scores[:, :, np.arange(seq)[:, None], np.where(exists, column, 0)]
    return (np.where(exists, picked.astype(np.float64), 0.0),)


@fits("rows", "taken", family="relative")
def fit(seen: Observation) -> Iterator[Guess]:
    """Guess the base from sines and cosines that turn back from row to row, down to distance 0 or below."""
    if seen.kind == "taken":
        # Conformers have as many distances below zero as above; Transformer-XL stops at 0, XLNet anywhere
        yield from (replace(guess, name="transformer_xl") for guess in distances_of(seen) if not is_even(guess))
        return
    half, count = seen.width // 2, len(seen.numbers)
    if len(seen.places) != 1 or seen.width % 2 or count < 4:
        return
    sine, cosine = np.split(seen.numbers.astype(np.float64), 2, -1)
    turns = -frequencies_of(cosine + 1j * sine)
    for base in bases_of(turns, np.arange(half) / half):
        inv_freq = base ** -(2.0 * np.arange(half) / seen.width)
        # rows of as many keys as queries end at 1 - seq; those behind alone end at 0
        for attention, farthest in (("causal", count - 1), ("bi", count // 2)):
            expected = waves(farthest - np.arange(count), inv_freq, interleaved=False)[0]
            yield Guess({"d_model": seen.width, "attention": attention, "base": base}, expected)
