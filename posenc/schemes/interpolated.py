"""A learned grid of positions, resampled to the size of the input, as in vision transformers.

A grid of one size is trained; an image of another size has more places, or fewer, and takes its rows from between those
of the grid: bicubic in ViT and DINOv2, bilinear in SigLIP2, antialiased or not. The results are those of
`torch.nn.functional.interpolate`. At the grid's own size rows come out unchanged, to the bit.
"""

from collections.abc import Sequence
from functools import partial
from math import isqrt, prod
from typing import Annotated, Literal

import torch
from torch import Tensor

from posenc.encoding import Encoding
from posenc.formulas.interpolated import reference, reference_of_tokens
from posenc.formulas.parts.resampling import Resampling
from posenc.memory import check_room
from posenc.ranges import above, minimum
from posenc.scheme import Unsupported, scheme
from posenc.sources.interpolated import encode as interpolation
from posenc.sources.interpolated.weights import Filter
from posenc.spec import Spec, UnsupportedSpec
from posenc.weights import Weights

NO_POSITION = "places are those of x; use --positions implicit"
D_MODEL, GRID = 768, (37, 37)


NOT_READ = "a grid of the size that it is stored in was not resampled: it is a learned table of its places"
"""Why an inspection does not read it back."""


@scheme(
    "interpolated",
    paper="arXiv:2010.11929, section 3.2; DINOv2 (arXiv:2304.07193), SigLIP2 (arXiv:2502.14786)",
    formula="PE[y, x] = sum_ij a(y, i) G[i, j] b(x, j), G the learned grid, a and b the weights of the interpolation",
    models=("ViT", "DeiT", "CLIP vision", "DINOv2", "SigLIP", "SigLIP 2"),
    sums=("dynamic",),
    samples=(
        {"d_model": 6, "grid": (4, 3)},
        {"d_model": 5, "grid": (7,), "antialias": True, "prefix": 0},
        {"d_model": 5, "grid": (3, 4), "mode": "bilinear", "antialias": True, "prefix": 0, "sizes": "each"},
    ),
    unsupported=Unsupported(
        reading={"baked": NOT_READ},
        methods={"trig": "a learned grid has no sines; leave --method trig out"},
        positions=dict.fromkeys(("offset", "explicit", "mask"), NO_POSITION),
    ),
)
def interpolated(
    spec: Spec,
    *,
    d_model: Annotated[int | None, minimum(1)] = None,
    grid: tuple[int, ...] | None = None,
    prefix: Annotated[int, minimum(0)] = 1,
    mode: Literal["bicubic", "bilinear"] = "bicubic",
    antialias: bool = False,
    align_corners: bool = False,
    offset: float = 0.0,
    output: Literal["add", "rows"] = "add",
    size: tuple[int, ...] | None = None,
    sizes: Literal["grid", "each"] = "grid",
    weights: str | None = None,
    key: str | None = None,
    std: Annotated[float, above(0)] = 0.02,
) -> Encoding:
    """A learned grid of rows, resampled to the height and width of x, or to its length.

    Args:
        d_model: features [default: those of the weights, or 768].
        grid: rows and columns that were trained, or one number for a line [default: what the weights hold where that is
            a square, or 37,37].
        prefix: rows before those of the grid, kept as they are, for class and register tokens.
        mode: bicubic as ViT and DINOv2, or bilinear (linear, of a line) as SigLIP2.
        antialias: weigh more rows where they become fewer.
        align_corners: the first and the last place lie on the first and the last row.
        offset: added to the size before the scale is made of it, but not at the grid's own size; 0.1 in DINOv2.
        output: "add" x + the rows of its places, "rows" those of the prefix and of all places, in the order of tokens.
        size: height and width, or the length, of a baked grid [default: those of the trained grid].
        sizes: "grid", x is (batch, height, width, d_model) and all images have its size; "each", x is (batch, seq,
            d_model) and an input `sizes` holds the size of each image, as in SigLIP2-NaFlex: padding has the row of the
            first place.
        weights: a .npy, .safetensors, .pt, .pth or .bin file, or a model's folder: (prefix + places, d_model), or
            (height, width, d_model).
        key: the name of the table in a file that holds several tensors.
        std: standard deviation of the random rows, where no weights are given.
    """
    _check(grid, prefix, align_corners, offset)
    # the module and its reference have each their own filter of these
    kernel = (mode == "bicubic", antialias, align_corners, offset)
    held, table = _table(Weights(weights, key, std), d_model, grid, prefix)
    table = table.to(getattr(torch, spec.angle_dtype))
    rows = interpolation.ResampledGrid(table[prefix:].reshape(*held, -1), table[:prefix].clone(), Filter(*kernel))
    # the reference begins with the rows as they are stored
    exact, how, add = table.double().numpy(), Resampling(*kernel), output == "add"
    learned = exact[prefix:].reshape(*held, -1)
    if sizes == "each":
        _check_each(spec, held, prefix, size)
        formula = partial(reference_of_tokens, table=learned, how=how, add=add)
        return interpolation.encode_each(rows, spec, add=add, formula=formula)
    # a dynamic grid has the size of x
    fixed = None if spec.mode == "dynamic" else size or learned.shape[:-1]
    formula = partial(reference, table=learned, how=how, before=None if add else exact[:prefix], fixed=fixed)
    size = _size(spec, size, held, table.shape[1])
    return interpolation.encode(rows, spec, add=add, size=size, formula=formula)


