"""A file is read, interpreted, and its encodings are named: what runs in a process with limits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from posenc.formulas.fitting import heard
from posenc_export.read.bad_numbers import bad_numbers
from posenc_export.read.coordinates import joined
from posenc_export.read.ends import MAX_LENGTH, search_end
from posenc_export.read.errors.calls import FAR
from posenc_export.read.errors.measure import Measuring
from posenc_export.read.explain import Reading, explain
from posenc_export.read.findings import finding
from posenc_export.read.first_run import is_spent, with_outputs
from posenc_export.read.graph import Graph
from posenc_export.read.graph.live import live
from posenc_export.read.inputs import taken, unsaid
from posenc_export.read.inspection import (
    Attended,
    End,
    Errors,
    Explained,
    Finding,
    FoundEncoding,
    GraphInput,
    Inspection,
    NotJudged,
    Sight,
)
from posenc_export.read.interpret.budget import Budget
from posenc_export.read.interpret.feeds import looked_up
from posenc_export.read.interpret.roles import roles_of
from posenc_export.read.interpret.run import interpret
from posenc_export.read.interpret.sizes import axes_of, default_sizes
from posenc_export.read.judging import (
    LISTED,
    judged,
    not_judged_of,
    of_inputs,
    of_sides,
    unjudged_findings,
    unmeasured_of,
)
from posenc_export.read.layers import attentions_after, attentions_of, layers_of
from posenc_export.read.masked import masked
from posenc_export.read.operator_forms import IDS, form_findings
from posenc_export.read.other_lengths import refit_by_distance, refit_by_length
from posenc_export.read.recognise.by_formula import named_by_factor
from posenc_export.read.recognise.encodings import encodings_of
from posenc_export.read.recognise.named import Named
from posenc_export.read.recognise.rotary.accounts import Account, accounts_of
from posenc_export.read.recognise.tokens import mixed_tokens
from posenc_export.read.recognise.unrecognised import moving, still_of
from posenc_export.read.sections import sectioned
from posenc_export.read.sights import sights_of, with_windows
from posenc_export.read.starts import start_findings
from posenc_export.read.unread import Stop, stop_of, unread_of, untaken_of
from posenc_export.read.values import Run

USUAL_BOUND = 1e-3
SHARE = 0.4
"""The share of the time that a single interpretation may take."""
ULP = 2.0**-23
"""A last digit of a cosine in float32."""
COORDINATES = 4
"""The largest fixed side of an input that lists places or sizes: rows and columns, corners of a box."""
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
        windows: how many keys a config says that queries see: calls that show it are tried. None without a config.
        explain: nodes, or values that they give, of which all that is seen is asked for.
    """

    shown: str
    bound: float | None
    seconds: float
    say: Callable[[Inspection], None]
    windows: tuple[int, ...] | None = None
    explain: tuple[str, ...] = ()

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
    graph, run, roles = taken(live(graph), how.budget)
    run = with_outputs(graph, run)
    attentions = attentions_of(run)
    measuring = Measuring(graph, run, USUAL_BOUND if how.bound is None else how.bound, how.budget)
    with heard() as asked:
        named = _all_named(graph, run, measuring, how.budget)
    layers = partial(layers_of, attentions=attentions, after=attentions_after(run, attentions))
    encodings = tuple(_encoding(entry, run, layers, measuring) for entry in named)
    accounts = accounts_of(run, attentions)
    inspection = replace(
        facts,
        encodings=encodings,
        attentions=len(attentions),
        taken=roles,
        attended=tuple(_attended(number, account, run) for number, account in enumerate(accounts)),
        sights=_sights(graph, run, attentions, how),
        stopped=_stopped(run, how),
        explained=tuple(_explained(Reading(graph, run, named, asked), how.explain)),
    )
    # usual sizes have a batch of one, at which ids for a batch of one fit
    forms = (*form_findings(_of_a_batch(graph, run, how)), *of_sides(accounts, named), *bad_numbers(run, named))
    forms = (*forms, *mixed_tokens(run, named))
    if all(entry.form.family == "not recognised" for entry in named):
        forms = (*forms, *of_inputs(unsaid(graph)))
    forms = (*forms, *start_findings(graph, run, named, how.budget))
    inputs = tuple(_of_tokens(graph, inspection.inputs))
    stop = stop_of(graph, run, inspection.stopped, how.budget)
    unread = (*unread_of(graph, run), *untaken_of(graph, run, named, how.budget))
    how.say(_judged(inspection, inputs, forms, (stop, unread), how))
    # an end takes many interpretations: what is known until then is said before
    digits = {name for entry in named if measuring.is_composed(entry) for name in entry.stored}
    try:
        ends = tuple(_ends(graph, digits)) if encodings else ()
        ends = _broken(ends, named, measuring)
        inspection = replace(inspection, ends=ends, encodings=_as_far(encodings, named, ends, measuring))
    except MemoryError:
        words = "where positions end was not looked for, since long calls take more memory: give more with --memory"
        inspection = replace(inspection, stopped=inspection.stopped or words)
        unread = (*unread, NotJudged(facts.file, words))
    return _judged(inspection, inputs, forms, (stop, unread), how)


