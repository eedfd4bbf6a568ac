"""A file is read, interpreted, and its encodings are named: what runs in a process with limits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from posenc_export.reading.ends import MAX_LENGTH, search_end
from posenc_export.reading.farther import farther
from posenc_export.reading.graph import Graph
from posenc_export.reading.graph.live import live
from posenc_export.reading.inputs import taken, unsaid
from posenc_export.reading.inspection import Attended, Encoding, End, Inspection
from posenc_export.reading.interpret.budget import Budget
from posenc_export.reading.interpret.run import interpret
from posenc_export.reading.interpret.sizes import axes_of, default_sizes
from posenc_export.reading.judging import judged, of_inputs, of_sides
from posenc_export.reading.layers import attentions_after, attentions_of, layers_of
from posenc_export.reading.masked import masked
from posenc_export.reading.measuring import Measuring
from posenc_export.reading.operator_forms import IDS, form_findings
from posenc_export.reading.recognise.accounts import Account, accounts_of
from posenc_export.reading.recognise.encodings import encodings_of
from posenc_export.reading.recognise.named import Named
from posenc_export.reading.sections import sectioned
from posenc_export.reading.switching import switched
from posenc_export.reading.usual import is_spent
from posenc_export.reading.values import Run

LAYERED = ("rotary", "alibi", "t5", "relative", "window", "not recognised")
"""Families that meet data in layers."""
USUAL_BOUND = 1e-3
SHARE = 0.4
"""The share of the time that a single interpretation may take."""
LENGTHS = ("length", "samples")
"""Kinds of axes along which positions may end."""


@dataclass(frozen=True)
class Examining:
    """How a file is examined.

    Args:
        shown: the path that messages name.
        bound: the error that counts as too large; None for the usual one.
        seconds: how long it may take; 0 for any.
        say: is called with the encodings, before it is known where they end.
    """

    shown: str
    bound: float | None
    seconds: float
    say: Callable[[Inspection], None]

    @property
    def budget(self) -> Budget:
        """How much a single interpretation may cost."""
        usual = Budget()
        return replace(usual, seconds=min(usual.seconds, SHARE * self.seconds) if self.seconds else usual.seconds)


def examine(graph: Graph, facts: Inspection, how: Examining) -> Inspection:
    """Return what a graph holds of positions; raise ValueError where it cannot be read.

    Args:
        graph: as `read_graph` has it.
        facts: what it says of itself.
        how: bounds and limits, and who is told meanwhile.
    """
    graph, run, inputs = taken(live(graph), how.budget)
    attentions = attentions_of(run)
    measuring = Measuring(graph, run, USUAL_BOUND if how.bound is None else how.bound, how.budget)
    named = farther(graph, switched(graph, run, _named(run), how.budget), how.budget)
    named = masked(graph, run, sectioned(graph, run, named, how.budget), how.budget)
    layers = partial(layers_of, attentions=attentions, after=attentions_after(run, attentions))
    encodings = tuple(_encoding(entry, run, layers, measuring) for entry in named)
    accounts = accounts_of(run, attentions)
    inspection = replace(
        facts,
        encodings=encodings,
        attentions=len(attentions),
        taken=inputs,
        attended=tuple(_attended(number, account, run) for number, account in enumerate(accounts)),
        stopped=_stopped(run, how),
    )
    # usual sizes have a batch of one, at which ids for a batch of one fit
    forms = (*form_findings(_of_a_batch(graph, run, how)), *of_sides(accounts))
    if all(entry.form.family == "not recognised" for entry in named):
        forms = (*forms, *of_inputs(unsaid(graph)))
    is_strict = how.bound is not None
    how.say(replace(inspection, findings=(*judged(inspection, is_strict), *forms)))
    # an end takes many interpretations: what is known until then is said before
    digits = {name for entry in named if measuring.is_composed(entry) for name in entry.stored}
    try:
        inspection = replace(inspection, ends=tuple(_ends(graph, digits)) if encodings else ())
    except MemoryError:
        words = "where positions end was not looked for: long calls take more memory than --memory allows"
        inspection = replace(inspection, stopped=inspection.stopped or words)
    return replace(inspection, findings=(*judged(inspection, is_strict), *forms))


def _attended(number: int, account: Account, run: Run) -> Attended:
    node = run.nodes[account.place].node
    return Attended(number, node, account.queries, account.keys, account.values)


def _of_a_batch(graph: Graph, run: Run, how: Examining) -> Run:
    """Return a run with a batch of two where a node takes ids beside data; else the run itself."""
    if not any((node.domain, node.op_type) in IDS for node in graph.nodes):
        return run
    return interpret(graph, default_sizes(graph, {"batch": 2}), budget=how.budget)


def _named(run: Run) -> list[Named]:
    """Return the encodings of a run, without values that are another side of one that has a name."""
    everything = encodings_of(run)
    # a rotation meets queries and keys in several nodes, of which its name lists one
    known = {name for named in everything if named.form.family != "not recognised" for name in named.stored}
    return [
        n for n in everything if n.form.family != "not recognised" or not n.stored or not known.issuperset(n.stored)
    ]


def _encoding(
    named: Named, run: Run, layers_at: Callable[[Iterable[int]], tuple[int, ...]], measuring: Measuring
) -> Encoding:
    """Return an encoding as an inspection has it, with its layers and its errors."""
    form = named.form
    places = {node.node: place for place, node in enumerate(run.nodes)}
    layers = layers_at(places[node] for node in named.nodes if node in places)
    errors = measuring.errors(named)
    return Encoding(
        family=form.family,
        name=form.name,
        parameters=dict(form.parameters),
        also=form.also,
        nodes=named.nodes,
        layers=layers if form.family in LAYERED else (),
        tensors=named.tensors,
        stored=named.stored,
        dtype=named.dtype,
        rows=None if measuring.is_composed(named) else named.rows,
        positions=named.positions,
        error=named.error if errors is None else max(errors.errors),
        shape=named.shape,
        errors=errors,
        rounded=measuring.rounded(named),
        moved=form.moved,
    )


def _stopped(run: Run, how: Examining) -> str:
    if run.stopped is None:
        return ""
    more = is_spent(run) and how.budget.seconds < Budget().seconds
    return f"{run.stopped[1]}: {run.stopped[0]}{': give more with --timeout' if more else ''}"


def _ends(graph: Graph, digits: Collection[str]) -> Iterator[End]:
    """Yield where positions end, or that they do not; nothing for a graph without a length.

    Args:
        graph: the graph.
        digits: tables of which rows are put together: those of a table are read again at every length.
    """
    kind = next((kind for kind in LENGTHS if kind in axes_of(graph).values()), None)
    if kind is None:
        return
    searched = search_end(graph)
    end = searched.end
    if end is None:
        if searched.right is not None:
            yield End(kind, None, searched.right, "", "goes on", searched.reason)
    elif end.beyond == "repeats" and any(entry and entry.tensor in digits for entry in end.record.operands):
        yield End(kind, None, end.last, "", "goes on", "")
    else:
        yield End(end.axis, end.last, MAX_LENGTH, end.node, end.beyond, end.reason)
