"""The multi-resolution hash grid of Instant-NGP (arXiv:2201.05989, section 3), as radiance fields have it.

    N_l = floor(N_min b^l)                                    cells along each side at level l
    row = sum_i c_i (N_l + 1)^i                               of corner c, where all (N_l + 1)^d corners fit T rows
    row = (xor_i c_i pi_i mod 2^32) mod T                     else; pi = 1, 2654435761, 805459861
    y_l = sum over the 2^d corners of weight * table_l[row]   d-linear; the output is y_0, y_1, ..., y_(L-1)

The corners of a cell are floor(N_l x) and ceil(N_l x), as in the paper and in nerfstudio's code for torch, which hashes
coarse levels as well (dense=False). tiny-cuda-nn differs: it scales by N_min b^l - 1, adds 0.5, has ceil(N_min b^l)
corners along a side, and rounds the rows of a level up to a multiple of 8. Its weights do not fit this scheme.

Integers are int32 where products with primes modulo T fit, as with 2^11 cells and T = 2^19: tract has no xor of int64.
Larger grids take int64. MNN's converter has no bitwise operator at all.
"""

from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from posenc.call import Call
from posenc.encoding import SAME_BITS, Encoding, Tolerance, eps, no_tables
from posenc.maker import Claims, Join, encoding
from posenc.ports import BATCH, SEQ, Array, Floats, Port, Values, fixed
from posenc.scheme import Unsupported, scheme
from posenc.spec import Spec
from posenc.weights import Weights
from posenc.where import Where

PRIMES = (1, 2654435761, 805459861)
MAX_CELLS = 2**20
"""Cells along a side, at most: a product with a prime fits an int64, and float32 has digits left for a fraction."""
MAX_LEVELS = 64
MAX_LOG2_SIZE = 31
"""Logarithm of the rows of a table, at most: the mask that takes a hash modulo the rows is an int32."""
HALF_UNSAFE = "a float holds a coordinate times a resolution, of which half precision keeps 11 binary digits"
NUMBERS = "coordinates are an input, numbers of each token; use --positions explicit"


@dataclass(frozen=True)
class Grids:
    """The parameters that say how large grids and tables are, as they are given."""

    in_features: int
    levels: int
    log2_size: int
    min_resolution: int
    growth: float
    dense: bool


@dataclass(frozen=True)
class Level:
    """A level: its cells along each side, the rows of its table, and whether its corners are hashed."""

    cells: int
    rows: int
    is_hashed: bool


def levels_of(grids: Grids) -> list[Level]:
    """Return the sizes of all levels."""
    levels, size = [], 2**grids.log2_size
    for i in range(grids.levels):
        # A product 1e-9 below a whole number was meant to be that number: 16 * cbrt(2)^3 is 31.999999999999996.
        cells = int(grids.min_resolution * grids.growth**i * (1 + 1e-9))
        corners = (cells + 1) ** grids.in_features
        is_hashed = corners > size or not grids.dense
        levels.append(Level(cells, size if is_hashed else corners, is_hashed))
    return levels


