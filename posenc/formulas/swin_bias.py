"""The relative position bias of Swin (arXiv:2103.14030, section 3.2) and of BEiT (arXiv:2106.08254)."""

from collections.abc import Iterator

import numpy as np

from posenc.call import Call
from posenc.formulas.fitting import Guess, Observation, call_of, fits
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


@fits("bias", family="window")
def fit(seen: Observation) -> Iterator[Guess]:
    """Guess the window from rectangles of as many places, and take the table from the bias itself.

    What the distance on a line says alone is no window: that symmetry must be broken.
    """
    heads, tokens = seen.numbers.shape[:2]
    if seen.numbers.shape[2] != tokens or _is_of_a_line(seen.numbers):
        return
    yield from _resized(seen)
    # a table may be named only where as many numbers are stored as it has
    room = max((table.size for table in seen.stored), default=0)
    for class_token in (False, True):
        places = tokens - class_token
        for height in (side for side in range(2, places) if places % side == 0):
            width = places // height
            if heads * (2 * height - 1) * (2 * width - 1) > room:
                continue
            of_places = seen.numbers[:, class_token:, class_token:].astype(np.float64)
            named = {"heads": heads, "window": (height, width), "class_token": class_token}
            table = _table(of_places, (height, width))
            if class_token:
                first = seen.numbers.astype(np.float64)
                table = np.concatenate([table, first[:, 0, 1:2].T, first[:, 1:2, 0].T, first[:, 0, :1].T])
            call = call_of(seen)
            (bias,) = reference(call, table=table, window=(height, width), cubic=False, fixed=True, add=False)
            yield Guess(named, bias[0])


def _resized(seen: Observation) -> Iterator[Guess]:
    """Yield stored tables of other windows, resized to that of the bias, whose sides are those of its places."""
    heads, places = seen.numbers.shape[:2]
    for table in seen.stored:
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


def _table(bias: Floats, window: tuple[int, int]) -> Floats:
    """Return a row of heads for each difference of rows, and of columns: (heads, places, places) -> (rows, heads)."""
    height, width = window
    row, column = np.divmod(np.arange(height * width), width)
    down, across = row[:, None] - row + height - 1, column[:, None] - column + width - 1
    grid = np.zeros((2 * height - 1, 2 * width - 1, len(bias)))
    grid[down, across] = np.moveaxis(bias, 0, -1)
    return grid.reshape(-1, len(bias))


def _is_of_a_line(bias: Array) -> bool:
    """Return whether a bias is the same along every diagonal."""
    return bool(np.array_equal(bias[:, 1:, 1:], bias[:, :-1, :-1]))
