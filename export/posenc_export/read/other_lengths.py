"""Encodings whose form shows at other lengths alone: rows that distances choose, frequencies that a length changes.

A short call shows the near rows of a bias by distance alone. A rotary graph that switches, as dynamic and longrope do,
compares the length with the context that a model was made for: at each number that it compares with, the call that is
longer by one is read, too, and other frequencies there are another side of one form.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from posenc.formulas.fitting import Form, Parameter
from posenc.formulas.rope_types.dynamic import dynamic_form
from posenc.formulas.rope_types.longrope import two_sides
from posenc.formulas.t5_bias import is_bucketed, on_edges
from posenc_export.read.comparing.parameters import alike
from posenc_export.read.graph import Graph
from posenc_export.read.interpret.budget import Budget
from posenc_export.read.interpret.run import interpret
from posenc_export.read.interpret.sizes import axes_of, default_sizes
from posenc_export.read.interpret.state import small_numbers
from posenc_export.read.recognise.encodings import encodings_of
from posenc_export.read.recognise.named import Named
from posenc_export.read.recognise.rotary.encodings import rotary_of
from posenc_export.read.values import Constant, Position, Run

LENGTH = 293
"""A prime, unlike sizes of tensors; T5's rows are those of 128 tokens and farther."""
HALF = 2
"""Bytes of a number in half precision."""
COMPARING = ("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Clip")
"""Operators that compare a length with a number."""
CONTEXTS = range(8, 1 << 21)
"""Lengths at which a form may switch."""
TRIED = 3
"""Numbers that are tried, at most."""
PLACED = ("head_dim", "rotary_dim", "layout", "first_feature", "attention_factor")
"""Parameters that both sides share."""
MEASURED = 1e-3
"""A relative difference of two frequencies that were measured at different lengths."""
BYTES = 1 << 24
"""Bytes of a value that is still computed at these lengths: masks of all pairs of tokens are not."""


def refit_by_distance(graph: Graph, named: Sequence[Named], budget: Budget) -> list[Named]:
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


def refit_by_length(graph: Graph, run: Run, named: list[Named], budget: Budget) -> list[Named]:
    """Return encodings, those that switch by length with both sides of their switch.

    Args:
        graph: the graph.
        run: its interpretation at usual sizes.
        named: the encodings there.
        budget: how much another interpretation may cost.
    """
    if not any(entry.form.traits.is_turned for entry in named) or "length" not in axes_of(graph).values():
        return named
    smaller = replace(budget, value_bytes=min(BYTES, budget.value_bytes))
    for context in sorted(set(_compared(run)))[:TRIED]:
        beyond = _forms(graph, context + 1, smaller)
        changed = [entry for entry in named if _differs(entry, beyond)]
        if changed:
            # how a base grows shows at two lengths more
            sides = {length: _forms(graph, length, smaller) for length in (2 * context, 3 * context)}
            sides[context + 1] = beyond
            return [_both_sides(entry, context, sides) if entry in changed else entry for entry in named]
    return named


def _compared(run: Run) -> Iterator[int]:
    """Yield the numbers of the file that position values are compared with."""
    for node in run.nodes:
        operands = [operand.value for operand in node.operands if operand is not None]
        if node.op_type not in COMPARING or not any(isinstance(value, Position) for value in operands):
            continue
        for value in operands:
            number = small_numbers(value) if isinstance(value, Constant) else None
            if number is not None and number.size == 1 and _is_context(float(number.reshape(-1)[0])):
                yield int(number.reshape(-1)[0])


def _is_context(number: float) -> bool:
    return math.isfinite(number) and number == int(number) and int(number) in CONTEXTS


def _forms(graph: Graph, length: int, budget: Budget) -> Mapping[str, Named]:
    """Return the rotary encodings at a length, by their first node."""
    return {entry.nodes[0]: entry for entry in rotary_of(interpret(graph, {"length": length}, budget=budget))}


def _differs(entry: Named, there: Mapping[str, Named]) -> bool:
    other = there.get(entry.nodes[0])
    if other is None or not entry.form.traits.is_turned or other.form.parameters == entry.form.parameters:
        return False
    ours, theirs = entry.form.parameters, other.form.parameters
    # frequencies without a rule are measured, a little differently at each length
    return ours.keys() != theirs.keys() or not all(alike(value, theirs[name], MEASURED) for name, value in ours.items())


def _both_sides(entry: Named, context: int, sides: Mapping[int, Mapping[str, Named]]) -> Named:
    """Return an encoding with both sides of its switch; unknown frequencies, where they are no known form together."""
    others = {length: there[entry.nodes[0]].form for length, there in sides.items() if entry.nodes[0] in there}
    longer = others[context + 1]
    form = dynamic_form({1: entry.form, **others}) or two_sides(entry.form, longer, context)
    if form is None:
        # one side alone would be a name that is wrong for the other calls
        placed = {name: value for name, value in entry.form.parameters.items() if name in PLACED}
        words: dict[str, Parameter] = {"short": _in_words(entry.form), "long": _in_words(longer)}
        form = Form("rotary", "unknown frequencies", {**placed, "original_max_position_embeddings": context, **words})
    named = replace(entry, form=replace(form, exact=longer.exact))
    other = sides[context + 1][entry.nodes[0]]
    if entry.rows is None or other.rows is None or entry.stored == other.stored:
        return named
    stored = tuple(dict.fromkeys((*entry.stored, *other.stored)))
    return replace(named, rows=max(entry.rows, other.rows), stored=stored, sides=(entry, other))


def _in_words(form: Form) -> str:
    theta = form.parameters.get("rope_theta")
    return form.name if theta is None else f"{form.name} rope_theta={theta:g}"
