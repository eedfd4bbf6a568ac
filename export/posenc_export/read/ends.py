"""Where positions end: the last length at which a graph is right, and what it does at the first one beyond.

A graph is right at a length if it goes through, if every position value has along each axis as many places as the data
that it meets, as at a short length, and if no row of a table is read twice that is read once at a short length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from posenc_export.read.agreement import Beyond, ShortLengths, baseline, fault
from posenc_export.read.first_run import is_spent, traced_lengths
from posenc_export.read.graph import Graph
from posenc_export.read.interpret.budget import Budget
from posenc_export.read.interpret.run import interpret
from posenc_export.read.interpret.sizes import axes_of, default_sizes
from posenc_export.read.interpret.state import is_data, shape_of
from posenc_export.read.values import Constant, Meeting, Position, Run, Unknown

MAX_LENGTH = 1 << 20
"""The longest sequence that is tried."""
SHORT = (13, 19, 17, 11, 7, 5, 3, 2)
"""Lengths that a graph goes through at: the first two differ by no whole number of the frames that strides join."""
PROBES = (512, 4099, 65537)
"""Lengths that are tried before the longest."""
TABLE, TABLES = 16, 8
"""How many rows a table has at least whose end is tried, and how many tables are."""
VALUE_BYTES = 1 << 24
"""How large values are that are computed at long lengths: masks of all pairs of tokens are not."""


@dataclass(frozen=True)
class AxisEnd:
    """Where positions of a graph end.

    Args:
        axis: the kind of axis that is as long: "length", or "samples" of a sound.
        last: the last length at which the graph is right.
        beyond: what it does at the first length beyond.
        node: the node in which it does.
        reason: why, in words.
        record: that node, with what came in at the first length beyond.
    """

    axis: str
    last: int
    beyond: Beyond
    node: str
    reason: str
    record: Meeting


@dataclass(frozen=True)
class Searched:
    """What a search for the end of positions came to.

    Args:
        end: where they end; None where no end was met.
        right: the longest length at which the graph was seen to be right; None where it goes through at no short one.
        reason: why nothing is known of longer ones, in words; nothing where an end was met, or the longest was tried.
    """

    end: AxisEnd | None
    right: int | None
    reason: str = ""


@dataclass(frozen=True)
class _Search:
    """A graph, and what is tried on it.

    Args:
        graph: as `read_graph` has it.
        axis: the kind of axis that is varied.
        sizes: of other axes.
        budget: how much a run may cost.
    """

    graph: Graph
    axis: str
    sizes: Mapping[str, int]
    budget: Budget

    def run(self, length: int) -> Run:
        """Return the graph interpreted at a length."""
        return interpret(self.graph, default_sizes(self.graph, {**self.sizes, self.axis: length}), budget=self.budget)


def find_end(
    graph: Graph, sizes: Mapping[str, int] | None = None, max_length: int = MAX_LENGTH, budget: Budget | None = None
) -> AxisEnd | None:
    """Return where positions of a graph end, by bisection; None where no end was met, as `search_end` says why.

    Args:
        graph: as `read_graph` has it.
        sizes: of axes that are not varied, by name or by kind.
        max_length: the longest sequence that is tried.
        budget: how much each run may cost.
    """
    return search_end(graph, sizes, max_length, budget).end


def search_end(
    graph: Graph, sizes: Mapping[str, int] | None = None, max_length: int = MAX_LENGTH, budget: Budget | None = None
) -> Searched:
    """Return what a search for the end of a graph's positions came to: its arguments are those of `find_end`."""
    kinds = set(axes_of(graph).values())
    # tokens come first: a sound's samples are the length where there are none
    axis = next((kind for kind in ("length", "samples") if kind in kinds), None)
    if axis is None:
        return Searched(None, None, "the graph has no axis whose length can be varied")
    search = _Search(graph, axis, sizes or {}, budget or Budget(value_bytes=VALUE_BYTES, seconds=30.0))
    short = list(_short(search))
    if len(short) == 1 and (only := _only(search, short[0][0])) is not None:
        return only
    if len(short) < 2:
        return Searched(None, None, "the graph goes through at less than two short lengths")
    base = baseline(short[0][1], short[1][1])
    right = max(length for length, _ in short)
    for length in sorted({*PROBES, max_length, *_beyond_tables(search, short[0][1])}):
        if right < length <= max_length:
            run = search.run(length)
            if is_spent(run):
                return Searched(None, right, f"at {length}, {run.stopped[0] if run.stopped else 'too much is needed'}")
            if run.stopped is not None or fault(run, base) is not None:
                return _bisect(search, base, right, (length, run))
            right = length  # the bisection starts from here
    return Searched(None, right, _not_followed(short[0][1]))


