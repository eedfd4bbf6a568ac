"""Rows that distances choose, in a call whose distances go as far as rows do: a short one shows the near ones alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from posenc_export.reading.graph import Graph
from posenc_export.reading.interpret.budget import Budget
from posenc_export.reading.interpret.run import interpret
from posenc_export.reading.interpret.sizes import default_sizes
from posenc_export.reading.recognise.buckets import on_edges
from posenc_export.reading.recognise.encodings import encodings_of
from posenc_export.reading.recognise.named import Named
from posenc_export.reading.values import Position, Run

FAMILY = "t5"
LENGTH = 293
"""A prime, unlike sizes of tensors; T5's rows are those of 128 tokens and farther."""
HALF = 2
"""Bytes of a number in half precision."""


def farther(graph: Graph, named: Sequence[Named], budget: Budget) -> list[Named]:
    """Return encodings, those whose rows distances choose with the form that they have in a longer call.

    Args:
        graph: that holds them.
        named: as a short call shows them.
        budget: how much the longer one may cost.
    """
    if not any(entry.form.family == FAMILY for entry in named):
        return list(named)
    run = interpret(graph, default_sizes(graph, {"length": LENGTH, "source": LENGTH}), budget=budget)
    forms = {entry.stored: entry.form for entry in encodings_of(run) if entry.form.family == FAMILY}
    if _rounds_logarithms(run):
        forms = {stored: on_edges(form, LENGTH) for stored, form in forms.items()}
    return [
        replace(entry, form=forms[entry.stored]) if entry.form.family == FAMILY and entry.stored in forms else entry
        for entry in named
    ]


def _rounds_logarithms(run: Run) -> bool:
    """Return whether a logarithm of positions is computed in half precision."""
    taken = [node.operands[0] for node in run.nodes if node.op_type == "Log"]
    values = [operand.value for operand in taken if operand is not None]
    return any(isinstance(value, Position) and value.array.dtype.itemsize == HALF for value in values)
