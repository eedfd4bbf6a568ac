"""Calls of a user's module with rows that usual numbers never have: zeros, equal numbers, the smallest and large ones.

An epsilon that is lost, a mean that overflows, a mask of minus infinity for every key: what is usual shows none of it.
Each sequence of a batch has a kind of its own, so that what one makes of the numbers of others stays out of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from posenc.encoding import Encoding
from posenc.ports import Indices, Mask, Port, Values
from posenc_export.bundle.case import Case
from posenc_export.bundle.rules import rules_of
from posenc_export.common.arrays import FLOATS
from posenc_export.proof.planning.cases import case_of
from posenc_export.proof.planning.scope import Scope
from posenc_export.write.targets.hard_rows import BY_SEQUENCE, BY_SEQUENCE_OF_TOKENS, KINDS
from posenc_export.write.targets.sizes import elements

if TYPE_CHECKING:
    import torch

MAX_IDS = 64
"""Ids of zero rows that are tried, at most."""


def hard_cases(scope: Scope, *, all_masked: bool = True) -> tuple[Case, ...]:
    """Return calls with hard rows: one whose sequences have a kind each, or without a batch a call for each kind.

    Args:
        scope: What is tried.
        all_masked: Whether all tokens of a text are masked: few programs need to answer there.
    """
    encoding = scope.encoding
    if rules_of(encoding.family).derived_tolerances or not any(map(_takes_rows, encoding.inputs)):
        return ()
    of_trace = case_of(scope, {axis.name: scope.trace[axis.name] for axis in scope.lengths}, 0)
    batches = {axis.name: len(KINDS) for axis in scope.axes if axis.kind == "batch"}
    fits = all(axis.allowed(len(KINDS)) == len(KINDS) for axis in scope.axes if axis.kind == "batch")
    by_sequence = BY_SEQUENCE if all_masked else BY_SEQUENCE_OF_TOKENS
    kinds = (by_sequence,) if batches and fits else KINDS
    sizes = {**of_trace.sizes, **(batches if fits else {})}
    if elements(scope.ports, sizes) > scope.budget:
        return ()
    tag = "-".join(f"{name}{n}" for name, n in sizes.items()) or "fixed"
    ids = tuple(zero_rows(encoding))[:MAX_IDS]
    case = replace(of_trace, sizes=sizes, padding="none", hard_ids=ids)
    return tuple(replace(case, name=f"{tag}-hard-{kind.replace(' ', '-')}", hard=kind) for kind in kinds)


def _takes_rows(port: Port) -> bool:
    """Whether an input may have hard rows: numbers, ids of a table, or a mask that is added."""
    if isinstance(port.carries, Values):
        return port.dtype in FLOATS and not port.carries.probabilities
    return isinstance(port.carries, Indices) or (isinstance(port.carries, Mask) and port.dtype in FLOATS)


def zero_rows(encoding: Encoding) -> Iterator[int]:
    """Yield the ids whose row in a table of embeddings is zero, as that of padding often is."""
    ends = {port.carries.end for port in encoding.inputs if isinstance(port.carries, Indices)}
    for table in _tables(encoding):
        if table.shape[0] in ends:
            yield from (~table.bool().any(1)).nonzero().flatten().tolist()


def _tables(encoding: Encoding) -> Iterator[torch.Tensor]:
    from torch import nn

    for module in encoding.module.modules():
        if isinstance(module, nn.Embedding):
            yield module.weight.detach()