def _not_followed(run: Run) -> str:
    """Return what of a run could not be followed, in words; nothing where all was."""
    reasons = [value.reason for value in run.values.values() if isinstance(value, Unknown)]
    return f"{len(reasons)} values are not known: {reasons[0]}" if reasons else ""


def _beyond_tables(search: _Search, run: Run) -> list[int]:
    """Return the first lengths beyond the tables that position values are made of.

    A long sequence makes index arrays too large to compute, so that an end may not show there.
    """
    values = [operand.value for meeting in run.meetings for operand in meeting.operands if operand]
    names = {name for value in values if isinstance(value, Position | Constant) for name in value.stored}
    shapes = [search.graph.constants[name].shape for name in names if name in search.graph.constants]
    sizes = {size for shape in shapes if len(shape) > 1 for size in shape[:-1] if size >= TABLE}
    return [size + 1 for size in sorted(sizes)[:TABLES]]


def _short(search: _Search) -> Iterator[tuple[int, Run]]:
    """Yield two short lengths at which the graph goes through, with the runs."""
    count = 0
    kinds = axes_of(search.graph)
    usual = next(size for name, size in default_sizes(search.graph, search.sizes).items() if kinds[name] == search.axis)
    # a sound is shorter than its number of samples says: lengths beside the usual one
    samples = (usual, usual + 640, 401, 441, 16000, 17280, 161, 121)
    lengths = (*SHORT, *traced_lengths(search.graph)) if search.axis == "length" else samples
    for length in dict.fromkeys(lengths):
        run = search.run(length)
        if run.stopped is None:
            count += 1
            yield length, run
        if count == 2:
            return


def _only(search: _Search, length: int) -> Searched | None:
    """Return the end of a graph that goes through at one length alone, which it was traced at; None for others."""
    run = search.run(length + 1)
    if run.stopped is None or is_spent(run):
        return None
    reason, node = run.stopped
    words = f"of the lengths that were tried this one alone goes through: {reason}"
    return Searched(AxisEnd(search.axis, length, "refuses", node, words, run.nodes[-1]), length)


def _bisect(search: _Search, base: ShortLengths, right: int, beyond: tuple[int, Run]) -> Searched:
    """Return the end between a length that is right and one that is not, with the run there."""
    wrong, run = beyond
    why, stopped, guesses = fault(run, base), run.stopped, _guesses(run, base)
    while wrong - right > 1:
        length = next((size for size in guesses if right < size < wrong), (right + wrong) // 2)
        guesses = [size for size in guesses if size != length]  # each is tried once
        run = search.run(length)
        now = fault(run, base)
        if now is None and run.stopped is None:
            right = length
        else:
            wrong, why, stopped, guesses = length, now, run.stopped, guesses or _guesses(run, base)
    if why is None:
        # positions have no part in what stops the graph there: they do not end, and nothing longer can be tried
        reason, node = stopped or ("", "")
        return Searched(None, right, f"at {wrong}, it stops for another reason: {node}: {reason}")
    return Searched(AxisEnd(search.axis, right, why.beyond, why.node, why.reason, why.record), right)


def _guesses(run: Run, base: ShortLengths) -> list[int]:
    """Return lengths at which the end may be: sizes of tables say it sooner than bisection."""
    why = fault(run, base)
    if why is None:
        return []
    stored = (operand.value for operand in why.record.operands if operand and not is_data(operand.value))
    sizes = {size for value in stored for size in shape_of(value) or () if size > 2}
    # tables of distances have twice as many rows but one; some leave their first rows to padding
    return [guess for size in sorted(sizes) for guess in (size, size + 1, size - 2, size - 1, (size + 1) // 2)]
