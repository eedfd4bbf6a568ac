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
    first, bias, second = weights
    coordinates = []
    for side, n in zip(sides, np.broadcast_to(pretrained, 2).tolist(), strict=True):
        difference = np.arange(1 - side, side) * 8.0 / max(1, (n or side) - 1)
        coordinates.append(np.sign(difference) * np.log2(np.abs(difference) + 1) / 3)
    # (2h - 1,), (2w - 1,) -> ((2h - 1) * (2w - 1), 2): every pair of differences
    places = np.stack(np.meshgrid(*coordinates, indexing="ij"), -1).reshape(-1, 2)
    return np.asarray(np.maximum(places @ first.T + bias, 0) @ second.T)


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


@fits("bias", family="window")
def fit(seen: Observation) -> Iterator[Guess]:
    """Find the network among what is stored, and guess the window that it was pretrained with."""
    heads, places = seen.numbers.shape[:2]
    for weights in _networks(seen.stored, heads):
        for height in (side for side in range(2, places) if places % side == 0):
            sides = (height, places // height)
            row, column = np.divmod(np.arange(places), sides[1])
            for pretrained in range(LARGEST):
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
