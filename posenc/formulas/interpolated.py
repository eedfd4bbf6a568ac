"""A learned grid of positions, resampled to the size of the input, as in vision transformers."""

from collections.abc import Sequence

import numpy as np

from posenc.call import Call
from posenc.formulas.parts.resampling import Resampling, matrices, resampled
from posenc.ports import Array, Floats


def reference(
    call: Call, *, table: Floats, how: Resampling, before: Floats | None, fixed: Sequence[int] | None
) -> tuple[Array]:
    """Return x + the rows of its places in float64, or those rows as tokens, behind the rows `before`.

    Args:
        fixed: the sizes of a baked grid, as a user gives them.
    """
    rows = resampled(table, how, fixed or call.values[0].shape[1:-1])
    if before is None:
        return (call.values[0].astype(np.float64) + rows,)
    return (np.concatenate([before, rows.reshape(-1, rows.shape[-1])])[None],)  # (1, before + places, features)


def reference_of_tokens(call: Call, *, table: Floats, how: Resampling, add: bool) -> tuple[Array]:
    """Return the rows of the tokens of each image in float64, or x + those rows."""
    (x,) = call.values
    rows = np.stack([rows_of_image(table, how, image, x.shape[1]) for image in call.extents])
    return (x.astype(np.float64) + rows if add else rows,)


def rows_of_image(table: Floats, how: Resampling, sizes: Sequence[int], tokens: int) -> Floats:
    """Return the rows of the first tokens of an image in float64: (tokens, features)."""
    height, width = map(int, sizes)
    places = [token if token < height * width else 0 for token in range(tokens)]
    down, across = matrices(table.shape, how, (height, width))
    rows, columns = down[[place // width for place in places]], across[[place % width for place in places]]
    return np.asarray(np.einsum("th,tw,hwf->tf", rows, columns, table, optimize=True))
