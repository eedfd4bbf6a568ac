"""Grids: the steps, rows and columns of pictures whose patches lie one behind the other along a dynamic axis."""

import numpy as np

from posenc.ports import Array, Grids, Port
from posenc_export.bundle.carries import PlannedCall, PortKind, Random, Shape, Word

FAULTS, ROOM = 3, 16
"""How grids may not fill their patches, and how many of these such a call has, in squares of the multiple."""


def _feed(carries: Grids, port: Port, shape: Shape, call: PlannedCall, rng: Random) -> Array:
    """Return grids at random that fill the patches; or such as must be refused. Pictures without a patch come last."""
    multiple, pictures = carries.multiple, shape[0]
    blocks = call.sizes[carries.of] // multiple**2
    # as many pictures as there are blocks, of at least one each
    cuts = np.sort(rng.permutation(np.arange(1, blocks))[: max(0, min(pictures, blocks) - 1)])
    counts = np.diff([0, *cuts, blocks])
    grids = np.zeros(shape, np.int64)
    for number, count in enumerate(counts):
        steps = int(rng.choice([1, 1, _divisor(int(count), rng)]))
        rows = _divisor(int(count) // steps, rng)
        grids[number] = (steps, rows * multiple, int(count) // steps // rows * multiple)
    if call.refused:
        grids[0, 1] += (multiple, -multiple, 2**40)[call.first % FAULTS]
    return grids


def _divisor(number: int, rng: Random) -> int:
    return int(rng.choice([n for n in range(1, number + 1) if number % n == 0]))


def _misshapen(carries: Grids, sizes: list[int | None]) -> str:
    return "" if len(sizes) == 2 and sizes[1] == 3 else "[pictures, 3], the steps, rows and columns of each picture"


KIND = PortKind(
    Grids,
    {"of": "Name", "multiple": "Natural"},
    feed=_feed,
    refused=lambda grids: [(fault, ROOM * grids.multiple**2) for fault in range(FAULTS)],
    looked_up=True,
    words=(Word("grids", Grids, ("int64",), "axis and multiple", then="of", refusal="no grids: only of int64"),),
    misshapen=_misshapen,
)
