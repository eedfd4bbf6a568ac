"""Decomposed relative positions (MViTv2, arXiv:2112.01526, equation 4), as in ViTDet and SAM's image encoder.

    bias[h, (y, x), (v, u)] = q[h, y, x] . R_row[y - v] + q[h, y, x] . R_column[x - u]

A learned row for each difference of rows, and one for each difference of columns, for the sides that were trained:
14 x 14 in SAM's windows, 64 x 64 in its global layers. For other sides the tables are resampled
linearly, as `torch.nn.functional.interpolate` does it. MViTv2 itself pools its keys: here queries and keys are the
places of one grid.
"""

from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

import torch
from torch import Tensor

from posenc import reasons
from posenc.encoding import Encoding
from posenc.formulas.decomposed_relative import reference
from posenc.memory import check_room
from posenc.ranges import above, minimum
from posenc.scheme import DATA, Unsupported, scheme
from posenc.sources.window import encode as windows
from posenc.sources.window import two_products as decomposed
from posenc.sources.window.encode import Sides
from posenc.sources.window.two_products import SideTables
from posenc.spec import Spec, UnsupportedSpec
from posenc.weight_files import names_in
from posenc.weights import Weights

NAMES = ("rel_pos_h", "rel_pos_w")
"""What both tables are called, behind the name of their attention."""
WINDOW, HEAD_DIM = (14, 14), 64
SIDE = 64
"""Up to which side grids are tried where nobody says: a bias grows with its fourth power."""


NOT_READ = "queries are multiplied by the rows of rows and of columns apart: an inspection sees two tables of distances"
"""Why an inspection does not read it back."""


@scheme(
    "decomposed_relative",
    rows=lambda parameters: SIDE,
    paper="arXiv:2112.01526, equation 4; ViTDet (arXiv:2203.16527), SAM (arXiv:2304.02643)",
    formula="bias[h, (y, x), (v, u)] = q[h, y, x] . row[y - v] + q[h, y, x] . column[x - u]",
    models=("SAM", "SAM-HQ", "ViTDet", "GOT-OCR 2", "DeepSeek-OCR 2", "SLANeXt"),
    sums=("baked", "dynamic"),
    not_held={"_tables": DATA},
    samples=({"head_dim": 8, "window": (2, 3)},),
    unsupported=Unsupported(
        reading={"baked": NOT_READ, "dynamic": NOT_READ}, methods=reasons.BIAS, positions=reasons.WINDOW
    ),
)
def decomposed_relative(
    spec: Spec,
    *,
    head_dim: Annotated[int | None, minimum(1)] = None,
    window: int | tuple[int, ...] | None = None,
    size: int | tuple[int, ...] | None = None,
    output: Literal["bias", "scores"] = "bias",
    weights: str | None = None,
    key: str | None = None,
    std: Annotated[float, above(0)] = 0.02,
) -> Encoding:
    """Queries times a learned row for each difference of rows, and one for each of columns (MViTv2, ViTDet, SAM).

    Args:
        head_dim: features of a head [default: those of the weights, or 64].
        window: rows and columns that the tables are of, or one number for both: their lengths are twice as many, less
            one [default: those of the weights, or 14,14].
        size: rows and columns of a baked window, to which the tables are resampled [default: the window's]; a dynamic
            graph takes those of q.
        output: "bias" of q (batch, heads, tokens, head_dim), dynamic (batch, heads, height, width, head_dim), or
            "scores" biased, of a baked window.
        weights: a .safetensors, .pt, .pth or .bin file, or a model's folder, that holds both tables.
        key: the name of their attention, as vision_encoder.layers.0.attn, before .rel_pos_h and .rel_pos_w.
        std: standard deviation of the random rows, where no weights are given.
    """
    sides = (None, None) if window is None else windows.sides_of("window", window)
    tables = _tables(Weights(weights, key, std), sides, head_dim).to(getattr(torch, spec.angle_dtype))
    baked = _size(spec, size, tables.sides, output == "scores")
    rows, columns = (table.double().numpy() for table in tables.both_sides)
    fixed = None if spec.mode == "dynamic" else (size, window)
    formula = partial(reference, rows=rows, columns=columns, fixed=fixed)
    return decomposed.encode(tables, spec, size=baked, scores=output == "scores", formula=formula)


def _size(spec: Spec, size: int | tuple[int, ...] | None, window: Sides, scores: bool) -> Sides:
    """Return the sides of a baked window; raise ValueError where there is no such form, or no memory for its bias."""
    if spec.mode == "dynamic" and size is not None:
        raise ValueError("size is that of a baked window, a dynamic one takes any: leave it out, or use --baked")
    if spec.mode == "dynamic" and scores:
        raise UnsupportedSpec("output=scores takes scores of a fixed window: it takes --baked, or output=bias")
    if spec.mode == "dynamic":
        return window
    sides = window if size is None else windows.sides_of("size", size)
    tokens = sides[0] * sides[1]
    check_room("a bias", (tokens, tokens), spec.angle_dtype)
    return sides


def _tables(weights: Weights, sides: tuple[int | None, int | None], head_dim: int | None) -> SideTables:
    """Return the tables of differences of rows and of columns; raise ValueError, in one line, where they do not fit."""
    names = (weights.key, weights.key) if weights.file is None else _names(weights, names_in(weights.file))
    tables: list[Tensor] = []
    for name, axis, side, trained in zip(names, ("height", "width"), sides, WINDOW, strict=True):
        sizes = {f"2 * {axis} - 1": None if side is None else 2 * side - 1, "head_dim": head_dim}
        tables.append(replace(weights, key=name).table(sizes, (2 * trained - 1, HEAD_DIM)))
        head_dim = tables[0].shape[1]
        if len(tables[-1]) % 2 == 0:
            raise ValueError(f"weights: {name} must have 2 * {axis} - 1 rows, an odd number, got {len(tables[-1])}")
    return SideTables(*tables)


def _names(weights: Weights, tensors: tuple[str, ...]) -> tuple[str, str]:
    """Return the names of the tables of an attention; raise ValueError where a file has none, or several."""
    first, second = NAMES
    if not tensors:
        raise ValueError(f"weights: {weights.file} holds one array: give a file of two tables, {first} and {second}")
    starts = [name.removesuffix(first) for name in tensors if name.split(".")[-1] == first]
    whole = [start for start in starts if start + second in tensors]
    start = weights.prefix(whole, whole, len(tensors), f"names before .{first} and .{second}")
    return start + first, start + second
