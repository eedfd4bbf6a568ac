"""Rows that distances choose, in a call whose distances go as far as rows do: a short one shows the near ones alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from posenc.formulas.fitting import Form
from posenc.formulas.t5_bias import is_bucketed, on_edges
from posenc_export.read.graph import Graph
from posenc_export.read.interpret.budget import Budget
from posenc_export.read.interpret.run import interpret
from posenc_export.read.interpret.sizes import default_sizes
from posenc_export.read.recognise.encodings import encodings_of
from posenc_export.read.recognise.named import Named
from posenc_export.read.values import Position, Run

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
    if not any(is_bucketed(entry.form) for entry in named):
        return list(named)
    run = interpret(graph, default_sizes(graph, {"length": LENGTH, "source": LENGTH}), budget=budget)
    forms = {entry.stored: entry.form for entry in encodings_of(run) if is_bucketed(entry.form)}
    if _rounds_logarithms(run):
        forms = {stored: on_edges(form, LENGTH) for stored, form in forms.items()}
    went_through = run.stopped is None
    return [_in_a_longer_call(entry, forms, went_through) if is_bucketed(entry.form) else entry for entry in named]


def _in_a_longer_call(entry: Named, forms: Mapping[tuple[str, ...], Form], went_through: bool) -> Named:
    """Return an encoding with the form that it has in a longer call; without a name where it has none there."""
    if entry.stored in forms:
        return replace(entry, form=forms[entry.stored])
    # an operator has its parameters, and what a call cannot reach is not told by it
    if not went_through or not entry.form.also:
        return entry
    words = "close to T5's buckets, but distances choose other rows in a longer call"
    return replace(entry, form=Form("not recognised", words, {}), shape=entry.shape)


def _rounds_logarithms(run: Run) -> bool:
    """Return whether a logarithm of positions is computed in half precision."""
    taken = [node.operands[0] for node in run.nodes if node.op_type == "Log"]
    values = [operand.value for operand in taken if operand is not None]
    return any(isinstance(value, Position) and value.array.dtype.itemsize == HALF for value in values)
