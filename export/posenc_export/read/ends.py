"""Where positions end: the last length at which a graph is right, and what it does at the first one beyond.

A graph is right at a length if it goes through, if every position value has along each axis as many places as the data
that it meets, as at a short length, and if no row of a table is read twice that is read once at a short length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from posenc_export.read.first_run import is_spent, traced_lengths
from posenc_export.read.graph import Graph
from posenc_export.read.interpret.budget import Budget
from posenc_export.read.interpret.meetings import PRODUCTS
from posenc_export.read.interpret.run import interpret
from posenc_export.read.interpret.sizes import axes_of, default_sizes
from posenc_export.read.interpret.state import is_data, is_positional, shape_of, small_numbers
from posenc_export.read.values import Constant, Meeting, Position, Run, Shape, Unknown

SEAMS = {"Softmax", "LayerNormalization", "SkipLayerNormalization", "SimplifiedLayerNormalization", "LogSoftmax"}
"""Operators behind which data are no longer positions times a weight."""
Beyond = Literal["refuses", "broadcasts", "repeats", "overruns"]
"""What a graph does with a length that it is not made for: it fails, runs on with too few places, reads rows twice, or
reads what lies in memory behind its table."""
LINES = ((1, 0), (2, -1), (2, 0), (1, 1), (1, -1), (2, 1))
"""How many places a position value has for a number of tokens: factors and summands."""
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


def key_of(meeting: Meeting) -> str:
    """Return what tells a node from others: its outputs, which are unique, unless loops make them again."""
    return "|".join(meeting.outputs)


def touches_positions(run: Run) -> bool:
    """Return whether the node at which a run stopped takes a position value, or one times a weight."""
    if run.stopped is None or not run.nodes or run.nodes[-1].node != run.stopped[1]:
        return False
    operands = [operand for operand in run.nodes[-1].operands if operand]
    if any(is_positional(operand.value) for operand in operands):
        return True
    weighted = weighted_in(run)
    return any(operand.tensor in weighted for operand in operands)


def weighted_in(run: Run) -> set[str]:
    """Return the tensors that are positions times weights, and what follows from them within a layer."""
    weighted: set[str] = set()
    # a meeting without data is one of positions with a weight
    meetings = {key_of(meeting) for meeting in run.meetings}
    for node in run.nodes:
        operands = [operand for operand in node.operands if operand]
        made = key_of(node) in meetings and not any(is_data(operand.value) for operand in operands)
        if (made and node.op_type != "Gather") or any(operand.tensor in weighted for operand in operands):
            weighted.update(node.outputs if node.op_type not in SEAMS else ())
    return weighted


@dataclass(frozen=True)
class FaultAtLength:
    """What is wrong at a length.

    Args:
        beyond: what the graph does there.
        node: the node in which it does.
        reason: why, in words.
        record: the node with what came in.
    """

    beyond: Beyond
    node: str
    reason: str
    record: Meeting


@dataclass(frozen=True)
class Follows:
    """A size that follows from another one at two lengths: factor times size plus summand."""

    node: str
    operand: int
    axis: int
    tensor: str
    tensor_axis: int
    line: tuple[int, int]


@dataclass(frozen=True)
class ShortLengths:
    """What holds at two short lengths.

    Args:
        aligned: axes, counted from the last one, along which operands of a meeting are as long as each other; by node.
        follows: sizes of position values that meet a weight, and the sizes of data that they follow from.
        once: nodes that read each row of a table once.
        changing: axes of position values whose last two places differ: node, operand, axis.
    """

    aligned: Mapping[str, frozenset[tuple[int, int, int]]]
    follows: tuple[Follows, ...]
    once: frozenset[str]
    changing: frozenset[tuple[str, int, int]]


def baseline(first: Run, second: Run) -> ShortLengths:
    """Return what holds in two runs of different lengths."""
    # branches may differ between lengths: what is in one run alone says nothing
    others = {key_of(meeting): meeting for meeting in second.meetings}
    pairs = [(meeting, others[key_of(meeting)]) for meeting in first.meetings if key_of(meeting) in others]
    aligned = {key_of(meeting): frozenset(_aligned(meeting)) & frozenset(_aligned(other)) for meeting, other in pairs}
    sizes = dict(_sizes(first, second))
    follows = tuple(item for meeting, other in pairs for item in _follows(meeting, other, sizes))
    once = frozenset(
        key_of(meeting) for meeting, other in pairs if _reads_once(first, meeting) and _reads_once(second, other)
    )
    changing = _changing(first, aligned) & _changing(second, aligned)
    return ShortLengths(aligned, follows, once, changing)


def fault(run: Run, base: ShortLengths) -> FaultAtLength | None:
    """Return what is wrong in a run with position values, None where all is as at short lengths."""
    if run.stopped is not None:
        # the node that refuses is the last in the list
        record = run.nodes[-1]
        return FaultAtLength("refuses", record.node, run.stopped[0], record) if touches_positions(run) else None
    for meeting in run.meetings:
        reason = _misaligned(meeting, base.aligned.get(key_of(meeting), frozenset()))
        if reason is not None:
            return FaultAtLength("broadcasts", meeting.node, reason, meeting)
        reason = _overrun(meeting)
        if reason is not None:
            return FaultAtLength("overruns", meeting.node, reason, meeting)
        # digits of positions are read again, but what is made of them is not
        if key_of(meeting) in base.once and not _reads_once(run, meeting) and _repeats(run, base):
            return FaultAtLength("repeats", meeting.node, "rows of its table are read more than once", meeting)
    meetings = {key_of(meeting): meeting for meeting in run.meetings}
    for item in base.follows:
        reason = _parted(run, meetings.get(item.node), item)
        if reason is not None:
            return FaultAtLength("broadcasts", meetings[item.node].node, reason, meetings[item.node])
    return None


def _overrun(meeting: Meeting) -> str | None:
    """Return what is wrong with the tokens of PagedAttention: ONNX Runtime does not hold them against its tables."""
    cos = 8
    if meeting.op_type != "PagedAttention" or len(meeting.operands) <= cos or meeting.operands[cos] is None:
        return None
    shapes = _shapes(meeting)
    tokens, rows = (shapes[0] or (0,))[0], (shapes[cos] or (0,))[0]
    return f"{tokens} tokens and {rows} rows of cosines" if tokens > rows else None


def _shapes(meeting: Meeting) -> list[Shape | None]:
    return [shape_of(operand.value) if operand else None for operand in meeting.operands]


def _aligned(meeting: Meeting) -> Iterator[tuple[int, int, int]]:
    """Yield pairs of operands and the axis along which they have equally many places, more than one."""
    if not _elementwise(meeting):
        return
    shapes = _shapes(meeting)
    for i, operand in enumerate(meeting.operands):
        # the left one is a position value or a table, the right one data
        if operand is None or is_data(operand.value):
            continue
        for j, other in enumerate(meeting.operands):
            first, second = shapes[i], shapes[j]
            if other is None or not is_data(other.value) or first is None or second is None:
                continue
            # shapes are broadcast from the last axis on
            for axis in range(1, min(len(first), len(second)) + 1):
                if first[-axis] == second[-axis] > 1:
                    yield i, j, axis


def _elementwise(meeting: Meeting) -> bool:
    """Return whether shapes of a meeting are broadcast to each other."""
    others = {*PRODUCTS, "Gather", "Concat", "GatherElements", "ScatterND"}
    return meeting.op_type not in others and not meeting.op_type.endswith(("Attention", "Embedding", "Normalization"))


def _misaligned(meeting: Meeting, pairs: frozenset[tuple[int, int, int]]) -> str | None:
    """Return what is wrong with a meeting whose operands were as long as each other at short lengths."""
    shapes = _shapes(meeting)
    for i, j, axis in sorted(pairs):
        first, second = shapes[i], shapes[j]
        if first is None or second is None:
            continue
        sizes = [shape[-axis] if len(shape) >= axis else 1 for shape in (first, second)]
        # a size of 1 would be broadcast, and is as wrong as a size that is refused
        if sizes[0] != sizes[1]:
            return f"{sizes[0]} places of positions for {sizes[1]} of data: shapes {first} and {second}"
    return None


def _sizes(first: Run, second: Run) -> Iterator[tuple[tuple[int, int], tuple[str, int]]]:
    """Yield sizes of data at two lengths, and where the first such pair stands."""
    seen: set[tuple[int, int]] = set()
    # what positions and weights give is as long as the positions: data must be as long without them
    weighted = weighted_in(first)
    for name, value in first.values.items():
        other = second.values.get(name)
        if other is None or name in weighted or not is_data(value) or not is_data(other):
            continue
        for axis, pair in enumerate(zip(shape_of(value) or (), shape_of(other) or (), strict=False)):
            if pair not in seen and pair[0] != pair[1]:
                seen.add(pair)
                yield pair, (name, axis)


def _follows(meeting: Meeting, other: Meeting, sizes: Mapping[tuple[int, int], tuple[str, int]]) -> Iterator[Follows]:
    """Yield how sizes of positions that meet a weight follow from sizes of data."""
    for i, (operand, later) in enumerate(zip(meeting.operands, other.operands, strict=False)):
        if operand is None or later is None or not is_positional(operand.value) or _elementwise(meeting):
            continue
        pairs = zip(shape_of(operand.value) or (), shape_of(later.value) or (), strict=False)
        for axis, (short, long) in enumerate(pairs):
            # the plainest line that holds at both lengths, in the first tensor of the graph that has it
            fitting = (
                (place, line)
                for line in LINES
                for pair, place in sizes.items()
                if short != long
                and all(line[0] * size + line[1] == n for size, n in zip(pair, (short, long), strict=True))
            )
            place_and_line = next(fitting, None)
            if place_and_line is not None:
                (tensor, tensor_axis), line = place_and_line
                yield Follows(key_of(meeting), i, axis, tensor, tensor_axis, line)


def _changing(run: Run, aligned: Mapping[str, frozenset[tuple[int, int, int]]]) -> frozenset[tuple[str, int, int]]:
    """Return the axes of position values along which the last two places differ."""
    places = ((meeting, i, axis) for meeting in run.meetings for i, _, axis in aligned.get(key_of(meeting), ()))
    return frozenset((key_of(meeting), i, axis) for meeting, i, axis in places if _differs(meeting, i, axis) is True)


def _repeats(run: Run, base: ShortLengths) -> bool:
    """Return whether a position value has the same numbers in its last two places, unlike at short lengths."""
    meetings = {key_of(meeting): meeting for meeting in run.meetings}
    places = ((meetings[key], i, axis) for key, i, axis in base.changing if key in meetings)
    return any(_differs(meeting, i, axis) is False for meeting, i, axis in places)


def _differs(meeting: Meeting, i: int, axis: int) -> bool | None:
    """Return whether the last two places of an operand differ; None where it is not computed."""
    operand = meeting.operands[i]
    if operand is None or not isinstance(operand.value, Position) or operand.value.array.shape[-axis] < 2:
        return None
    last = np.moveaxis(operand.value.array, -axis, 0)[-2:]
    return not np.array_equal(last[0], last[1])


def _parted(run: Run, meeting: Meeting | None, item: Follows) -> str | None:
    """Return what is wrong with a size that followed from another at short lengths."""
    value = run.values.get(item.tensor)
    operand = meeting.operands[item.operand] if meeting else None
    shape, data = shape_of(operand.value) if operand else None, shape_of(value) if value is not None else None
    if shape is None or data is None or len(shape) <= item.axis or len(data) <= item.tensor_axis:
        return None
    expected = item.line[0] * data[item.tensor_axis] + item.line[1]
    if shape[item.axis] == expected or _chosen_from(run, shape[item.axis]):
        return None
    return f"{shape[item.axis]} places of positions where {data[item.tensor_axis]} tokens need {expected}"


def _chosen_from(run: Run, places: int) -> bool:
    """Return whether scores of so many distances are taken by indices that follow from positions, as DeBERTa does.

    Distances may then be fewer than tokens need, since far ones share theirs; an index beyond them would be refused.
    """
    for node in run.nodes:
        if node.op_type != "GatherElements" or len(node.operands) < 2:
            continue
        data, indices = node.operands[:2]
        shape, axis = shape_of(data.value) if data else None, node.attributes.get("axis", 0)
        if shape is None or indices is None or not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
            continue
        if shape[axis] == places and is_positional(indices.value):
            return True
    return False


def _reads_once(run: Run, meeting: Meeting) -> bool:
    """Return whether a node reads no row of a table of positions twice for a sequence."""
    # rows of words are data, and words come more than once
    if meeting.op_type != "Gather" or not is_positional(run.values[meeting.outputs[0]]):
        return False
    table, indices = meeting.operands[0], meeting.operands[1]
    if table is None or indices is None or not isinstance(table.value, Constant):
        return False
    array = small_numbers(indices.value)
    if array is None or array.ndim not in (1, 2) or array.shape[-1] < 2:
        # what is too large to be computed is not judged
        return array is None
    rows = np.sort(array.reshape(-1, array.shape[-1]), axis=-1)
    return bool((np.diff(rows, axis=-1) != 0).all())


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