def _all_named(graph: Graph, run: Run, measuring: Measuring, budget: Budget) -> list[Named]:
    """Return the encodings of a run, with what calls of other lengths show of them."""
    named = refit_by_distance(graph, refit_by_length(graph, run, _named(run), budget), budget)
    named = masked(graph, run, sectioned(graph, run, named, budget), budget)
    known = {tensor for entry in named for tensor in entry.tensors}
    # what is the same in a short call may be a factor that grows far out
    return named + [
        named_by_factor(moving(run, operand, meetings), measuring.factors(operand))
        for operand, meetings in still_of(run)
        if operand.tensor not in known and measuring.moves(operand)
    ]


def _explained(reading: Reading, names: Sequence[str]) -> Iterator[Explained]:
    """Yield what is seen at nodes that somebody asks for, and at those where nothing was recognised."""
    yield from explain(reading, names)
    unnamed = (entry.nodes[0] for entry in reading.named if entry.form.family == "not recognised")
    others = [node for node in dict.fromkeys(unnamed) if node not in names]
    yield from (replace(entry, is_asked=False) for entry in explain(reading, others[:LISTED]))


def _of_tokens(graph: Graph, inputs: Iterable[GraphInput]) -> Iterator[GraphInput]:
    """Yield inputs that stand for tokens: a list of sizes, of boxes or of edges has a fixed side that is no length."""
    roles = roles_of(graph)
    words = looked_up(graph, [entry.name for entry in inputs])
    for entry in inputs:
        is_token = entry.name in words or roles.get(entry.name) in ("places", "mask", "types")
        sides = [size for size in entry.shape if isinstance(size, int) and 1 < size <= COORDINATES]
        if is_token or not sides:
            yield entry


def _broken(ends: tuple[End, ...], named: Sequence[Named], measuring: Measuring) -> tuple[End, ...]:
    """Return ends, and before them that of an encoding whose positions get the numbers of others from one on."""
    breaks = [(*found, entry.nodes[0]) for entry in named if (found := measuring.breaks_at(entry)) is not None]
    seams = ((measuring.seam_of(entry), entry.nodes[0]) for entry in named)
    breaks += [(seam, f"row {seam:,} is that of position 0 again", node) for seam, node in seams if seam is not None]
    if not breaks:
        return ends
    first, words, node = min(breaks)
    if any(end.last_right is not None and end.last_right <= first for end in ends):
        return ends
    axis = ends[0].axis if ends else "length"
    return (End(axis, first, max([MAX_LENGTH, *(end.tried for end in ends)]), node, "repeats", words),)


def _as_far(
    encodings: Sequence[FoundEncoding], named: Sequence[Named], ends: Sequence[End], measuring: Measuring
) -> tuple[FoundEncoding, ...]:
    """Return encodings whose errors are those of all positions that a call can have, where the graph counts them."""
    last = [end.last_right if end.last_right is not None else end.tried for end in ends if end.axis == "length"]
    limit = min(last, default=FAR)
    return tuple(
        _measured_to(encoding, entry, limit, measuring)
        if encoding.rows is None and encoding.errors and (encoding.errors.beyond or measuring.is_counted(entry))
        else encoding
        for encoding, entry in zip(encodings, named, strict=True)
    )


