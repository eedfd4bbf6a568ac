"""The inputs of a case, made by the kinds of its ports."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from posenc.memory import check_room
from posenc.ports import Array, Port
from posenc_export.bundle.carries import kind_of
from posenc_export.bundle.case import Case
from posenc_export.bundle.sampling import long_axis, sample, sampled_rows, spread
from posenc_export.common.arrays import FLOATS, numpy_dtype
from posenc_export.common.errors import bad_input
from posenc_export.write.targets.hard_rows import hardened


def feeds_for(ports: tuple[Port, ...], case: Case, seed: int) -> dict[str, Array]:
    """Make the inputs of a case: random numbers in their range, and the positions, masks and sizes of the case.

    Raises BadInput if an input needs more than the free memory.
    """
    with bad_input():
        for port in ports:
            check_room(f"input {port.name}", port.shape(case.sizes_of(port)), port.dtype)
    rng = np.random.default_rng([seed, *case.name.encode()])
    feeds = {port.name: _feed(port, _seen_by(port, case), rng) for port in ports}
    return {port.name: _hard(port, feeds[port.name], case) for port in ports} if case.hard else feeds


def _hard(port: Port, feed: Array, case: Case) -> Array:
    """Return an input with hard rows; of a large one only those that golden data keep, among zeros."""
    hard = hardened(port, feed, case)
    rows = sampled_rows(port, hard.shape) if port.dtype in FLOATS else None
    if rows is None:
        return hard
    axis = long_axis(port, hard.shape)
    return spread(sample(hard, rows, axis), rows, hard.shape, axis)


def _seen_by(port: Port, case: Case) -> Case:
    """Return a case as a port sees it: with its own sizes if they are unlike those of other ports."""
    # Unlike sizes are refused themselves, so that the elements must be right.
    return replace(case, sizes=case.sizes_of(port), refused=False) if case.unlike else case


def _feed(port: Port, case: Case, rng: np.random.Generator) -> Array:
    """Return an input of a case; large arrays of floats have only the rows that golden data keep, among zeros."""
    kind, dtype, shape = kind_of(port.carries), numpy_dtype(port.dtype), port.shape(case.sizes)
    rows, axis = sampled_rows(port, shape), long_axis(port, shape)
    if rows is None or not kind.in_part or port.dtype not in FLOATS:
        return np.asarray(kind.feed(port.carries, port, shape, case, rng)).astype(dtype)
    sampled = (*shape[:axis], len(rows), *shape[axis + 1 :])
    return spread(kind.feed(port.carries, port, sampled, case, rng).astype(dtype), rows, shape, axis)
