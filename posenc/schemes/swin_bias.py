"""The relative position bias of Swin (arXiv:2103.14030, section 3.2) and of BEiT (arXiv:2106.08254).

A learned number for each head and each difference of two places' rows and columns, in a window of a fixed size. BEiT
has a token before its places: from it to a place, from a place to it, and from it to itself are three more rows, the
last. Its code resizes the table to other windows; that is a grid to interpolate, and no bias of this table.
"""

from functools import partial
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from posenc.encoding import Encoding
from posenc.families import window as windows
from posenc.families.window import Sides
from posenc.ports import Floats, Integers
from posenc.scheme import Unsupported, scheme
from posenc.spec import Spec
from posenc.weights import load_matrix, random_table

OF_CLASS = 3
"""Rows of the class token: to a place, from a place, to itself."""


@scheme(
    "swin_bias",
    paper="arXiv:2103.14030",
    formula="bias[h, i, j] = table[(row_i - row_j, column_i - column_j), h]",
    models=("Swin", "BEiT", "Donut", "Data2Vec vision"),
    samples=({"heads": 3, "window": (2, 3)}, {"heads": 2, "window": 3, "class_token": True}),
    unsupported=Unsupported(
        modes={
            "dynamic": "a row exists for each difference of places in its window and no formula gives another; "
            "use --baked, or swin_cpb"
        },
        methods=windows.NO_SINES,
        positions=windows.NO_POSITIONS,
    ),
)
def swin_bias(
    spec: Spec,
    *,
    heads: int | None = None,
    window: int | tuple[int, ...] = (7, 7),
    class_token: bool = False,
    output: Literal["bias", "scores"] = "bias",
    weights: str | None = None,
    key: str | None = None,
    std: float = 0.02,
) -> Encoding:
    """A learned bias of attention for each head and each difference of rows and columns within a window.

    heads: columns of the table [default: those of the weights, or 3].
    window: rows and columns of a window, or one number for both.
    class_token: a token before the places has three rows of its own, as in BEiT.
    output: "bias" (1, heads, tokens, tokens), or "scores" biased.
    weights: a .npy, .safetensors, .pt, .pth or .bin file, or a model's folder, with a table of a row a difference.
    key: the name of the table, as ...relative_position_bias_table.
    std: standard deviation of the random numbers, where no weights are given.
    """
    sides = windows.sides_of("window", window)
    height, width = sides
    windows.check_bias(spec, 3 if heads is None else heads, height * width + class_token)
    rows = (2 * height - 1) * (2 * width - 1) + OF_CLASS * class_token
    if weights is None:
        table = random_table("a table", (rows, heads or 3), key, std)
    else:
        table = _from_file(weights, key, rows, heads)
    table = table.to(getattr(torch, spec.angle_dtype))
    index = with_class(windows.indices(sides), rows) if class_token else windows.indices(sides)
    formula = partial(reference, table=table.double().numpy(), sides=sides, class_token=class_token)
    return windows.encode(spec, table, index, formula, scores=output == "scores")


def _from_file(weights: str, key: str | None, rows: int, heads: int | None) -> Tensor:
    table = load_matrix(weights, key)
    if table.shape != (rows, heads or table.shape[1]):
        shape = f"({rows}, {'heads' if heads is None else heads})"
        raise ValueError(f"weights: the table of this window and heads must be {shape}, got {tuple(table.shape)}")
    return table


def with_class(index: Integers, rows: int) -> Integers:
    """Return indices with those of a token before the places: (tokens, tokens) -> (1 + tokens, 1 + tokens)."""
    padded = np.pad(index, ((1, 0), (1, 0)))
    padded[0, 1:], padded[1:, 0], padded[0, 0] = rows - 3, rows - 2, rows - 1
    return padded


def reference(*, table: Floats, sides: Sides, class_token: bool) -> Floats:
    """Return the bias by head in float64: that of every two places, and of the class token."""
    height, width = sides
    places = table[: -OF_CLASS or None] if class_token else table
    grid = places.reshape(2 * height - 1, 2 * width - 1, -1)
    tokens = [(row, column) for row in range(height) for column in range(width)]
    bias = np.array([[grid[height - 1 + r - s, width - 1 + c - d] for s, d in tokens] for r, c in tokens])
    if class_token:
        to_place, to_class, to_itself = table[-OF_CLASS:]
        first = np.concatenate([to_itself[None], np.tile(to_place, (len(tokens), 1))])
        bias = np.concatenate([np.tile(to_class, (len(tokens), 1, 1)), bias], 1)
        bias = np.concatenate([first[None], bias])
    return np.moveaxis(bias, -1, 0)
