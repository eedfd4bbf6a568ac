"""The continuous relative position bias of Swin Transformer V2 (arXiv:2111.09883, section 3.3)."""

from collections.abc import Iterator
from itertools import permutations

import numpy as np

from posenc.call import Call
from posenc.formulas.fitting import Guess, Observation, call_of, fits
from posenc.formulas.parts.windows import of_places
from posenc.ports import Array, Floats

Weights = tuple[Floats, Floats, Floats]
"""Those of the network: (hidden, 2), (hidden,), (heads, hidden)."""


def logits(weights: Weights, sides: tuple[int, int], pretrained: int | tuple[int, ...]) -> Floats:
    """Return what the network says of every pair of differences in float64: (rows, heads)."""
    return _answers(weights, coordinates(sides, pretrained).reshape(-1, 2))


def _answers(weights: Weights, places: Floats) -> Floats:
    """Return what the network says of some coordinates in float64: (rows, 2) -> (rows, heads)."""
    first, bias, second = weights
    return np.asarray(np.maximum(places @ first.T + bias, 0) @ second.T)


def coordinates(sides: tuple[int, ...], pretrained: int | tuple[int, ...]) -> Floats:
    """Return what the network takes of every pair of differences in float64: (2 height - 1, 2 width - 1, 2)."""
    lines = []
    for side, n in zip(sides, np.broadcast_to(pretrained, 2).tolist(), strict=True):
        difference = np.arange(1 - side, side) * 8.0 / max(1, (n or side) - 1)
        lines.append(np.sign(difference) * np.log2(np.abs(difference) + 1) / 3)
    return np.stack(np.meshgrid(*lines, indexing="ij"), -1)


def reference(
    call: Call, *, weights: Weights, pretrained: int | tuple[int, ...], window: int | tuple[int, ...] | None, add: bool
) -> tuple[Array]:
    """Return the bias of every two places in float64 from the formula, or scores with it.

    Args:
        window: of a fixed size, as it is given; None for that of x.
    """
    height, width = call.values[0].shape[1:3] if window is None else np.broadcast_to(window, 2).tolist()
    numbers = 16 / (1 + np.exp(-logits(weights, (height, width), pretrained)))
    # (differences, heads) -> (2h - 1, 2w - 1, heads)
    grid = numbers.reshape(2 * height - 1, 2 * width - 1, -1)
    # (places, places, heads) -> (1, heads, places, places)
    bias = np.moveaxis(of_places(grid, (height, width)), -1, 0)[None]
    return (call.values[0].astype(np.float64) + bias if add else bias,)


LARGEST = 64
"""Up to which side of the window that a model was pretrained with is tried."""
FEW = 8
"""How many keys of a query say which windows are worth computing: a network of all differences takes long."""
CLOSE = 0.02
"""How far a side that is read of a coordinate may be from a whole number."""


@fits("bias", "coordinates", family="window")
def fit(seen: Observation) -> Iterator[Guess]:
    """Guess the window that a network was pretrained with, from what it takes in, or from the bias that it gives."""
    yield from _of_coordinates(seen) if seen.kind == "coordinates" else _of_bias(seen)


def _of_coordinates(seen: Observation) -> Iterator[Guess]:
    """Guess the window from the last coordinate of a line of rows, and of columns, which the formula backward says."""
    rows, columns = seen.numbers.shape[:2]
    if min(rows, columns) < 3 or not (rows % 2 and columns % 2):
        return
    sides = (rows // 2 + 1, columns // 2 + 1)
    last = np.abs(np.array([seen.numbers[-1, 0, 0], seen.numbers[0, -1, 1]], np.float64))
    step = (np.exp2(3 * last) - 1) / 8 / (np.array(sides) - 1)
    if not np.all(step > 0):
        return
    trained = np.rint(1 / step + 1)
    if np.all((np.abs(1 / step + 1 - trained) < CLOSE) & (trained > 1)):
        window = tuple(int(side) for side in trained)
        grid = coordinates(sides, window)
        flat = grid.reshape(-1, 2)
        # the network is not among what comes in: its sizes are not known
        yield Guess(
            {"window": sides, "pretrained_window": window},
            grid,
            "continuous",
            typed={},
            exact=lambda positions: np.asarray(flat[positions]),
            tolerance=1e-4 + 4 * seen.spacing,
        )


def _of_bias(seen: Observation) -> Iterator[Guess]:
    """Find the network among what is stored, and guess the window that it was pretrained with."""
    if not seen.is_whole or seen.numbers.shape[1] != seen.numbers.shape[2]:
        return
    heads, places = seen.numbers.shape[:2]
    for weights in _networks(seen.tables, heads):
        for height in (side for side in range(2, places) if places % side == 0):
            sides = (height, places // height)
            row, column = np.divmod(np.arange(places), sides[1])
            for pretrained in range(LARGEST):
                if not _is_likely(seen, weights, sides, pretrained):
                    continue
                # a few queries say which windows are worth computing: the first and the last see all differences
                numbers = 16 / (1 + np.exp(-logits(weights, sides, pretrained)))
                grid = numbers.reshape(2 * sides[0] - 1, 2 * sides[1] - 1, -1)
                few = np.array([0, places // 3, places - 1])[:, None]
                by_place = grid[row[few] - row + sides[0] - 1, column[few] - column + sides[1] - 1]
                off = np.abs(np.moveaxis(by_place, -1, 0) - seen.numbers[:, few[:, 0]]).max()
                if off > seen.tolerance * max(1.0, float(np.abs(by_place).max())):
                    continue
                call = call_of(Observation("rows", np.zeros((*sides, 1)), seen.spacing))
                (bias,) = reference(call, weights=weights, pretrained=pretrained, window=None, add=False)
                yield Guess({"heads": heads, "hidden": len(weights[1]), "pretrained_window": pretrained}, bias[0])


def _is_likely(seen: Observation, weights: Weights, sides: tuple[int, int], pretrained: int) -> bool:
    """Return whether a few keys of the first query and of the last one have the bias that a network gives them."""
    places = sides[0] * sides[1]
    keys = np.linspace(0, places - 1, FEW).astype(int)
    query = np.repeat([0, places - 1], FEW)
    key = np.tile(keys, 2)
    row, column = np.divmod(query, sides[1]) - np.array(np.divmod(key, sides[1]))
    taken = coordinates(sides, pretrained)[row + sides[0] - 1, column + sides[1] - 1]
    expected = 16 / (1 + np.exp(-_answers(weights, taken)))
    # no bias is above 16, so that nothing is left out here that is within the tolerance of all
    return bool(np.abs(expected.T - seen.numbers[:, query, key]).max() <= 16 * seen.tolerance)


def _networks(stored: tuple[Array, ...], heads: int) -> Iterator[Weights]:
    """Yield the weights of a network of two inputs: (hidden, 2), (hidden,), (heads, hidden)."""
    tables = [np.squeeze(table).astype(np.float64) for table in stored]
    matrices = [table for table in tables if table.ndim == 2]
    vectors = [table for table in tables if table.ndim == 1]
    for table in matrices:
        second = table if len(table) == heads else table.T
        hidden = second.shape[1]
        # the weights of rows and of columns are a matrix, or stand apart
        pairs = [m if m.shape[1] == 2 else m.T for m in matrices if sorted(m.shape) == sorted((2, hidden))]
        fitting = [vector for vector in vectors if len(vector) == hidden]
        pairs += [np.stack(pair, -1) for pair in permutations(fitting, 2)]
        if len(second) == heads:
            yield from ((pair, bias, second) for pair in pairs for bias in fitting)
