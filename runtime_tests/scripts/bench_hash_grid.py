"""What a hash grid without bitwise operators would cost in ONNX Runtime on the CPU: a script.

    python runtime_tests/scripts/bench_hash_grid.py          # prints the ratios that docs/reference/runtimes.md names

ONNX Runtime has no kernel for BitwiseXor and BitwiseAnd on CUDA. The same rows come of sums and look-ups: the product
of a corner and a prime is stored with its bits apart (bit j at 4^j), so that a sum of three has a digit of 0 to 3 for
each bit, and a table says which digits are odd, 8 at a time. Both are exported and run by turns, on one thread: a
ratio is the median of the ratios of rounds. Bits are compared first.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from posenc.formulas.hash_grid import Grids
from posenc.sources.features.hash_grid import PRIMES, HashGrid, levels_of
from posenc_export.common.machine import processor, versions

GRIDS = Grids(in_features=3, levels=16, log2_size=19, min_resolution=16, growth=1.38, dense=True)
BYTE, POINTS, ROUNDS = 8, (1024, 16384), 15


class Digits(HashGrid):
    """The same features, with a hash of sums and look-ups."""

    spread: Tensor  # (numbers, bytes, corners of all levels): a byte of a product, its bits apart
    odd: Tensor  # (bytes, 4^8): which digits of a sum are odd, where they belong in the hash
    above: Tensor  # (levels, 1): corners of the levels before

    def __init__(self, table: Tensor, grids: Grids, dtype: torch.dtype) -> None:
        super().__init__(table, grids, dtype)
        self.bytes = -(-grids.log2_size // BYTE)
        sides = [level.cells + 1 for level in levels_of(grids)]
        corners = np.concatenate([np.arange(side) for side in sides])
        products = [corners * prime % 2**grids.log2_size for prime in PRIMES[: grids.in_features]]
        spread = [[apart(product >> BYTE * byte & 255) for byte in range(self.bytes)] for product in products]
        sums = np.arange(4**BYTE)
        odd = sum((sums >> 2 * bit & 1) << bit for bit in range(BYTE))
        self.register_buffer("spread", torch.tensor(np.array(spread), dtype=self.integers))
        shifted = np.array([odd << BYTE * byte for byte in range(self.bytes)])
        self.register_buffer("odd", torch.tensor(shifted, dtype=self.integers))
        above = np.cumsum([0, *sides[:-1]])[:, None]
        self.register_buffer("above", torch.tensor(above, dtype=self.integers))

    def forward(self, x: Tensor) -> Tensor:
        """Return the features: (batch, seq, numbers) -> (batch, seq, levels * features)."""
        inside = (x >= 0) & (x <= 1)
        scaled = x.masked_fill(~inside, 0.0).unsqueeze(2) * self.cells
        low = scaled.floor()
        shares = [1 - (scaled - low), scaled - low]
        corners = [low.to(self.integers), scaled.ceil().to(self.integers)]
        rows = [corner * self.strides for corner in corners]
        codes = [
            [
                [taken(self.spread[i, byte], (corner + self.above)[..., i]) for i in range(self.numbers)]
                for corner in corners
            ]
            for byte in range(self.bytes)
        ]
        first = self.first.masked_fill(~inside.all(2, keepdim=True), self.table.shape[0])
        features: list[Tensor] = []
        for corner in range(self.corners):
            sides = [corner >> i & 1 for i in range(self.numbers)]
            weight, row = shares[sides[0]][..., 0], rows[sides[0]][..., 0]
            for i in range(1, self.numbers):
                weight, row = weight * shares[sides[i]][..., i], row + rows[sides[i]][..., i]
            hashed = [
                taken(self.odd[byte], total([codes[byte][side][i] for i, side in enumerate(sides)]))
                for byte in range(self.bytes)
            ]
            row = first + torch.where(self.is_hashed, total(hashed), row)
            features.append(weight.unsqueeze(3) * nn.functional.embedding(row, self.table))
        return total(features).flatten(2).to(self.dtype)


def apart(byte: Any) -> Any:
    """Return bytes with their bits apart: bit j at 4^j."""
    return sum((byte >> bit & 1) << 2 * bit for bit in range(BYTE))


def taken(table: Tensor, index: Tensor) -> Tensor:
    """Return `table[index]`, by the look-up that takes int32."""
    return nn.functional.embedding(index, table.unsqueeze(1)).squeeze(-1)


def total(terms: list[Tensor]) -> Tensor:
    """Return the sum of terms, one after the other."""
    made = terms[0]
    for term in terms[1:]:
        made = made + term
    return made


def session(module: nn.Module, path: Path) -> Any:
    """Export a module, and load it on one thread."""
    import onnxruntime

    free = torch.export.Dim.DYNAMIC
    shapes = ({0: free, 1: free},)
    args = (torch.rand(2, 7, GRIDS.in_features),)
    torch.onnx.export(
        module.eval(), args, str(path), dynamo=True, dynamic_shapes=shapes, input_names=["x"], verbose=False
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def seconds(runs: Any, x: Any) -> float:
    """Return how long a call takes."""
    start = time.perf_counter()
    runs.run(None, {"x": x})
    return time.perf_counter() - start


def measure() -> None:
    """Print a line for each number of points."""
    table = torch.rand(sum(level.rows for level in levels_of(GRIDS)), 2)
    print(processor(), versions())
    with tempfile.TemporaryDirectory() as folder:
        ours, other = (
            session(kind(table, GRIDS, torch.float32), Path(folder, f"{kind.__name__}.onnx"))
            for kind in (HashGrid, Digits)
        )
        for points in POINTS:
            x = np.random.default_rng(0).random((1, points, GRIDS.in_features), np.float32)
            same = ours.run(None, {"x": x})[0].tobytes() == other.run(None, {"x": x})[0].tobytes()
            ratios = [seconds(other, x) / seconds(ours, x) for _ in range(ROUNDS)]
            print(f"{points} points: same bits {same}, {statistics.median(ratios):.2f} times as long")


if __name__ == "__main__":
    if len(sys.argv) != 1:
        sys.exit(__doc__)
    measure()
