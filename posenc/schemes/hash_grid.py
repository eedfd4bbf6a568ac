"""The multi-resolution hash grid of Instant-NGP (arXiv:2201.05989, section 3), as radiance fields have it.

    N_l = floor(N_min b^l)                                    cells along each side at level l
    row = sum_i c_i (N_l + 1)^i                               of corner c, where all (N_l + 1)^d corners fit T rows
    row = (xor_i c_i pi_i mod 2^32) mod T                     else; pi = 1, 2654435761, 805459861
    y_l = sum over the 2^d corners of weight * table_l[row]   d-linear; the output is y_0, y_1, ..., y_(L-1)

The corners of a cell are floor(N_l x) and ceil(N_l x), as in the paper and in nerfstudio's code for torch, which hashes
coarse levels as well (dense=False). tiny-cuda-nn differs: it scales by N_min b^l - 1, adds 0.5, has ceil(N_min b^l)
corners along a side, and rounds the rows of a level up to a multiple of 8. Its weights do not fit this scheme.
"""

from functools import partial
from typing import Annotated

import numpy as np
import torch

from posenc.encoding import SAME_BITS, Encoding, Tolerance, eps, no_tables
from posenc.formulas.hash_grid import Grids, reference
from posenc.maker import Claims, Join, encoding
from posenc.ports import BATCH, SEQ, Port, Values, fixed
from posenc.ranges import above
from posenc.scheme import BOUNDS, Unsupported, scheme
from posenc.sources.features.hash_grid import PRIMES, HashGrid, levels_of
from posenc.spec import Spec, UnsupportedSpec
from posenc.weights import Weights
from posenc.where import Where

MAX_CELLS = 2**20
"""Cells along a side, at most: a product with a prime fits an int64, and float32 has digits left for a fraction."""
MAX_LEVELS = 64
MAX_LOG2_SIZE = 31
"""Logarithm of the rows of a table, at most: the mask that takes a hash modulo the rows is an int32."""
PRODUCTS = "products of cells with primes need 64 bits in grids as large"
HALF_UNSAFE = "a float holds a coordinate times a resolution, of which half precision keeps 11 binary digits"
BITWISE = ("BitwiseXor", "BitwiseAnd")
"""What a hash is made of. By sums and look-ups the same rows take 1.3 to 1.5 times as long on the CPU."""
NUMBERS = "coordinates are an input, numbers of each token; use --positions explicit"


NOT_READ = "its features are of points that come in, which an inspection does not have: it reads positions"
"""Why an inspection does not read it back."""


