"""What a graph is fed in a case, by what its ports carry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from posenc.memory import check_room
from posenc.ports import Array, Extents, Indices, Mask, Port, Positions, Size, Start, Values
from posenc_export.arrays import FLOATS, numpy_dtype
from posenc_export.bundle.case import Case
from posenc_export.bundle.sampling import long_axis, sampled_rows, spread
from posenc_export.errors import bad_input

MASKED = -1e9
"""What is added to a score that does not count: finite, so that rows without any token stay numbers."""
LOWEST = {"float16": -65504.0}
"""The lowest number of a dtype that does not hold that."""
WHOLE = 5
"""One in so many numbers of a range is a whole one."""
HOLES = 3
"""One in so many places is no token, where there are holes."""
PEAKED = 3.0
"""Deviation of the scores that probabilities are made of: of many keys a few have most, as attention has it."""


def feeds_for(ports: tuple[Port, ...], case: Case, seed: int) -> dict[str, Array]:
    """Make the inputs of a case: numbers at random, within their range, and positions, masks and sizes of the case.

    Raises BadInput where one of them is more than the memory that is free.
    """
    with bad_input():
        for port in ports:
            check_room(f"input {port.name}", port.shape(case.sizes_of(port)), port.dtype)
    rng = np.random.default_rng([seed, *case.name.encode()])
    return {port.name: np.asarray(FEEDS[type(port.carries)](port, _own(case, port), rng)) for port in ports}


def _own(case: Case, port: Port) -> Case:
    """Return a case as one port sees it: where sizes are unlike, nothing else is to be refused."""
    return replace(case, sizes=case.sizes_of(port), refused=False) if case.unlike else case


def _values(port: Port, case: Case, rng: np.random.Generator) -> Array:
    """Return normal numbers, or even ones over the range that is declared; integers without one are 0 and 1."""
    shape, dtype = port.shape(case.sizes), numpy_dtype(port.dtype)
    if port.dtype not in FLOATS:
        return np.asarray(_integers(port, shape, case, rng)).astype(dtype)
    at, axis = sampled_rows(port, shape), long_axis(port, shape)
    rows = shape if at is None else (*shape[:axis], len(at), *shape[axis + 1 :])
    numbers = _numbers(port, rows, case, rng).astype(dtype)
    return numbers if at is None else spread(numbers, at, shape, axis)


def _integers(port: Port, shape: tuple[int, ...], case: Case, rng: np.random.Generator) -> Array:
    """Return integers of a range, both ends among them; 0 and 1 where none is declared."""
    assert isinstance(port.carries, Values)
    low, high = port.carries.low, port.carries.high
    if low is None or high is None:
        return rng.integers(0, 2, shape)
    integers = rng.integers(int(low), int(high), shape, endpoint=True)
    if not port.dynamic and integers.size == 1:  # never more than one number: by turns an end
        return np.full(shape, (int(integers.item()), int(low), int(high))[case.draw % 3])
    if integers.size > 1:
        integers.flat[0], integers.flat[-1] = int(low), int(high)
    return integers


def _numbers(port: Port, shape: tuple[int, ...], case: Case, rng: np.random.Generator) -> Array:
    assert isinstance(port.carries, Values)
    low, high = port.carries.low, port.carries.high
    if case.probe_values:
        return np.broadcast_to(case.probe_values, shape)
    if port.carries.probabilities:
        parts: Array = np.exp(PEAKED * rng.standard_normal(shape))
        return np.asarray(parts / parts.sum(-1, keepdims=True))
    if low is None or high is None:
        return np.asarray(rng.standard_normal(shape))
    if case.refused and port.carries.strict:
        return np.full(shape, float(case.first))
    if not port.dynamic and np.prod(shape) == 1:  # never more than one number: by turns an end
        return np.full(shape, (rng.uniform(low, high), low, high)[case.draw % 3])
    numbers = np.asarray(rng.uniform(low, high, shape))
    if numbers.size > 1:  # both ends are tried, and whole numbers among others, where digits change
        numbers.flat[::WHOLE] = np.clip(np.rint(numbers.flat[::WHOLE]), low, high)
        numbers.flat[0], numbers.flat[-1] = low, high
    return numbers


def _start(port: Port, case: Case, rng: np.random.Generator) -> Array:
    return np.full(port.shape(case.sizes), case.first, numpy_dtype(port.dtype))


def _positions(port: Port, case: Case, rng: np.random.Generator) -> Array:
    """Return positions: sequence b of a batch is padded by b on the left, as in batched generation."""
    shape, dtype = port.shape(case.sizes), numpy_dtype(port.dtype)
    if case.probe_positions:
        return np.broadcast_to(np.asarray(case.probe_positions, dtype), shape).copy()
    rows = int(np.prod(shape[:-1]))
    padding = np.arange(rows).reshape(*shape[:-1], 1) if case.first >= 0 else 0
    tokens = case.first + np.arange(shape[-1])
    positions = np.broadcast_to(np.maximum(tokens - padding, min(case.first, 0)), shape).astype(dtype)
    assert isinstance(port.carries, Positions)
    return _below_ends(positions, tokens, case, port.carries.ends) if port.carries.ends else positions


def _below_ends(positions: Array, tokens: Array, case: Case, ends: tuple[int, ...]) -> Array:
    """Return positions of which each of a token's is below its own end, but for those that a case must see refused."""
    end = np.asarray(ends).reshape(-1, *[1] * (positions.ndim - 1))
    beyond = case.refused & (end == case.first + 1)
    return np.where(beyond, tokens, np.minimum(positions, end - 1)).astype(positions.dtype)


