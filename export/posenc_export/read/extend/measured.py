"""What graphs make of far positions, before and after a chain is swapped, against float64."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np

from posenc.formulas.fitting import Form
from posenc_export.common.errors import BadInput
from posenc_export.read.errors.measure import Measuring
from posenc_export.read.extend.exact import NEAR_ENOUGH
from posenc_export.read.extend.held import half_steps
from posenc_export.read.extend.result import Swap
from posenc_export.read.graph import Graph
from posenc_export.read.interpret.budget import Budget
from posenc_export.read.interpret.run import interpret
from posenc_export.read.interpret.sizes import default_sizes
from posenc_export.read.recognise.named import Named
from posenc_export.read.values import Position, Run

HALVES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}

NEAR = 31
"""Positions that calls of both files have."""


def of_graph(graph: Graph, run: Run | None = None) -> Measuring:
    """Return what measures the encodings of a graph."""
    return Measuring(graph, run or interpret(graph), 1.0, Budget())


def in_batches(graph: Graph) -> Run:
    """Return the interpretation of a graph with two sequences: which axes are repeated shows there."""
    return interpret(graph, default_sizes(graph, {"batch": 2}))


def measured(swap: Swap, named: Named, new: Form, before: Measuring, after: Measuring) -> Swap:
    """Return a swap with the errors of the rows that both graphs make; ValueError where those of the new one are large.

    Args:
        swap: what was swapped.
        named: the encoding as it was read.
        new: the closed form that it has now.
        before: the graph that was read.
        after: the graph that was written.
    """
    _check_alike(swap, named, in_batches(before.graph), in_batches(after.graph))
    # the tensors in which it meets data keep their names, and are made of digits now
    was, now = before.errors(named), after.errors(replace(named, form=new, stored=()))
    if now is None:
        return replace(swap, old_error_near=swap.old_error)
    if was is None and named.dtype not in HALVES:
        raise BadInput(
            f"{swap.nodes[0]}: its frequencies follow from the length of a call: --exact has one set of them"
        )
    worst, allowed = max(now.errors), _allowed(swap, named, new)
    if not worst <= allowed:
        raise ValueError(f"{swap.nodes[0]}: what is made in its place is off by {worst:.2g}")
    if was is None:
        return replace(swap, old_error_near=swap.old_error, in_graph=worst)
    off = max(range(len(was.errors)), key=lambda i: was.errors[i])
    near = max(error for position, error in zip(was.positions, was.errors, strict=True) if position <= NEAR)
    return replace(
        swap, old_error=was.errors[off], old_error_at=was.positions[off], old_error_near=near, in_graph=worst
    )


def _allowed(swap: Swap, named: Named, new: Form) -> float:
    """Return how far what the new graph makes may be from its form."""
    if named.dtype not in HALVES:
        return NEAR_ENOUGH * max(1.0, swap.amplitude)
    assert new.exact is not None
    largest = np.abs(new.exact(np.arange(2))).max().reshape(1)
    # the cast to half, and the product with the factor of attention
    return NEAR_ENOUGH + 2 * float(half_steps(largest, HALVES[named.dtype])[0])


def _check_alike(swap: Swap, named: Named, before: Run, after: Run) -> None:
    """Raise ValueError where what meets data has another shape than before, or another element type."""
    for name in named.tensors:
        old, new = before.values.get(name), after.values.get(name)
        if not isinstance(old, Position) or not isinstance(new, Position):
            raise ValueError(f"{swap.nodes[0]}: {name} is not computed in both files")
        if (old.array.shape, old.array.dtype) != (new.array.shape, new.array.dtype):
            raise ValueError(f"{swap.nodes[0]}: {name} was {old.array.shape}, and would be {new.array.shape}")
