"""The plan: at which sizes and positions a graph is tried, from an encoding's ports and probes, within a budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from posenc.encoding import Encoding, Pair
from posenc.ports import Axis
from posenc_export.bundle.carries import kind_of, limits_of
from posenc_export.bundle.case import Case
from posenc_export.bundle.rules import rules_of
from posenc_export.proof.planning.cases import DRAWS, SIZES, TOKENS, case_of
from posenc_export.proof.planning.probes import every_row, holes, unlike
from posenc_export.proof.planning.scope import Scope
from posenc_export.write.formats.calls import RESIDUES
from posenc_export.write.targets.sizes import elements

TOO_LARGE = "too large to make here"
MAX_TOKENS = 2**14
"""Tokens of a call beyond max_len, at most: counted from 0, a position far out takes as many tokens."""
UPPER_BIT, SEVERAL = 2**31, 8
"""A position that kernels may take for a small one (see `posenc.lookup.at_least`), and as many tokens as they take at
once."""
KEYS = 4
"""Keys of a call whose tokens must be refused since they are not among the keys."""
LAST_OF_KEYS: tuple[Pair, ...] = ("1,n", "n,past+n")
"""The ways to meet in which keys come before the first query."""


@dataclass(frozen=True)
class Plan:
    """The cases to try, and what is not tried, each with its reason."""

    cases: tuple[Case, ...]
    not_tried: tuple[str, ...]


def plan(scope: Scope) -> Plan:
    """Return the cases, with the tolerances that the encoding declares for each, and what is not tried.

    They are lengths around the traced one and up to max_len, the ways in which lengths meet, offsets and refusals.
    """
    encoding = scope.encoding
    if not encoding.inputs:
        whole = Case("whole", {}, max_position=scope.max_len - 1)
        return Plan((_with_tolerances(encoding, whole),), ())
    cases: dict[str, Case] = {}
    not_tried: list[str] = []
    for candidate in _candidates(scope):
        case, reason = _fitted(scope, candidate)
        if reason:
            # the reason says the sizes, which are all that the name of a case says
            not_tried.append(
                f"that {reason} is refused ({TOO_LARGE})" if candidate.refused else f"{reason} is {TOO_LARGE}"
            )
            continue
        cases.setdefault(case.name, _with_tolerances(encoding, case))
        if any(case.sizes[axis.name] != candidate.sizes[axis.name] for axis in scope.lengths):
            needs = elements(scope.ports, candidate.sizes)
            not_tried.append(f"{candidate.name}: needs {needs:,} elements; {case.name} is tried in its place")
    return Plan(tuple(cases.values()), tuple(dict.fromkeys(not_tried)))


def _with_tolerances(encoding: Encoding, case: Case) -> Case:
    if case.refused:
        return case
    return replace(case, eager_tolerance=encoding.eager_tolerance(case), tolerance=encoding.tolerance(case))


def _candidates(scope: Scope) -> Iterable[Case]:
    yield from _by_length(scope)
    yield from _empty(scope)
    yield from _also(scope)
    yield from _meetings(scope)
    yield from _offsets(scope)
    yield from holes(scope)
    yield from every_row(scope)
    yield from _refused(scope)
    yield from unlike(scope)


def _by_length(scope: Scope) -> Iterable[Case]:
    """Yield a call of every length: all axes have it, but of a grid one axis at a time, by turns."""
    lengths = _lengths(scope)
    if not scope.lengths:  # the calls differ in other sizes or, where all are fixed, in their numbers
        lengths = [*range(max((len(SIZES[axis.kind]) for axis in scope.axes), default=DRAWS))]
    ways = max(1, sum(axis.kind == "grid" for axis in scope.lengths))
    for turn, (n, _) in enumerate(product(lengths, range(ways))):
        yield case_of(scope, dict.fromkeys((axis.name for axis in scope.lengths), n), turn)


def _empty(scope: Scope) -> Iterable[Case]:
    """Yield calls in which an axis that may be empty is empty, and one in which all of these are."""
    names = [axis.name for axis in scope.axes if axis.least == 0]
    for turn, empty in enumerate([*([name] for name in names), names] if names else []):
        sizes = {**scope.trace, **dict.fromkeys(empty, 0)}
        yield _at(scope, sizes, turn)


def _also(scope: Scope) -> Iterable[Case]:
    """Yield calls at sizes that violate what torch.export assumed."""
    for turn, sizes in enumerate(scope.also):
        yield _at(scope, sizes, turn)


def _at(scope: Scope, sizes: Mapping[str, int], turn: int) -> Case:
    """Return a call at these sizes, whatever their axes allow."""
    case = case_of(scope, {axis.name: sizes[axis.name] for axis in scope.lengths}, turn)
    tag = "-".join(f"{name}{n}" for name, n in sizes.items())
    return replace(case, name=f"{tag}-padded-{case.padding}" if scope.masks else tag, sizes=dict(sizes))


def _lengths(scope: Scope) -> list[int]:
    """Return the lengths to try: around the traced one, up to max_len, and where the encoding's formula changes."""
    if not scope.lengths:
        return []
    traced = scope.trace[scope.lengths[0].name]
    around = {1, 2, traced - 1, traced, traced + 1, 2 * traced + 3, scope.max_length}
    probes = () if scope.position_ports else [n - (scope.offset or 0) for n in scope.encoding.probes.lengths]
    residues = RESIDUES if rules_of(scope.encoding.family).may_branch else ()
    return sorted(
        {n for n in (*around, *residues) if 1 <= n <= scope.max_length} | {n for n in probes if _holds(scope, n)}
    )