def _mask(port: Port, case: Case, rng: np.random.Generator) -> Array:
    """Return which tokens are no padding: sequence b of a batch has b of them less than the first, one at least.

    Of a grid it is a rectangle that is left, in the corner that lies opposite to the padding.
    """
    assert isinstance(port.carries, Mask)
    shape = port.shape(case.sizes)
    if port.carries.causal:
        return np.where(_seen(shape, case), 0.0, -np.inf).astype(numpy_dtype(port.dtype))
    grid = [i for i in port.lengths if port.axes[i].kind == "grid"]
    along = grid if len(grid) > 1 else [len(shape) - 1]
    tokens = _counting(shape, along, case)
    if port.carries.additive:
        dtype = numpy_dtype(port.dtype)
        return np.where(tokens, 0.0, max(MASKED, LOWEST.get(port.dtype, MASKED))).astype(dtype)
    return tokens.astype(numpy_dtype(port.dtype))


def _counting(shape: tuple[int, ...], along: list[int], case: Case) -> Array:
    """Return which places are no padding, along some axes: probed ones lie at the end of each column."""
    if case.probe_masks:
        rows = np.arange(shape[along[0]])[:, None]
        return np.broadcast_to(rows >= len(rows) - np.asarray(case.probe_masks), shape)
    if case.padding == "holes":
        tokens: Array = np.indices(shape).sum(0) % HOLES != 1
        tokens.reshape(*shape[: along[0]], -1)[..., -1] = True  # one at least
        return tokens
    return np.asarray(np.all([_unpadded(shape, axis, along, case) for axis in along], axis=0))


def _unpadded(shape: tuple[int, ...], axis: int, along: list[int], case: Case) -> Array:
    """Return which places of one axis are no padding, everywhere: what comes before the axes in `along` is a batch."""
    batch, size = shape[: along[0]], shape[axis]
    number = np.arange(int(np.prod(batch))).reshape(*batch, *(1 for _ in shape[along[0] :]))
    padding = np.minimum(0 * number if case.padding == "none" else number, size - 1)
    places = np.arange(size).reshape(*(-1 if i == axis else 1 for i in range(len(shape))))
    return np.broadcast_to(places >= padding if case.padding == "left" else places < size - padding, shape)


def _seen(shape: tuple[int, ...], case: Case) -> Array:
    """Return which keys each query sees: all but padding at the left, or none later than itself, padded at the right.

    One at least is seen. Sequence b of a batch is padded by b + 1.
    """
    *batch, queries, keys = shape
    padding = np.minimum(1 + np.arange(int(np.prod(batch))), keys - 1).reshape(*batch, 1, 1)
    places, own = np.arange(keys), np.arange(queries)[:, None] + max(0, keys - queries)
    if case.padding == "left":
        return np.broadcast_to(places >= padding, shape)
    earlier = np.broadcast_to(places <= own, shape)
    return earlier if case.padding == "none" else earlier & (places < keys - padding)


def _indices(port: Port, case: Case, rng: np.random.Generator) -> Array:
    assert isinstance(port.carries, Indices)
    return np.asarray(rng.integers(0, port.carries.end or 2, port.shape(case.sizes))).astype(numpy_dtype(port.dtype))


def _size(port: Port, case: Case, rng: np.random.Generator) -> Array:
    assert isinstance(port.carries, Size)
    return np.full(port.shape(case.sizes), case.sizes[port.carries.of], numpy_dtype(port.dtype))


def _extents(port: Port, case: Case, rng: np.random.Generator) -> Array:
    """Return sizes of images at random, the first of which has as many places as there are tokens; or those refused."""
    assert isinstance(port.carries, Extents)
    sizes = np.full(port.shape(case.sizes), case.first, numpy_dtype(port.dtype))
    if case.refused:
        return sizes
    left = np.full(sizes.shape[:-1], case.sizes[port.carries.of])
    for axis in range(sizes.shape[-1]):
        sizes[..., axis] = left ** rng.uniform(size=left.shape)  # at least 1
        if axis == sizes.shape[-1] - 1:
            sizes[:1, ..., axis] = left[:1]
        left //= sizes[..., axis]
    return sizes


FEEDS: Mapping[type[object], Callable[[Port, Case, np.random.Generator], Array]] = {
    Values: _values,
    Start: _start,
    Positions: _positions,
    Mask: _mask,
    Indices: _indices,
    Size: _size,
    Extents: _extents,
}