@scheme(
    "hash_grid",
    paper="arXiv:2201.05989, section 3",
    formula="y_l = sum of weight * table_l[row(c)] over the corners c of a cell, row(c) = (xor_i c_i pi_i) mod T",
    models=("Instant-NGP", "nerfstudio"),
    not_held={"error": BOUNDS},
    samples=(
        {"in_features": 2, "levels": 3, "log2_size": 5, "min_resolution": 4},
        {"levels": 4, "features": 1, "log2_size": 7, "min_resolution": 3, "growth": 1.5},
        {"levels": 2, "log2_size": 5, "min_resolution": 2, "dense": False},
    ),
    positions="explicit",
    unsupported=Unsupported(
        reading={"dynamic": NOT_READ},
        modes={"baked": "features are interpolated between stored corners, at any coordinate; use --dynamic"},
        methods={"trig": "features of a grid have no sines; leave --method trig out"},
        positions={"implicit": NUMBERS, "offset": NUMBERS, "mask": NUMBERS},
    ),
)
def hash_grid(
    spec: Spec,
    *,
    in_features: int = 3,
    levels: int = 16,
    features: int | None = None,
    log2_size: int = 19,
    min_resolution: int = 16,
    growth: float = 1.38,
    dense: bool = True,
    weights: str | None = None,
    key: str | None = None,
    std: Annotated[float, above(0)] = 1e-4,
) -> Encoding:
    """Trained features of the corners of finer and finer grids, interpolated at coordinates in 0..1 (Instant-NGP).

    Args:
        in_features: coordinates of a point, 1 to 3.
        levels: grids, L in the paper.
        features: of each level, F in the paper [default: those of the weights, or 2].
        log2_size: the tables of levels have 2^log2_size rows at most, T in the paper (log2_hashmap_size).
        min_resolution: cells along a side of the first grid, N_min in the paper (base_resolution, min_res).
        growth: cells along a side of a grid, divided by those of the grid before; b in the paper, which takes (N_max /
            N_min)^(1 / (levels - 1)).
        dense: corners of a grid that fit the table have a row each, as in the paper; else all are hashed (nerfstudio).
        weights: a file of weights or a model's folder with the trained tables, level after level, (rows, features).
        key: their name, as ...encoding.hash_table.
        std: standard deviation of random tables, where no weights are given.
    """
    grids = Grids(in_features, levels, log2_size, min_resolution, growth, dense)
    _check(grids, features)
    rows = sum(level.rows for level in levels_of(grids))  # of all levels
    table = Weights(weights, key, std).table({"rows": rows, "features": features}, (rows, 2))
    table = table.to(getattr(torch, spec.angle_dtype))
    finest, largest = levels_of(grids)[-1].cells, float(table.abs().max())
    own, exact = (error(in_features, finest, largest, eps(dtype)) for dtype in (spec.angle_dtype, "float64"))
    claims = Claims(
        error=lambda case: Tolerance(own + exact),
        graph_error=lambda case: SAME_BITS,
        tables=no_tables("its rows are corners of grids, between which it interpolates"),
        half_safe=HALF_UNSAFE,
        not_on_cuda=BITWISE,
    )
    x = Port("x", (BATCH, SEQ, fixed(in_features)), spec.angle_dtype, Values(0.0, 1.0, strict=True))
    y = Port("y", (BATCH, SEQ, fixed(levels * table.shape[1])), spec.torch_dtype)
    module = HashGrid(table, grids, getattr(torch, spec.torch_dtype))
    if spec.narrow and module.integers == torch.int64:
        raise UnsupportedSpec(f"index_dtype int32 has no room for it: {PRODUCTS}; leave --index-dtype out")
    formula = partial(reference, table=table.double().numpy(), grids=grids)
    return encoding(spec, Where(spec.positions), claims, Join("features", module, (x,), (y,)), formula)


def _check(grids: Grids, features: int | None) -> None:
    for name, number, largest in (
        ("in_features", grids.in_features, len(PRIMES)),
        ("levels", grids.levels, MAX_LEVELS),
        ("features", 1 if features is None else features, MAX_CELLS),
        ("log2_size", grids.log2_size, MAX_LOG2_SIZE),
        ("min_resolution", grids.min_resolution, MAX_CELLS),
    ):
        if not 1 <= number <= largest:
            raise ValueError(f"{name} must be 1 to {largest}, got {number}")
    # A comparison of logarithms, as a power may overflow; NaN fails each.
    finest = np.log2(grids.min_resolution) + (grids.levels - 1) * np.log2(max(grids.growth, 1.0))
    if not (grids.growth >= 1 and finest <= np.log2(MAX_CELLS)):
        at_most = f"min_resolution * growth^(levels - 1) at most {MAX_CELLS}"
        raise ValueError(f"growth must be at least 1, and {at_most}, got {grids.growth}")


def error(numbers: int, cells: int, largest: float, unit: float) -> float:
    """Return how far a feature may be off where each rounding costs half a `unit`.

    A place among the cells is rounded once, relative to its size, and within a cell a feature changes by twice the
    largest number along each axis. A term has a difference and a product for each axis, and the look-up's product is
    one of those; the sum of the terms has one rounding less than terms, each of the largest sum at most.
    """
    roundings = 2 * numbers * cells + 2 * numbers + (1 << numbers)
    return unit / 2 * largest * roundings