def _of_any_runtime(errors: Errors | None, named: Named) -> Errors | None:
    """Return errors that hold for every runtime: its own cosine may be another last digit off where it computes one."""
    if errors is None or named.rows is not None:
        return errors
    return replace(errors, errors=tuple(error + ULP if error else error for error in errors.errors))


def _measured_to(encoding: FoundEncoding, entry: Named, limit: int, measuring: Measuring) -> FoundEncoding:
    errors = _of_any_runtime(measuring.errors(entry, limit), entry)
    return encoding if errors is None else replace(encoding, errors=errors, error=max(errors.errors))


def _judged(
    inspection: Inspection,
    inputs: tuple[GraphInput, ...],
    forms: Sequence[Finding],
    unread: tuple[Stop | None, Sequence[NotJudged]],
    how: Examining,
) -> Inspection:
    """Return an inspection with its findings, and with what was not judged.

    Args:
        inspection: what was read.
        inputs: those of tokens.
        forms: findings of operators.
        unread: where reading stopped, None where it went through; and places that were not judged, beside those that
            the inspection itself shows.
        how: whether a bound was asked for.
    """
    inspection = replace(inspection, encodings=joined(inspection.encodings))
    is_strict = how.bound is not None
    findings = [*judged(replace(inspection, inputs=inputs), is_strict), *forms]
    stop, places = unread
    others = list(places)
    if stop is not None:
        entry = NotJudged(stop.node, stop.words)
        places = (entry, *places)
        if stop.never_runs:
            findings.append(finding("never-runs", stop.node, stop.words))
        else:
            others.insert(0, entry)
    unmeasured = tuple(unmeasured_of(inspection))
    # without a bound nobody asked for more than was measured: a line says it, and no finding
    findings += unjudged_findings([*others, *(unmeasured if is_strict else ())], is_strict)
    every = (*not_judged_of(inspection), *places, *unmeasured)
    return replace(inspection, findings=tuple(findings), not_judged=every)


def _sights(graph: Graph, run: Run, attentions: Sequence[int], how: Examining) -> tuple[Sight, ...]:
    """Return which keys attentions see; of how many they are is looked for where somebody asks."""
    sights = sights_of(run, attentions)
    return sights if how.windows is None else with_windows(graph, run, sights, how.windows, how.budget)


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
    known = {name for named in everything if not _may_be_a_side(named) for name in named.stored}
    return [n for n in everything if not _may_be_a_side(n) or not n.stored or not known.issuperset(n.stored)]


def _may_be_a_side(named: Named) -> bool:
    """Return whether values may be another side of an encoding: nobody named them, or by their numbers alone."""
    is_of_numbers = named.form.traits.is_turned and named.form.exact is not None and named.error is None
    return named.form.family == "not recognised" or is_of_numbers


def _encoding(
    named: Named, run: Run, layers_at: Callable[[Iterable[int]], tuple[int, ...]], measuring: Measuring
) -> FoundEncoding:
    """Return an encoding as an inspection has it, with its layers and its errors."""
    form = named.form
    places = {node.node: place for place, node in enumerate(run.nodes)}
    layers = layers_at(places[node] for node in named.nodes if node in places)
    errors = _of_any_runtime(measuring.errors(named), named)
    return FoundEncoding(
        family=form.family,
        name=form.name,
        parameters=dict(form.parameters),
        also=form.also,
        nodes=named.nodes,
        layers=layers if form.traits.is_layered else (),
        tensors=named.tensors,
        stored=named.stored,
        dtype=named.dtype,
        stored_dtype=measuring.stored_dtype(named),
        rows=None if measuring.is_composed(named) else named.rows,
        positions=named.positions,
        error=named.error if errors is None else max(errors.errors),
        shape=named.shape,
        errors=errors,
        rounded=measuring.rounded(named),
        moved=form.moved,
        scheme=form.line,
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
