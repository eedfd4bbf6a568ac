"""Mutants of an ONNX file: each is wrong in one thing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from onnx import ModelProto

from helpers.mutants import node_sites, stored_sites
from helpers.mutants.mutation import KINDS, Kind, Mutation, Site

__all__ = ["KINDS", "Kind", "Mutant", "Mutation", "mutants"]


@dataclass(frozen=True)
class Mutant:
    """A file that is wrong in one thing, and what that is."""

    mutation: Mutation
    model: ModelProto


SITES: Mapping[Kind, Callable[[ModelProto], Iterator[Site]]] = {
    "rows and elements": stored_sites.rows,
    "operators": node_sites.operators,
    "constants and attributes": lambda model: chain(stored_sites.constants(model), node_sites.attributes(model)),
}


def mutants(model: ModelProto, seed: Sequence[int], kinds: Sequence[Kind] = KINDS) -> Iterator[Mutant]:
    """Yield mutants by turns of the kinds, each another, until a thousand draws brought nothing new."""
    rng = np.random.default_rng(list(seed))
    sites = {kind: list(SITES[kind](model)) for kind in kinds}
    seen = {_digest(model)}
    for turn in range(1000):
        of_kind = sites[kinds[turn % len(kinds)]] or list(chain(*sites.values()))
        changed = ModelProto()
        changed.CopyFrom(model)
        mutation = of_kind[rng.integers(len(of_kind))](changed, rng)
        if mutation and (digest := _digest(changed)) not in seen:
            seen.add(digest)
            yield Mutant(mutation, changed)


def _digest(model: ModelProto) -> str:
    return hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest()
