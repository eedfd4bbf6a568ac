"""Calls of a file whose attention is GroupQueryAttention: it refuses some that the module answers.

Several texts with several tokens each behind a cache: each such call is tried as a first call, without a cache, and as
one text; a few are tried as they are, and must be refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from posenc.ports import Port
from posenc_export.bundle.case import Case
from posenc_export.bundle.decoders import DecoderAxes, decoder_axes

REFUSED = 2
"""Calls that must be refused, at most."""


def by_contract(cases: Iterable[Case], ports: Sequence[Port]) -> tuple[Case, ...]:
    """Return calls that the operator answers in the place of those that it refuses, and a few of these, refused."""
    axes = decoder_axes(ports)
    if axes is None:
        return tuple(cases)
    kept: dict[str, Case] = {}
    outside: list[Case] = []
    for case in cases:
        if case.refused or case.unlike or not axes.is_refused(case.sizes):
            kept.setdefault(case.name, case)
            continue
        outside.append(case)
        for other in _inside(case, axes):
            kept.setdefault(other.name, other)
    refused = [replace(case, name=f"{case.name}-refused", refused=True) for case in outside if not case.hard]
    return (*kept.values(), *refused[:REFUSED])


def _inside(case: Case, axes: DecoderAxes) -> Iterator[Case]:
    """Yield a call without a cache, and one of a single text; hard rows, of which each text has a kind, stay many."""
    tags = {name: f"{name}{case.sizes[name]}" for name in axes}
    first = {**case.sizes, axes.past: 0}
    yield replace(case, name=case.name.replace(tags[axes.past], f"{axes.past}0", 1), sizes=first)
    if not case.hard:
        alone = {**case.sizes, axes.batch: 1}
        yield replace(case, name=case.name.replace(tags[axes.batch], f"{axes.batch}1", 1), sizes=alone)


__all__ = ["by_contract"]
