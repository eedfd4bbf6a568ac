"""The multi-resolution hash grid of Instant-NGP (arXiv:2201.05989, section 3), as radiance fields have it."""

from dataclasses import dataclass

import numpy as np

from posenc.call import Call
from posenc.ports import Array, Floats


@dataclass(frozen=True)
class Grids:
    """The parameters that say how large grids and tables are, as they are given."""

    in_features: int
    levels: int
    log2_size: int
    min_resolution: int
    growth: float
    dense: bool


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