def _holds(scope: Scope, length: int) -> bool:
    """Return whether positions 0..length-1, or as many from a mask, are below the encoding's end."""
    end = scope.encoding.end
    return length >= 1 and (end is None or length + (scope.offset or 0) <= end)


def _meetings(scope: Scope) -> Iterable[Case]:
    """Yield calls in which two lengths differ, in the ways in which the encoding says that they meet."""
    for first, second in zip(scope.lengths, scope.lengths[1:], strict=False):
        if first.kind == "grid":
            continue
        traced = scope.trace[first.name]
        for turn, (n, m) in enumerate(product((traced, 2 * traced + 3, scope.max_length), (2, traced + 2))):
            for a, b in (_meet(pair, n, m) for pair in scope.encoding.probes.pairs):
                if max(a, b) <= scope.max_length:
                    yield _meeting(scope, second, (a, b), turn)
        yield from _meetings_at_probes(scope, second)


def _meetings_at_probes(scope: Scope, second: Axis) -> Iterable[Case]:
    """Yield calls around lengths at which the formula changes, whose queries are the last of so many keys, or two more.

    Where positions are an input, `_offsets` does this.
    """
    pairs = [pair for pair in scope.encoding.probes.pairs if pair in LAST_OF_KEYS and not scope.position_ports]
    for turn, n in enumerate(scope.encoding.probes.lengths):
        for a, b in (_meet(pair, n, 2) for pair in pairs):
            if _holds(scope, b):
                yield _meeting(scope, second, (a, b), turn)


def _meeting(scope: Scope, second: Axis, lengths: tuple[int, int], turn: int) -> Case:
    return case_of(
        scope, dict.fromkeys((axis.name for axis in scope.lengths), lengths[0]) | {second.name: lengths[1]}, turn
    )


def _meet(pair: Pair, n: int, m: int) -> tuple[int, int]:
    """Return the two lengths of a way in which they meet."""
    ways = {"1,1": (1, 1), "1,n": (1, n), "n,1": (n, 1), "n,n": (n, n), "n,m": (n, m), "n,past+n": (m, n + m)}
    return ways[pair]


def _offsets(scope: Scope) -> Iterable[Case]:
    """Yield calls that begin at 1, around block edges, at the encoding's probes, just below max_len and below the end.

    Tokens that must be among keys are the last of them.
    """
    if not scope.position_ports:
        return
    end = scope.encoding.end or scope.max_len
    # 256 and 65536 are edges of digits, and of 8 and 16 bits
    tokens = max(1, min(TOKENS, end - 1)) if scope.lengths else scope.fixed_tokens
    probes = {(tokens, n - tokens) for n in scope.encoding.probes.lengths if n > tokens and _holds(scope, n)}
    starts = {1, 255, 256, 257, 65535, 65536, scope.max_len - tokens, end - tokens}
    last = min(end, scope.max_length) if scope.keys else end  # with keys, a far position takes as many of them
    calls = probes | {(tokens, first) for first in starts if 0 < first <= last - tokens}
    for turn, (n, first) in enumerate(sorted(calls)):
        lengths = {axis.name: first + n if axis.name == scope.keys else n for axis in scope.lengths}
        yield case_of(scope, lengths, turn, first=first)


