"""A learned grid of positions, resampled to the size of the input, as in vision transformers."""

from collections.abc import Iterator, Sequence

import numpy as np

from posenc.call import Call
from posenc.formulas.fitting import Guess, Observation, fits
from posenc.formulas.parts.resampling import Resampling, matrices, resampled
from posenc.parameters import Value
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


WAYS = tuple(
    Resampling(cubic, antialias, corners)
    for cubic in (True, False)
    for antialias in (False, True)
    for corners in (False, True)
    if not (antialias and corners)
)
"""How models resample: bicubic first, as most do."""


@fits("rows", family="grid")
def fit(seen: Observation) -> Iterator[Guess]:
    """Find the learned grid among what is stored, of another size, and how it was resampled."""
    if len(seen.places) != 2 or seen.width < 2:
        return
    for table in seen.tables:
        grid = _grid(table, seen)
        if grid is None:
            continue
        if grid.shape[:2] == seen.places:
            continue  # as it is stored, it is a table of its places, and nothing was resampled
        for how in WAYS:
            named: dict[str, Value] = {
                "d_model": seen.width,
                "grid": grid.shape[:2],
                "mode": "bicubic" if how.cubic else "bilinear",
            }
            named |= {"antialias": how.antialias, "align_corners": how.align_corners}
            yield Guess(named, resampled(grid, how, seen.places))


def _grid(table: Array, seen: Observation) -> Floats | None:
    """Return a stored table as (height, width, features); None where it cannot be one of rows like those seen."""
    axes = tuple(axis for axis, size in enumerate(table.shape) if size == 1)
    table = np.squeeze(table, axes).astype(np.float64)
    if table.ndim == 3:
        return (
            table if table.shape[-1] == seen.width else np.moveaxis(table, 0, -1) if len(table) == seen.width else None
        )
    if table.ndim != 2 or table.shape[1] % seen.width:
        return None
    if table.shape[1] > seen.width:  # columns and features lie beside one another
        return table.reshape(len(table), -1, seen.width)
    side = int(np.sqrt(len(table)))
    return table.reshape(side, side, seen.width) if side * side == len(table) else None
