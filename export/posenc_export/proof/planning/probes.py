"""Cases that read every stored row, that have holes in masks, or inputs of unlike lengths: from probes and ports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from posenc.ports import Axis, Mask, Port, Positions, carrying
from posenc_export.bundle.case import Case
from posenc_export.bundle.rules import rules_of
from posenc_export.bundle.sampling import LARGE
from posenc_export.proof.planning.cases import TOKENS, case_of
from posenc_export.proof.planning.scope import Scope
from posenc_export.write.targets.sizes import elements

T = TypeVar("T")
CALLS = 8
"""Calls, at most, that read stored rows by numbers or masks."""


def every_row(scope: Scope) -> Iterable[Case]:
    """Yield calls whose positions, numbers or masks read every stored row, or as many rows as fit in the calls."""
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
    # case_of rounds lengths to what the axes allow: probes need exactly as many places as there are
    case = case_of(scope, sizes, 0)
    exact = {**case.sizes, **sizes}
    tag, exactly = ("-".join(f"{name}{n}" for name, n in own.items()) for own in (case.sizes, exact))
    return replace(case, name=f"{exactly}{case.name.removeprefix(tag)}-probes{number}", sizes=exact)


def _calls(scope: Scope, probes: tuple[T, ...], sizes: Mapping[str, int]) -> list[tuple[T, ...]]:
    """Return probes cut into calls whose outputs are kept whole; of too many calls some, in even steps."""
    smallest = {**dict.fromkeys((axis.name for axis in scope.axes), 1), **sizes}
    step = max(1, LARGE // elements(scope.ports, smallest))
    # a call of more than LARGE elements is kept at some rows only
    calls = [probes[i : i + step] for i in range(0, len(probes), step)]
    return calls[:: -(-len(calls) // CALLS)]


def holes(scope: Scope) -> Iterable[Case]:
    """Yield calls with padding between tokens; a user's module may have no answer to that, and gets none."""
    masks = [port.carries for port in scope.masks if isinstance(port.carries, Mask) and not port.carries.causal]
    if not rules_of(scope.encoding.family).known_refusals or not masks:
        return
    for turn in (1, 3):  # both have three sequences, with holes at other places
        length = min(2 + 3 * turn, scope.max_length)
        case = case_of(scope, {axis.name: length for axis in scope.lengths}, turn)
        yield replace(case, name=case.name.replace(f"padded-{case.padding}", "padded-holes"), padding="holes")


def unlike(scope: Scope) -> Iterable[Case]:
    """Yield calls that must be refused: one input has one token where the others have several, or several for one.

    A user's module is asked first, and calls that it answers are left out (`eager_refusals.py`).
    """
    for axis in scope.lengths:
        sharing = [port for port in scope.encoding.inputs if axis in port.dynamic.values()]
        for port in sharing if len(sharing) > 1 else ():
            few, several = axis.allowed(1), axis.allowed(min(TOKENS, scope.max_length))
            for own, others in ((few, several), (several, few)):
                if own != others:
                    yield _with_unlike(scope, axis, port, own, others)


def _with_unlike(scope: Scope, axis: Axis, port: Port, own: int, others: int) -> Case:
    lengths = {length.name: max(own, others) for length in scope.lengths} | {axis.name: others}
    case = case_of(scope, lengths, 0, refused=True)
    name = f"{case.name.removesuffix('-refused')}-{port.name}-{axis.name}{own}-refused"
    return replace(case, name=name, unlike={port.name: {axis.name: own}})