def _check(grid: tuple[int, ...] | None, prefix: int, align_corners: bool, offset: float) -> None:
    if grid is not None and (len(grid) not in (1, 2) or min(grid) < 1):
        raise ValueError(f"grid must be one or two numbers of at least 1, got {_text(grid, ',')}")
    if not 0 <= offset < 1 or (offset and align_corners):
        value = f"{offset} with align_corners" if align_corners else offset
        raise ValueError(f"offset must be at least 0, below 1, and without align_corners, got {value}")


def _size(spec: Spec, size: tuple[int, ...] | None, grid: tuple[int, ...], width: int) -> tuple[int, ...]:
    """Return the size to resample to, which must fit the memory; of a dynamic encoding, that of its grid."""
    if size is not None and spec.mode == "dynamic":
        raise ValueError("size is that of a baked grid, a dynamic one takes any: leave it out, or use --baked")
    if size is not None and (len(size) != len(grid) or min(size) < 1):
        raise ValueError(f"size must be as many numbers as grid {_text(grid, ',')}, at least 1, got {_text(size, ',')}")
    check_room("a resampled grid", (*(size or grid), width), spec.angle_dtype)
    return size or grid


def _check_each(spec: Spec, grid: tuple[int, ...], prefix: int, size: tuple[int, ...] | None) -> None:
    if spec.mode == "baked" or size is not None:
        raise UnsupportedSpec("sizes=each takes a size from each image, which no table of one size has; use --dynamic")
    if len(grid) != 2 or prefix:
        values = f"grid={_text(grid, ',')} and prefix={prefix}"
        raise UnsupportedSpec(f"sizes=each takes a grid of height and width without a prefix, got {values}")


def _table(
    weights: Weights, d_model: int | None, grid: tuple[int, ...] | None, prefix: int
) -> tuple[tuple[int, ...], Tensor]:
    """Return the sizes of the grid, and the rows before it and of it: (prefix + places, d_model)."""
    random = (prefix + prod(grid or GRID), D_MODEL)
    try:
        # rows one after another, as most models keep them
        table = weights.table({"rows": None, "d_model": d_model}, random)
    except ValueError as error:
        if weights.file is None:
            raise
        try:
            # or a grid, as SAM keeps it
            table = weights.table({"height": None, "width": None, "d_model": d_model})
        except ValueError:
            # the first form is the usual one: its words say what was expected
            raise error from None
    return (grid or GRID if weights.file is None else _grid_of(table, weights.file, grid, prefix)), table.flatten(0, -2)


def _grid_of(table: Tensor, weights: str, grid: tuple[int, ...] | None, prefix: int) -> tuple[int, ...]:
    """Return the sizes of the grid in a table from a file; raise ValueError where they are not those asked for."""
    if table.dim() == 3:
        held = tuple(table.shape[:2])
        if prefix or grid not in (None, held):
            values = f"prefix {prefix} and grid {_text(grid or held, ',')}"
            raise ValueError(f"{weights} holds a grid of {_text(held)} and no prefix: give prefix=0, got {values}")
        return held
    places = len(table) - prefix
    side = isqrt(max(0, places))
    if grid is None and (places < 1 or side * side != places):
        rows = f"{weights} has {len(table)} rows, {prefix} of them prefix"
        raise ValueError(f"{rows}: the others are no square, give grid=HEIGHT,WIDTH, or another prefix")
    if grid is not None and prod(grid) != places:
        needed = f"prefix {prefix} and a grid of {_text(grid)} take {prefix + prod(grid)}"
        raise ValueError(f"{weights} has {len(table)} rows: {needed}")
    return grid or (side, side)


def _text(sizes: Sequence[int], between: str = " x ") -> str:
    return between.join(map(str, sizes))
