"""The relative positions of Transformer-XL (arXiv:1901.02860, appendix B) and XLNet (arXiv:1906.08237)."""

from typing import Literal

import numpy as np

from posenc.call import Call
from posenc.formulas.parts.rows import waves
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