class HashGrid(nn.Module):
    """A source of features of coordinates: the rows of the corners around each, interpolated, all levels at once."""

    cells: Tensor  # (levels, 1)
    strides: Tensor  # (levels, numbers): rows from a corner to the next along each side, 0 where hashed
    primes: Tensor  # (numbers,)
    is_hashed: Tensor  # (levels,)
    first: Tensor  # (levels,): the first row of each level
    numbers: Final[int]
    corners: Final[int]  # of a cell
    mask: Final[int]  # takes a hash modulo the rows of a table

    def __init__(self, table: Tensor, grids: Grids, dtype: torch.dtype) -> None:
        super().__init__()
        numbers, levels = grids.in_features, levels_of(grids)
        self.numbers, self.corners, self.mask, self.dtype = numbers, 2**numbers, 2**grids.log2_size - 1, dtype
        self.table = nn.Parameter(table)
        # T is a power of two: modulo T, a product with a prime is that with the prime modulo T.
        primes = torch.tensor([prime % 2**grids.log2_size for prime in PRIMES[:numbers]])
        fits = max(int(primes.max()) * levels[-1].cells, len(table)) < 2**31
        self.integers = torch.int32 if fits else torch.int64
        strides = [[(level.cells + 1) ** i * (not level.is_hashed) for i in range(numbers)] for level in levels]
        ends = np.cumsum([level.rows for level in levels])
        cells = torch.tensor([[level.cells] for level in levels], dtype=table.dtype)
        self.register_buffer("cells", cells, persistent=False)
        self.register_buffer("strides", torch.tensor(strides, dtype=self.integers), persistent=False)
        self.register_buffer("primes", primes.to(self.integers), persistent=False)
        self.register_buffer("is_hashed", torch.tensor([level.is_hashed for level in levels]), persistent=False)
        self.register_buffer("first", torch.tensor([0, *ends[:-1]], dtype=self.integers), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the features: (batch, seq, numbers) -> (batch, seq, levels * features)."""
        inside = (x >= 0) & (x <= 1)  # NaN is outside
        # (batch, seq, 1, numbers) * (levels, 1) -> (batch, seq, levels, numbers)
        scaled = x.masked_fill(~inside, 0.0).unsqueeze(2) * self.cells
        low = scaled.floor()
        shares = [1 - (scaled - low), scaled - low]
        corners = [low.to(self.integers), scaled.ceil().to(self.integers)]
        rows = [corners[0] * self.strides, corners[1] * self.strides]
        mixed = [corners[0] * self.primes, corners[1] * self.primes]
        # A coordinate outside 0..1 gets a row that does not exist, which the look-up refuses: (batch, seq, levels)
        first = self.first.masked_fill(~inside.all(2, keepdim=True), self.table.shape[0])
        features: list[Tensor] = []
        for corner in range(self.corners):
            # Bit i of a corner's number says on which side of the cell it lies along axis i.
            weight, row, code = shares[corner & 1][..., 0], rows[corner & 1][..., 0], mixed[corner & 1][..., 0]
            for i in range(1, self.numbers):
                side = corner >> i & 1
                weight, row, code = weight * shares[side][..., i], row + rows[side][..., i], code ^ mixed[side][..., i]
            row = first + torch.where(self.is_hashed, code & self.mask, row)
            features.append(weight.unsqueeze(3) * looked_up(self.table, row, x))
        # A sum of terms, one after the other, has the same bits on every runtime.
        total = features[0]
        for feature in features[1:]:
            total = total + feature
        # (batch, seq, levels, features) -> (batch, seq, levels * features)
        return total.flatten(2).to(self.dtype)


def looked_up(table: Tensor, row: Tensor, x: Tensor) -> Tensor:
    """Return `table[row]`: (rows, features), (batch, seq, levels) -> (batch, seq, levels, features)."""
    if torch.jit.is_scripting():  # type: ignore[attr-defined]
        return nn.functional.embedding(row, table)
    return _of_coordinates(table, row, x)


def _of_coordinates(table: Tensor, row: Tensor, x: Tensor) -> Tensor:
    try:
        return nn.functional.embedding(row, table)
    except IndexError:
        raise IndexError(f"coordinates must be in 0..1, got {x.min()} to {x.max()}") from None


@scheme(
    "hash_grid",
    paper="arXiv:2201.05989, section 3",
    formula="y_l = sum of weight * table_l[row(c)] over the corners c of a cell, row(c) = (xor_i c_i pi_i) mod T",
    models=("Instant-NGP", "nerfstudio"),
    samples=(
        {"in_features": 2, "levels": 3, "log2_size": 6, "min_resolution": 4},
        {"levels": 4, "features": 1, "log2_size": 7, "min_resolution": 3, "growth": 1.5},
        {"levels": 2, "log2_size": 5, "min_resolution": 2, "dense": False},
    ),
    positions="explicit",
    unsupported=Unsupported(
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
    std: float = 1e-4,
) -> Encoding:
    """Trained features of the corners of finer and finer grids, interpolated at coordinates in 0..1 (Instant-NGP).

    in_features: coordinates of a point, 1 to 3.
    levels: grids, L in the paper.
    features: of each level, F in the paper [default: those of the weights, or 2].
    log2_size: the tables of levels have 2^log2_size rows at most, T in the paper (log2_hashmap_size).
    min_resolution: cells along a side of the first grid, N_min in the paper (base_resolution, min_res).
    growth: cells along a side of a grid, divided by those of the grid before; b in the paper, which takes
        (N_max / N_min)^(1 / (levels - 1)).
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
    )
    x = Port("x", (BATCH, SEQ, fixed(in_features)), spec.angle_dtype, Values(0.0, 1.0, strict=True))
    y = Port("y", (BATCH, SEQ, fixed(levels * table.shape[1])), spec.torch_dtype)
    module = HashGrid(table, grids, getattr(torch, spec.torch_dtype))
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


def reference(call: Call, *, table: Floats, grids: Grids) -> tuple[Array]:
    """Return the features in float64, level by level and corner by corner, by the hash of uint32 as in the paper."""
    x = call.values[0][:, call.picked].astype(np.float64)
    primes = np.array([0x1, 0x9E3779B1, 0x30025795], np.uint32)[: x.shape[-1]]
    outputs, size = [], 1 << grids.log2_size
    for level in range(grids.levels):
        exact = grids.min_resolution * np.power(float(grids.growth), level)
        n = int(np.floor(exact + 1e-9 * exact))
        sides = [n + 1] * len(primes)
        fits = grids.dense and np.prod(sides, dtype=float) <= size
        place = n * x
        feature = np.zeros((*x.shape[:2], table.shape[1]))
        for corner in np.ndindex(*[2] * len(primes)):
            vertex = np.where(corner, np.ceil(place), np.floor(place)).astype(np.int64)
            weight = np.where(corner, place % 1, 1 - place % 1).prod(-1, keepdims=True)
            if fits:
                row = np.ravel_multi_index(tuple(np.moveaxis(vertex, -1, 0)), sides, order="F")
            else:
                row = np.bitwise_xor.reduce(vertex.astype(np.uint32) * primes, -1) % size  # products wrap at 2^32
            feature += weight * table[row]
        table = table[np.prod(sides) if fits else size :]
        outputs.append(feature)
    return (np.concatenate(outputs, -1),)
