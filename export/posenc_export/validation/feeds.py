"""What a graph is fed in a case."""

from __future__ import annotations

import numpy as np

from posenc.ports import Array, Port
from posenc_export.arrays import FLOATS, numpy_dtype
from posenc_export.bundle.case import Case
from posenc_export.bundle.sampling import long_axis, sampled_rows, spread


def feeds_for(ports: tuple[Port, ...], case: Case, seed: int) -> dict[str, Array]:
    """Make the inputs of a case: normal floats, positions from `first` on, other integers at random."""
    rng = np.random.default_rng([seed, *case.name.encode()])
    return {port.name: _feed(port, case, rng) for port in ports}


def _feed(port: Port, case: Case, rng: np.random.Generator) -> Array:
    shape, dtype = case.shape(port), numpy_dtype(port.dtype)
    if port.dtype in FLOATS:
        return _floats(port, shape, rng)
    if port.name == "start":
        return np.full(shape, case.first, dtype)
    if port.name == "positions":
        return _positions(shape, case).astype(dtype)
    return rng.integers(0, port.end or 2, shape).astype(dtype)


def _floats(port: Port, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    dtype = numpy_dtype(port.dtype)
    at, axis = sampled_rows(port, shape), long_axis(port, shape)
    if at is None:
        return rng.standard_normal(shape).astype(dtype)
    rows = (*shape[:axis], len(at), *shape[axis + 1 :])
    return spread(rng.standard_normal(rows).astype(dtype), at, shape, axis)


def _positions(shape: tuple[int, ...], case: Case) -> Array:
    """Return positions: sequence b of a batch is padded by b on the left, as in batched generation."""
    if case.positions:
        return np.broadcast_to(np.asarray(case.positions, np.int64), shape).copy()
    rows = int(np.prod(shape[:-1]))
    padding = np.arange(rows).reshape(*shape[:-1], 1) if case.first >= 0 else 0
    positions = case.first + np.arange(shape[-1]) - padding
    return np.broadcast_to(np.maximum(positions, min(case.first, 0)), shape)