def _refused(scope: Scope) -> Iterable[Case]:
    """Yield calls that must be refused: positions, numbers, tokens of a mask, or sizes of an axis out of range."""
    end = scope.encoding.end
    names = [axis.name for axis in scope.lengths]
    if scope.keys:
        yield from _not_among(scope, scope.keys)
    elif end is not None and scope.position_ports:
        ends = {end, *(own_end for port in scope.position_ports for own_end in limits_of(port).ends)}
        inside = 1 if names or len(ends) > 1 else 0  # of two tokens the first is inside; fixed sizes may have one token
        for first in (*(own_end - inside for own_end in sorted(ends, reverse=True)), -1, -63, -64, -65):
            yield case_of(scope, dict.fromkeys(names, 2), 0, first=first, refused=True)
        if names and all(port.dtype == "int64" and not limits_of(port).ends for port in scope.position_ports):
            yield case_of(scope, dict.fromkeys(names, SEVERAL), 0, first=UPPER_BIT, refused=True)
    if end is not None and scope.offset is not None:
        yield case_of(scope, dict.fromkeys(names, end - scope.offset + 1), 0, refused=True)
    for port in scope.encoding.inputs:
        for first, length in kind_of(port.carries).refused(port.carries):
            yield case_of(scope, dict.fromkeys(names, length), 0, first=first, refused=True)
    for axis in scope.lengths:
        if axis.most is not None:
            yield case_of(scope, {**dict.fromkeys(names, 2), axis.name: axis.most + 1}, 0, refused=True)


def _not_among(scope: Scope, keys: str) -> Iterable[Case]:
    """Yield calls whose first token, or all tokens, lie before the keys, and whose last, or all, lie behind them."""
    lengths = {axis.name: KEYS if axis.name == keys else 2 for axis in scope.lengths}
    lowest = max(int(np.iinfo(port.dtype).min) for port in scope.position_ports)
    for first in (-1, -2, -KEYS, lowest, KEYS - 1, KEYS):
        yield case_of(scope, lengths, 0, first=first, refused=True)


def _fitted(scope: Scope, case: Case) -> tuple[Case, str]:
    """Return a case within the budget, and "" or, in words, the call that is too large.

    Batch, heads and features shrink first, then all lengths but the longest; of two equal ones, the first shrinks.
    """
    largest = max((axis.name for axis in reversed(scope.lengths)), key=lambda name: case.sizes[name], default="")
    # SIZES lists batch, features and heads
    shrinking = [axis for kind in SIZES for axis in scope.axes if axis.kind == kind]
    shrinking += [] if case.refused else [axis for axis in scope.lengths if axis.name != largest]
    sizes = dict(case.sizes)
    for axis in [None, *shrinking]:
        if axis is not None:
            sizes[axis.name] = axis.allowed(1)
        if elements(scope.ports, sizes) <= scope.budget:
            break
    # a refused call has one token more than max_len
    tokens, needs = max((sizes[axis.name] for axis in scope.lengths), default=1), elements(scope.ports, sizes)
    if tokens > max(MAX_TOKENS, scope.max_len + 1):
        return case, f"a call of {tokens:,} tokens"
    if needs > scope.budget:
        lengths = [f"{axis.name} {sizes[axis.name]:,}" for axis in scope.lengths]
        return case, f"a call with {' and '.join([*lengths, f'arrays of {needs:,} elements'])}"
    if sizes != case.sizes:
        tags = [(f"{name}{case.sizes[name]}", f"{name}{sizes[name]}") for name in sizes]
        parts = "-".join(new for _, new in tags)
        suffix = case.name.removeprefix("-".join(old for old, _ in tags))
        case = replace(case, name=parts + suffix, sizes=sizes)
    return case, ""
