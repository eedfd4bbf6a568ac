"""The continuous relative position bias of Swin Transformer V2 (arXiv:2111.09883, section 3.3)."""

import numpy as np

from posenc.call import Call
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
