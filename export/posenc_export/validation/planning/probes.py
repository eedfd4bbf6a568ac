"""Calls that read what is stored, have holes in masks, or lengths that differ: from probes and ports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from posenc.ports import Axis, Mask, Port, Positions, carrying
from posenc_export.bundle.case import Case
from posenc_export.bundle.rules import rules_of
from posenc_export.bundle.sampling import LARGE
from posenc_export.validation.planning.cases import TOKENS, case_of
from posenc_export.validation.planning.scope import Scope
from posenc_export.validation.planning.sizes import elements

T = TypeVar("T")
CALLS = 8
"""Calls, at most, that read rows by numbers or masks."""


def every_row(scope: Scope) -> Iterable[Case]:
    """Yield calls whose positions, numbers or masks read every row of what is stored, or as many as calls may."""
    probes = scope.encoding.probes
    if probes.positions and carrying(scope.position_ports, Positions):
        case = _probing(scope, dict.fromkeys((axis.name for axis in scope.lengths), len(probes.positions)), "")
        yield replace(case, probe_positions=probes.positions, max_position=max(probes.positions))
    if probes.values and len(scope.lengths) == 1:
        name = scope.lengths[0].name
        for i, values in enumerate(_calls(scope, probes.values, {name: 1})):
            yield replace(_probing(scope, {name: len(values)}, i or ""), probe_values=values)
    if probes.masks and scope.masks:
        rows, columns = (axis.name for axis in scope.lengths)
        for i, counts in enumerate(_calls(scope, probes.masks, {rows: max(probes.masks), columns: 1})):
            case = _probing(scope, {rows: max(probes.masks), columns: len(counts)}, i or "")
            yield replace(case, probe_masks=counts)


def _probing(scope: Scope, sizes: Mapping[str, int], number: int | str) -> Case:
    """Return a case of exactly these lengths, and of one sequence."""
    case = case_of(scope, sizes, 0)
    exact = {**case.sizes, **sizes}
    tag, exactly = ("-".join(f"{name}{n}" for name, n in one.items()) for one in (case.sizes, exact))
    return replace(case, name=f"{exactly}{case.name.removeprefix(tag)}-probes{number}", sizes=exact)


def _calls(scope: Scope, probes: tuple[T, ...], sizes: Mapping[str, int]) -> list[tuple[T, ...]]:
    """Return probes, cut into calls of which all is kept: if these are too many, some in even steps."""
    each = {**dict.fromkeys((axis.name for axis in scope.axes), 1), **sizes}
    step = max(1, LARGE // elements(scope.ports, each))
    calls = [probes[i : i + step] for i in range(0, len(probes), step)]
    return calls[:: -(-len(calls) // CALLS)]


def holes(scope: Scope) -> Iterable[Case]:
    """Yield calls of which some tokens amid others are padding; a user's module may have no answer to that."""
    masks = [port.carries for port in scope.masks if isinstance(port.carries, Mask) and not port.carries.causal]
    if not rules_of(scope.encoding.family).known_refusals or not masks:
        return
    for turn in (1, 3):  # three sequences, whose holes lie elsewhere
        length = min(2 + 3 * turn, scope.max_length)
        case = case_of(scope, {axis.name: length for axis in scope.lengths}, turn)
        yield replace(case, name=case.name.replace(f"padded-{case.padding}", "padded-holes"), padding="holes")


def unlike(scope: Scope) -> Iterable[Case]:
    """Yield calls in which one input has one token and the others several, and the other way round: to be refused.

    A user's module is asked first, and those that it answers are left out (`unlike_lengths.py`).
    """
    for axis in scope.lengths:
        having = [port for port in scope.encoding.inputs if axis in port.dynamic.values()]
        for port in having if len(having) > 1 else ():
            one, several = axis.allowed(1), axis.allowed(min(TOKENS, scope.max_length))
            for own, others in ((one, several), (several, one)):
                if own != others:
                    yield _with_unlike(scope, axis, port, own, others)


def _with_unlike(scope: Scope, axis: Axis, port: Port, own: int, others: int) -> Case:
    lengths = {other.name: max(own, others) for other in scope.lengths} | {axis.name: others}
    case = case_of(scope, lengths, 0, refused=True)
    name = f"{case.name.removesuffix('-refused')}-{port.name}-{axis.name}{own}-refused"
    return replace(case, name=name, unlike={port.name: {axis.name: own}})
