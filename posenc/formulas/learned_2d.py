"""Learned embeddings of the rows and of the columns of a grid: DETR with position_embedding_type="learned"."""

import numpy as np

from posenc.call import Call
from posenc.ports import Array, Floats


def reference(tables: list[Floats], call: Call, *, order: str, tensor_layout: str) -> tuple[Array]:
    """Return the output in float64: the embeddings of column and row of each place, in the layout of the output."""
    by_row, by_column = (table[at] for table, at in zip(tables, call.positions, strict=True))
    # twice (1, height, width, dim / 2)
    rows = np.concatenate([by_column, by_row] if order == "column_first" else [by_row, by_column], -1)
    # (1, height, width, dim) -> (1, dim, height, width)
    return (np.moveaxis(rows, -1, 1) if tensor_layout == "bdhw" else rows,)
