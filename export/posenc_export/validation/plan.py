"""At which sizes and positions a graph is tried: from an encoding's ports and probes alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from posenc.encoding import Encoding
from posenc.ports import axes_of, is_length
from posenc_export.bundle.case import Case

LONGEST_PROBE = 2**14
"""Lengths of calls that an encoding wants tried are, up to here, where they take as many tokens."""
SIZES: Mapping[str, tuple[int, ...]] = {"batch": (1, 3), "dim": (6, 7, 16, 33), "head": (2, 4), "head_kv": (1, 2)}
"""Sizes of the axes that are no lengths, by turns; every other axis takes all lengths up to max_len."""
WISHES = {"batch": 3, "dim": 10, "head": 5, "head_kv": 2}
"""Sizes to trace with, if free; 11 for lengths."""
MOST_TOKENS = 2**20
"""An end farther out is not tried by a call of so many tokens."""
TOKENS = 5
"""Tokens of a call that begins at a position far out."""


def trace_sizes(encoding: Encoding, taken: set[int], end: int) -> dict[str, int]:
    """Choose sizes to trace with: at least 2, pairwise distinct, unlike any fixed size; lengths are at most `end`."""
    taken = taken | {a for port in encoding.inputs for a in port.axes if isinstance(a, int)}
    sizes: dict[str, int] = {}
    for axis in axes_of(encoding.inputs):
        wish = WISHES.get(axis, 11)
        free = [n for n in [*range(wish, wish + 64), *range(2, wish)] if n not in taken and n not in sizes.values()]
        fits = [n for n in free if n <= end] if is_length(axis) else free
        sizes[axis] = fits[0] if fits else min(wish, max(end, 1))
    return sizes


def plan(encoding: Encoding, trace: Mapping[str, int], max_len: int) -> list[Case]:
    """Return the cases: lengths around the traced one and up to `max_len`, offsets, then what must be refused.

    Each case has the tolerances that the encoding declares for its largest position.
    """
    return [_with_tolerances(encoding, case) for case in _cases(encoding, trace, max_len)]


def _with_tolerances(encoding: Encoding, case: Case) -> Case:
    if case.refused:
        return case
    last = case.max_position
    return replace(case, eager_tolerance=encoding.eager_tolerance(last), tolerance=encoding.tolerance(last))


def _cases(encoding: Encoding, trace: Mapping[str, int], max_len: int) -> list[Case]:
    if not encoding.inputs:
        return [Case("whole", {})]
    names = {port.name for port in encoding.inputs}
    takes_positions = bool(names & {"start", "positions"})
    probes = [n for n in encoding.probes.lengths if encoding.end is None or n <= encoding.end]
    lengths = _lengths(trace, max_len, () if takes_positions else tuple(probes))
    cases = [_case(i, n, 0, trace) for i, n in enumerate(lengths)]
    if takes_positions:
        starts = {(TOKENS, n - TOKENS) for n in probes if n > TOKENS} | _offsets(encoding, max_len)
        cases += [_case(i, n, first, trace) for i, (n, first) in enumerate(sorted(starts))]
    if encoding.probes.positions and "positions" in names:
        positions = encoding.probes.positions
        case = _case(0, len(positions), 0, trace)
        cases.append(replace(case, name=f"{case.name}-probes", positions=positions))
    return cases + _refused(encoding, takes_positions, trace)


def _case(turn: int, length: int, first: int, trace: Mapping[str, int], *, refused: bool = False) -> Case:
    sizes = dict.fromkeys(trace, length)
    for axis in sizes.keys() & SIZES.keys():
        sizes[axis] = SIZES[axis][0 if length > 4096 else turn % len(SIZES[axis])]
    if sizes.keys() >= {"height", "width"}:  # a grid: long one way at a time
        sizes[("width", "height")[turn % 2]] = min(1 + turn % 7, length)
    tag = "-".join(f"{axis}{n}" for axis, n in sizes.items())
    return Case(tag + (f"-at{first}" if first else "") + ("-refused" if refused else ""), sizes, first, refused)


def _lengths(trace: Mapping[str, int], max_len: int, probes: tuple[int, ...]) -> list[int]:
    axes = [axis for axis in trace if is_length(axis)]
    if not axes:
        return [1, 2]
    traced = trace[axes[0]]
    lengths = {1, 2, traced - 1, traced, traced + 1, 2 * traced + 3, max_len}
    return sorted({n for n in lengths if 1 <= n <= max_len} | {n for n in probes if 1 <= n <= LONGEST_PROBE})


def _offsets(encoding: Encoding, max_len: int) -> set[tuple[int, int]]:
    """Return (length, first position): 1, around block edges, up to `max_len`, and just below a hard end."""
    end = encoding.end or max_len
    starts = {1, 255, 256, 257, 65535, 65536, max_len - TOKENS, end - TOKENS}
    return {(TOKENS, first) for first in starts if 0 < first <= end - TOKENS}


def _refused(encoding: Encoding, takes_positions: bool, trace: Mapping[str, int]) -> list[Case]:
    end = encoding.end
    if end is None:
        return []
    if takes_positions:
        return [_case(0, 2, end - 1, trace, refused=True), _case(0, 2, -1, trace, refused=True)]
    ways = (0, 1) if {"height", "width"} <= trace.keys() else (0,)
    return [_case(way, end + 1, 0, trace, refused=True) for way in ways] if end <= MOST_TOKENS else []
