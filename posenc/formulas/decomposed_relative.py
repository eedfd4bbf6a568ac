"""Decomposed relative positions (MViTv2, arXiv:2112.01526, equation 4), as in ViTDet and SAM's image encoder."""

import numpy as np

from posenc.call import Call
from posenc.formulas.parts.resampling import Resampling, resampled
from posenc.ports import Array, Floats

Numbers = int | tuple[int, ...] | None
"""Rows and columns, one number for both, or none, as a parameter gives them."""


def reference(call: Call, *, rows: Floats, columns: Floats, fixed: tuple[Numbers, Numbers] | None) -> tuple[Array]:
    """Return the bias of the queries that are wanted in float64, added to scores where there are any.

    Args:
        fixed: of a fixed window, the size that it is resampled to and the one that was trained, as they are given.
    """
    q, *scores = call.values
    if fixed is None:
        height, width = q.shape[2:4]
    else:
        trained = [(len(table) + 1) // 2 for table in (rows, columns)]
        height, width = np.broadcast_to(next(n for n in (*fixed, trained) if n is not None), 2).tolist()
    at = np.arange(height * width)[call.picked]
    place = np.arange(height * width)
    y, x = place // max(width, 1), place % max(width, 1)
    of_rows, of_columns = (
        resampled(table, Resampling(cubic=False), [max(2 * side - 1, 1)])
        for table, side in ((rows, height), (columns, width))
    )
    # (batch, heads, height, width, head_dim) -> (batch, heads, picked places, head_dim)
    q = q.reshape(*q.shape[:2], height * width, q.shape[-1])[:, :, at].astype(np.float64)
    # (batch, heads, picked places, height): with the row of each difference of rows
    by_row = np.einsum("bntc,tvc->bntv", q, of_rows[y[at, None] - np.arange(height) + height - 1])
    # (batch, heads, picked places, width)
    by_column = np.einsum("bntc,tuc->bntu", q, of_columns[x[at, None] - np.arange(width) + width - 1])
    # (..., height, width) -> (..., places), as keys lie in memory
    bias = (by_row[..., :, None] + by_column[..., None, :]).reshape(*by_row.shape[:3], len(place))
    return (scores[0][:, :, at] + bias if scores else bias,)
