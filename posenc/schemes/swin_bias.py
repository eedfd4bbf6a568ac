"""The relative position bias of Swin (arXiv:2103.14030, section 3.2) and of BEiT (arXiv:2106.08254).

A learned number for each head and each difference of two places' rows and columns in the window that was trained. BEiT
has a token before its places: from it to a place, from a place to it, and from it to itself are three more rows, the
last. In a window of another size there are more differences, or fewer, and the table is a grid (2h - 1, 2w - 1) that
is resampled to as many: bilinear in BEiT, bicubic where Swin is fine-tuned at another size. The three rows are kept.
"""

from functools import partial
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor

from posenc import reasons
from posenc.call import Formula
from posenc.encoding import Encoding
from posenc.formulas.swin_bias import reference
from posenc.ports import Integers
from posenc.ranges import above, minimum
from posenc.scheme import Unsupported, scheme
from posenc.sources.interpolated.encode import SUMS, ResampledGrid
from posenc.sources.interpolated.modules import Resample2d
from posenc.sources.interpolated.weights import Filter
from posenc.sources.window import encode as windows
from posenc.sources.window.encode import Sides
from posenc.sources.window.resized import ResampledBias, ResampledBiasOfClass
from posenc.spec import Spec
from posenc.weights import Weights

OF_CLASS = 3
"""Rows of the class token: to a place, from a place, to itself."""
SIDE = 64
"""Up to which side windows are tried where nobody says: a bias grows with its fourth power."""


@scheme(
    "swin_bias",
    rows=lambda parameters: SIDE,
    paper="arXiv:2103.14030",
    formula="bias[h, i, j] = table[(row_i - row_j, column_i - column_j), h]",
    models=("Swin", "BEiT", "Donut", "Data2Vec vision"),
    sums=("dynamic",),
    samples=({"heads": 3, "window": (2, 3)}, {"heads": 2, "window": 3, "class_token": True}),
    unsupported=Unsupported(methods=reasons.BIAS, positions=reasons.WINDOW),
)
def swin_bias(
    spec: Spec,
    *,
    heads: Annotated[int | None, minimum(1)] = None,
    window: int | tuple[int, ...] = (7, 7),
    class_token: bool = False,
    interpolation: Literal["bilinear", "bicubic"] = "bilinear",
    output: Literal["bias", "scores"] = "bias",
    weights: str | None = None,
    key: str | None = None,
    std: Annotated[float, above(0)] = 0.02,
) -> Encoding:
    """A learned bias of attention for each head and each difference of rows and columns within a window.

    Args:
        heads: columns of the table [default: those of the weights, or 3].
        window: rows and columns of the window that is trained, or one number for both; a dynamic graph takes those of
            x.
        class_token: a token before the places has three rows of its own, as in BEiT.
        interpolation: how a dynamic graph resizes the table to other windows, "bilinear" as BEiT, or "bicubic" as Swin.
        output: "bias" (1, heads, tokens, tokens), or "scores" biased, of a fixed window.
        weights: a .npy, .safetensors, .pt, .pth or .bin file, or a model's folder, with a table of a row a difference.
        key: the name of the table, as ...relative_position_bias_table.
        std: standard deviation of the random numbers, where no weights are given.
    """
    sides = windows.sides_of("window", window)
    scores, baked = output == "scores", spec.mode == "baked"
    windows.check_bias(spec, 3 if heads is None else heads, sides[0] * sides[1] + class_token if baked else 1)
    rows = (2 * sides[0] - 1) * (2 * sides[1] - 1) + OF_CLASS * class_token
    table = Weights(weights, key, std).table({"differences": rows, "heads": heads}, (rows, 3))
    table = table.to(getattr(torch, spec.angle_dtype))
    formula = partial(
        reference,
        table=table.double().numpy(),
        window=window,
        cubic=interpolation == "bicubic",
        fixed=baked,
        add=scores,
    )
    if baked:
        index = with_class(windows.indices(sides), len(table)) if class_token else windows.indices(sides)
        return windows.encode(spec, table, index, formula, scores=scores)
    windows.check_any_size(scores=scores)
    grid = ResampledGrid(*_parts(table, sides, class_token), Filter(cubic=interpolation == "bicubic"))
    return _dynamic(spec, grid, sides, formula)


def _dynamic(spec: Spec, grid: ResampledGrid, sides: Sides, formula: Formula) -> Encoding:
    """Return the encoding of a window as large as each x, its table resampled in the graph."""
    dtype, class_token = getattr(torch, spec.torch_dtype), len(grid.prefix) > 0
    plane = Resample2d(grid.weight, grid.filter)

    def error_bound(sides: Sides) -> float:
        sizes = _differences(sides)
        return grid.error_bound(sizes, spec.angle_dtype) + grid.error_bound(sizes, "float64")

    made = windows.AnySizeBias(
        ResampledBiasOfClass(plane, grid.prefix, dtype) if class_token else ResampledBias(plane, dtype),
        grid.weight.shape[-1],
        formula=formula,
        off=error_bound,
        lengths=tuple(dict.fromkeys(sides)),
        before=int(class_token),
        half_safe=SUMS,
    )
    return windows.encode_any_size(spec, made)


def _differences(sides: Sides) -> Sides:
    """Return how many differences of rows and of columns there are in a window."""
    return 2 * sides[0] - 1, 2 * sides[1] - 1


def _parts(table: Tensor, sides: Sides, class_token: bool) -> tuple[Tensor, Tensor]:
    """Return the grid of differences (2h - 1, 2w - 1, heads), and the rows of the class token: (3 or 0, heads)."""
    rows, columns = _differences(sides)
    # (rows * columns, heads) -> (rows, columns, heads); behind them are the rows of the class token
    return table[: rows * columns].reshape(rows, columns, -1), table[rows * columns :].clone()


def with_class(index: Integers, rows: int) -> Integers:
    """Return indices with those of a token before the places: (tokens, tokens) -> (1 + tokens, 1 + tokens)."""
    padded = np.pad(index, ((1, 0), (1, 0)))
    padded[0, 1:], padded[1:, 0], padded[0, 0] = rows - 3, rows - 2, rows - 1
    return padded
