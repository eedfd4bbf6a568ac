"""Learned tables of positions, as in GPT-2 and BERT: a trained row for each position up to the last."""

from collections.abc import Sequence

import numpy as np

from posenc.call import Call
from posenc.ports import Array


def reference(weights: Sequence[Array], call: Call, *, before: int, add: bool) -> tuple[Array]:
    """Return the output in float64: rows looked up and added to x, at the positions to compare.

    Args:
        weights: whole tables, (rows, d_model) each, as many as a token has positions.
        before: rows before that of position 0.
    """
    positions = call.positions[..., call.picked] + before
    by_table = positions if len(weights) > 1 else positions[None]  # (tables, batch, seq)
    # (tables, batch, seq, d_model) -> (batch, seq, d_model)
    rows = np.sum([table[at].astype(np.float64) for table, at in zip(weights, by_table, strict=True)], axis=0)
    return (call.values[0][:, call.picked].astype(np.float64) + rows if add and call.values else rows,)
