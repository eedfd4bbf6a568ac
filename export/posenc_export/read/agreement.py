"""Whether position values still fit the data that they meet, as they did at short lengths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from posenc_export.read.interpret.meetings import PRODUCTS
from posenc_export.read.interpret.state import is_data, is_positional, shape_of, small_numbers
from posenc_export.read.times_weights import key_of, touches_positions, weighted_in
from posenc_export.read.values import Constant, Meeting, Position, Run, Shape

Beyond = Literal["refuses", "broadcasts", "repeats", "overruns"]
"""What a graph does with a length that it is not made for: it fails, runs on with too few places, reads rows twice, or
reads what lies in memory behind its table."""
LINES = ((1, 0), (2, -1), (2, 0), (1, 1), (1, -1), (2, 1))
"""How many places a position value has for a number of tokens: factors and summands."""


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
