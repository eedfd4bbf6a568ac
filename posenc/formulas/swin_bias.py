"""The relative position bias of Swin (arXiv:2103.14030, section 3.2) and of BEiT (arXiv:2106.08254)."""

import numpy as np

from posenc.call import Call
from posenc.formulas.parts.resampling import Resampling, resampled
from posenc.formulas.parts.windows import of_places
from posenc.ports import Array, Floats


def reference(
    call: Call, *, table: Floats, window: int | tuple[int, ...], cubic: bool, fixed: bool, add: bool
) -> tuple[Array]:
    """Return the bias in float64, or scores with it: of every two places, and of the class token where it has rows.

    Args:
        table: a row for each difference of rows, and within it of columns, of that; then the rows of the class token:
            to a place, from a place, to itself.
        window: as it is given.
        fixed: the window is that one, and not that of x.
    """
    height, width = np.broadcast_to(window, 2).tolist()
    down, across = 2 * height - 1, 2 * width - 1
    sides = (height, width) if fixed else call.values[0].shape[1:3]
    # (down * across, heads) -> (down, across, heads)
    grid, of_class = table[: down * across].reshape(down, across, -1), table[down * across :]
    bias = of_places(resampled(grid, Resampling(cubic), [2 * side - 1 for side in sides]), sides)
    if len(of_class):
        to_place, to_class, to_itself = of_class
        # (1 + places, heads): the class token as a query, then as a key
        first = np.concatenate([to_itself[None], np.tile(to_place, (len(bias), 1))])
        bias = np.concatenate([np.tile(to_class, (len(bias), 1, 1)), bias], 1)
        bias = np.concatenate([first[None], bias])
    by_head = np.moveaxis(bias, -1, 0)[None]
    return (call.values[0].astype(np.float64) + by_head if add else by_head,)
