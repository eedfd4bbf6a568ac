"""At which sizes and positions a graph is tried, and what it is fed there; all from the ports alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from posenc.scheme import Encoding, Port
from posenc_export.arrays import FLOATS, Array, numpy_dtype

LARGE = 2**17
"""Above this many elements an array is kept on some rows only; the others of an input are zeros."""
LONGEST_END = 2**14
"""Lengths of calls that an encoding wants tried are, where they take as many tokens."""
FEWEST_ROWS, RUNS = 64, 8
"""Rows are kept in runs from the first row to the last: spread singly, each would bring a page of zeros into memory."""
SIZES: Mapping[str, tuple[int, ...]] = {"batch": (1, 3), "dim": (6, 7, 16, 33), "head": (2, 4), "head_kv": (1, 2)}
"""Sizes of the axes that are no lengths, by turns; every other axis is one, and takes all lengths up to the longest."""
WISHES = {"batch": 3, "dim": 10, "head": 5, "head_kv": 2}
"""Sizes to trace with, if free; 11 for lengths."""


@dataclass(frozen=True)
class Case:
    """One trial: sizes of the dynamic axes, the first position, and whether the graph must refuse it.

    told: every position, where they do not follow one another; golden data keep them, the manifest does not.
    """

    name: str
    sizes: Mapping[str, int]
    first: int = 0
    refused: bool = False
    told: tuple[int, ...] = ()

    def shape(self, port: Port) -> tuple[int, ...]:
        """The shape of a port in this case."""
        return tuple(self.sizes[a] if isinstance(a, str) else a for a in port.axes)

    @property
    def last(self) -> int:
        """The largest position in this case, as far as ports tell it."""
        if self.told:
            return max(self.told)
        return max(0, self.first) + max([n for axis, n in self.sizes.items() if is_length(axis)], default=1) - 1

    def to_json(self) -> dict[str, Any]:
        """Return what the manifest keeps."""
        return {key: value for key, value in asdict(self).items() if key != "told"}


def is_length(axis: str) -> bool:
    """Return whether positions run along an axis."""
    return axis not in SIZES


def axes_of(ports: tuple[Port, ...]) -> list[str]:
    """Return the dynamic axes of ports, each once, in order."""
    return list(dict.fromkeys(axis for port in ports for axis in port.dynamic.values()))


def trace_sizes(encoding: Encoding, taken: set[int], longest: int) -> dict[str, int]:
    """Choose sizes to trace with: at least 2, pairwise distinct, unlike any fixed size; `longest` bounds a length."""
    taken = taken | {a for port in encoding.inputs for a in port.axes if isinstance(a, int)}
    sizes: dict[str, int] = {}
    for axis in axes_of(encoding.inputs):
        wish = WISHES.get(axis, 11)
        free = [n for n in [*range(wish, wish + 64), *range(2, wish)] if n not in taken and n not in sizes.values()]
        fits = [n for n in free if n <= longest] if is_length(axis) else free
        sizes[axis] = fits[0] if fits else min(wish, max(longest, 1))
    return sizes


def plan(encoding: Encoding, trace: Mapping[str, int], longest: int) -> list[Case]:
    """Return the cases: lengths around the traced one and up to `longest`, offsets, then what must be refused."""
    if not encoding.inputs:
        return [Case("whole", {})]
    names = {port.name for port in encoding.inputs}
    lengths = [axis for axis in trace if is_length(axis)]
    told = bool(names & {"start", "positions"})
    ends = [n for n in encoding.ends if encoding.limit is None or n <= encoding.limit]
    wanted = _lengths(trace, lengths, longest, () if told else tuple(ends))
    cases = [_case(i, n, 0, trace) for i, n in enumerate(wanted)]
    if told:
        starts = {(5, n - 5) for n in ends if n > 5} | set(_offsets(encoding, longest))
        cases += [_case(i, n, first, trace) for i, (n, first) in enumerate(sorted(starts))]
    if encoding.scattered and "positions" in names:
        case = _case(0, len(encoding.scattered), 0, trace)
        cases.append(replace(case, name=f"{case.name}-scattered", told=encoding.scattered))
    return cases + _refused(encoding, names, trace)


def _case(turn: int, length: int, first: int, trace: Mapping[str, int], *, refused: bool = False) -> Case:
    sizes = dict.fromkeys(trace, length)
    for axis in sizes.keys() & SIZES.keys():
        sizes[axis] = SIZES[axis][0 if length > 4096 else turn % len(SIZES[axis])]
    if sizes.keys() >= {"height", "width"}:  # a grid: long one way at a time
        sizes[("width", "height")[turn % 2]] = min(1 + turn % 7, length)
    tag = "-".join(f"{axis}{n}" for axis, n in sizes.items())
    return Case(tag + (f"-at{first}" if first else "") + ("-refused" if refused else ""), sizes, first, refused)


def _lengths(trace: Mapping[str, int], axes: list[str], longest: int, ends: tuple[int, ...]) -> list[int]:
    if not axes:
        return [1, 2]
    traced = trace[axes[0]]
    wanted = {1, 2, traced - 1, traced, traced + 1, 2 * traced + 3, longest}
    return sorted({n for n in wanted if 1 <= n <= longest} | {n for n in ends if 1 <= n <= LONGEST_END})


def _offsets(encoding: Encoding, longest: int) -> list[tuple[int, int]]:
    """Return (length, first position): 1, around block edges, up to `longest`, and just below a hard limit."""
    end = encoding.limit or longest
    starts = [1, 255, 256, 257, 65535, 65536, longest - 5, end - 5]
    return [(5, first) for first in sorted(set(starts)) if 0 < first <= end - 5]


def _refused(encoding: Encoding, names: set[str], trace: Mapping[str, int]) -> list[Case]:
    limit = encoding.limit
    if limit is None:
        return []
    if names & {"start", "positions"}:
        return [_case(0, 2, limit - 1, trace, refused=True), _case(0, 2, -1, trace, refused=True)]
    turns = (0, 1) if {"height", "width"} <= trace.keys() else (0,)
    return [_case(turn, limit + 1, 0, trace, refused=True) for turn in turns] if limit <= 2**20 else []


def feeds_for(ports: tuple[Port, ...], case: Case, seed: int) -> dict[str, Array]:
    """Make the inputs of a case: normal floats, positions from `first` on, other integers at random."""
    rng = np.random.default_rng([seed, *case.name.encode()])
    return {port.name: _feed(port, case, rng) for port in ports}


def _feed(port: Port, case: Case, rng: np.random.Generator) -> Array:
    shape, dtype = case.shape(port), numpy_dtype(port.dtype)
    if port.dtype in FLOATS:
        at, axis = sampled(port, shape), long_axis(port, shape)
        if at is None:
            return rng.standard_normal(shape).astype(dtype)
        kept = (*shape[:axis], len(at), *shape[axis + 1 :])
        return spread(rng.standard_normal(kept).astype(dtype), at, shape, axis)
    if port.name == "start":
        return np.full(shape, case.first, dtype)
    if port.name == "positions":
        # Sequence b of a batch is padded by b on the left, as in batched generation; the first sequence never is.
        if case.told:
            return np.broadcast_to(np.asarray(case.told, dtype), shape).copy()
        rows = int(np.prod(shape[:-1]))
        padding = np.arange(rows).reshape(*shape[:-1], 1) if case.first >= 0 else 0
        told = case.first + np.arange(shape[-1]) - padding
        return np.broadcast_to(np.maximum(told, min(case.first, 0)), shape).astype(dtype)
    return rng.integers(0, port.below or 2, shape).astype(dtype)


def long_axis(port: Port, shape: tuple[int, ...]) -> int:
    """Return the axis of a port along which large arrays are kept in part: its longest length, or just its longest."""
    lengths = [i for i, axis in port.dynamic.items() if is_length(axis)]
    return max(lengths or range(len(shape)), key=lambda i: shape[i], default=0)


def sampled(port: Port, shape: tuple[int, ...]) -> Array | None:
    """Return the indices along the long axis at which a large array is kept, or None to keep it whole."""
    elements = int(np.prod(shape))
    if elements <= LARGE:
        return None
    length = shape[long_axis(port, shape)]
    run = min(max(FEWEST_ROWS, LARGE // (elements // length)) // RUNS, length // RUNS)
    if not run:
        return None
    starts = np.linspace(0, length - run, RUNS).astype(np.int64)
    return np.unique(starts[:, None] + np.arange(run))


def sample(array: Array, at: Array | None, axis: int) -> Array:
    """Return the rows of an array at indices along an axis."""
    return array if at is None else np.take(array, at, axis=axis)


def spread(rows: Array, at: Array, shape: tuple[int, ...], axis: int) -> Array:
    """Undo sample: put the rows back among zeros. The zeros are never touched, and so cost no memory."""
    array = np.zeros(shape, rows.dtype)
    array[(slice(None),) * axis + (at,)] = rows
    return array


@dataclass(frozen=True)
class Recorded:
    """A case with what was recorded for it: inputs, eager outputs, float64 truth, and where those were sampled."""

    case: Case
    feeds: Mapping[str, Array]
    eager: Mapping[str, Array] = field(default_factory=dict)
    truth: Mapping[str, Array] = field(default_factory=dict)
    rows: Mapping[str, Array] = field(default_factory=dict)
