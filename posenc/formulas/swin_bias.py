"""The relative position bias of Swin (arXiv:2103.14030, section 3.2) and of BEiT (arXiv:2106.08254)."""

import math
from collections.abc import Iterator

import numpy as np

from posenc.call import Call
from posenc.formulas.fitting import Guess, Observation, call_of, fits
from posenc.formulas.parts.resampling import Resampling, resampled
from posenc.formulas.parts.windows import of_places, window_of
from posenc.parameters import Value
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


FEWEST = 4
"""How many different numbers of a head a learned bias has at least: fewer are a mask's.

No more are asked for, since half precision rounds many numbers of a table to the same one.
"""


@fits("bias", "lookup", family="window")
def fit(seen: Observation) -> Iterator[Guess]:
    """Guess the window, of an image or a video, in which differences of places say all of a bias, or of indices.

    What the distance on a line says alone is no window: that symmetry must be broken.
    """
    if not seen.is_whole or seen.numbers.shape[-1] != seen.numbers.shape[-2]:
        return
    different = len(np.unique(seen.numbers if seen.kind == "lookup" else seen.numbers[0]))
    if different < (seen.numbers.shape[0] if seen.kind == "lookup" else FEWEST):
        return
    found = window_of(seen.numbers)
    if found is not None:
        sides, class_token = found
        heads = {"heads": len(seen.numbers)} if seen.kind == "bias" else {}
        read: dict[str, Value] = {**heads, "window": sides, **({"class_token": True} if class_token else {})}
        count = math.prod(2 * side - 1 for side in sides) + 3 * class_token
        # a scheme has windows of images, and a row for each difference
        typed = read if len(sides) == 2 and seen.rows in (0, count) else {}
        rows = {"rows": seen.rows} if seen.rows else {}
        # a table is named only where as many numbers are stored as it has
        if seen.rows or max((table.size for table in seen.tables), default=0) >= len(seen.numbers) * count:
            yield Guess({**read, **rows}, seen.numbers, "table", typed=typed)
    if seen.kind == "bias":
        yield from _resized(seen)


def _resized(seen: Observation) -> Iterator[Guess]:
    """Yield stored tables of other windows, resized to that of the bias, whose sides are those of its places."""
    heads, places = seen.numbers.shape[:2]
    for table in seen.tables:
        # heads are the last axis, or lie beside the columns
        flat = table.reshape(-1, heads) if table.shape[-1] % heads == 0 else np.zeros((0, heads))
        for down in (side for side in range(3, len(flat), 2) if len(flat) % side == 0 and len(flat) // side % 2):
            window = ((down + 1) // 2, (len(flat) // down + 1) // 2)
            for height in (side for side in range(2, places) if places % side == 0):
                x = Observation("rows", np.zeros((height, places // height, 1)), seen.spacing)
                for cubic in (False, True):
                    rows = flat.astype(np.float64)
                    (bias,) = reference(call_of(x), table=rows, window=window, cubic=cubic, fixed=False, add=False)
                    named = {"heads": heads, "window": window}
                    yield Guess({**named, "interpolation": "bicubic" if cubic else "bilinear"}, bias[0])
