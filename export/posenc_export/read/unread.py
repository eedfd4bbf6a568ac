"""What an interpretation did not read: where it stopped, and values that it does not know."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from posenc_export.read.first_run import is_spent
from posenc_export.read.graph import Graph
from posenc_export.read.inspection import NotJudged
from posenc_export.read.interpret.budget import Budget
from posenc_export.read.interpret.meetings import PRODUCTS, is_float
from posenc_export.read.interpret.run import interpret
from posenc_export.read.interpret.sizes import Axis, axes_of
from posenc_export.read.interpret.state import is_data, shape_of, small_numbers
from posenc_export.read.recognise.encodings import encodings_of
from posenc_export.read.recognise.named import Named
from posenc_export.read.values import Array, Data, Meeting, Position, Run, Unknown

OTHERS: Mapping[Axis, tuple[int, ...]] = {
    "batch": (2, 3),
    "length": (1, 2, 5, 64),
    "source": (2, 5),
    "past": (1, 7),
    "total": (2, 64),
    "samples": (401, 16000),
    "channels": (1, 4),
    "height": (32, 224),
    "width": (32, 224),
    "three": (1, 4),
    "single": (2,),
}
"""Other sizes of each kind of axis, at which a node that refuses is tried again."""
LARGEST_BATCH = 4096
BROADCASTING = ("Add", "Sub", "Mul", "Div", "Where", "Pow", "And", "Or", "Equal", "Less", "Greater", "Min", "Max")
"""Operators whose two first inputs must fit each other, axis by axis."""


@dataclass(frozen=True)
class Stop:
    """Where reading stopped.

    Args:
        node: the node there.
        words: why, and what that means for what lies behind.
        never_runs: whether the node refuses every call.
    """

    node: str
    words: str
    never_runs: bool


def stop_of(graph: Graph, run: Run, shown: str, budget: Budget) -> Stop | None:
    """Return where reading stopped; None where the graph went through.

    Args:
        graph: the graph.
        run: its interpretation.
        shown: the reason as the inspection shows it, behind the name of the node.
        budget: how much another interpretation may cost.
    """
    if run.stopped is None:
        return None
    reason, node = run.stopped
    if not is_spent(run) and _refuses_all(graph, run, budget):
        return Stop(node, f"it refuses every call: {reason}", never_runs=True)
    reason = shown.removeprefix(f"{node}: ") or reason
    return Stop(node, f"reading stopped there, and what lies behind was not read: {reason}", never_runs=False)


def _refuses_all(graph: Graph, run: Run, budget: Budget) -> bool:
    """Return whether the node that stopped a run refuses whatever sizes a call has.

    That some sizes are refused proves nothing: a file may be made for one size of images. A node is said to refuse all
    where its sizes miss each other by the same number, or the same factor, whatever other size a call has. A number of
    sequences could make up for a factor: that batch is tried, too.
    """
    node = run.nodes[-1]
    if any(isinstance(o.value, Position) and o.value.inputs for o in node.operands if o is not None):
        return False  # numbers that were made up for an input
    misfit = _misfit(node)
    kinds = set(axes_of(graph).values())
    factors = {round(value) for name, value in misfit if name == "factor" and 1 < value <= LARGEST_BATCH}
    batches: list[Mapping[str, int]] = (
        [{"batch": size} for size in (*OTHERS["batch"], *factors)] if "batch" in kinds else []
    )
    others: list[Mapping[str, int]] = [{kind: size} for kind in sorted(kinds - {"batch"}) for size in OTHERS[kind]]
    for sizes in (*others, *batches):
        try:
            other = interpret(graph, sizes, budget=budget)
        except ValueError:  # sizes that no array has
            return False
        if other.stopped is None or is_spent(other):
            return False
        if sizes in others:
            misfit &= _misfit(other.nodes[-1]) if other.stopped[1] == node.node else frozenset()
    return bool(misfit)


def _misfit(node: Meeting) -> frozenset[tuple[str, float]]:
    """Return by which number, and by which factor, two sizes miss each other in a node; nothing for other refusals."""
    shapes = [shape_of(operand.value) if operand is not None else None for operand in node.operands]
    if node.op_type == "Reshape":
        return _misfit_of_reshape(node)
    if len(shapes) < 2 or shapes[0] is None or shapes[1] is None:
        return frozenset()
    if node.op_type in ("MatMul", "FusedMatMul") and len(shapes[0]) and len(shapes[1]) > 1:
        pairs = [(shapes[0][-1], shapes[1][-2])]
    elif node.op_type in BROADCASTING:
        pairs = [(a, b) for a, b in zip(shapes[0][::-1], shapes[1][::-1], strict=False) if 1 not in (a, b)]
    else:
        return frozenset()
    first = next(((a, b) for a, b in pairs if a != b and a and b), None)
    return frozenset() if first is None else frozenset({("gap", first[0] - first[1]), ("factor", first[0] / first[1])})


def _misfit_of_reshape(node: Meeting) -> frozenset[tuple[str, float]]:
    """Return how many times as many elements a Reshape asks for as there are."""
    operands = node.operands[:2]
    if len(operands) < 2 or operands[0] is None or operands[1] is None:
        return frozenset()
    sizes, shape = small_numbers(operands[1].value), shape_of(operands[0].value)
    if sizes is None or shape is None or not math.prod(shape):
        return frozenset()
    asked = [int(size) for size in sizes.reshape(-1)]
    if any(not size and place >= len(shape) for place, size in enumerate(asked)):
        return frozenset()
    # 0 is the size of the same axis, and -1 is whatever is left
    asked = [size or shape[place] for place, size in enumerate(asked)]
    return frozenset({("factor", abs(math.prod(asked)) / math.prod(shape))}) - {("factor", 1.0)}


def unread_of(graph: Graph, run: Run) -> Iterator[NotJudged]:
    """Yield the nodes of which the interpretation does not know what comes out, and on which others depend.

    What is not known once is not known in all that follows: the first node says it.
    """
    taken = {operand.tensor for node in run.nodes for operand in node.operands if operand is not None}
    taken.update(graph.outputs)
    for node in run.nodes:
        if run.stopped is not None and node.node == run.stopped[1]:
            continue
        if any(operand is not None and isinstance(operand.value, Unknown) for operand in node.operands):
            continue
        outcomes = {name: run.values.get(name) for name in node.outputs if name in taken}
        reasons = [value.reason for value in outcomes.values() if isinstance(value, Unknown)]
        if reasons:
            yield NotJudged(node.node, f"{node.op_type} and what follows it were not read: {reasons[0]}")
    yield from _not_computed(graph, run)


def _not_computed(graph: Graph, run: Run) -> Iterator[NotJudged]:
    """Yield the first node in which numbers of positions meet data that were too large, or had no kernel."""
    returned = [run.values.get(name) for name in graph.outputs]
    if any(isinstance(value, Data) and value.positional and is_float(value) for value in returned):
        yield NotJudged("outputs", "numbers that follow from positions are returned, and were too large to be computed")
    for meeting in run.meetings:
        values = [operand.value for operand in meeting.operands if operand is not None]
        late = [value for value in values if isinstance(value, Data) and value.positional and is_float(value)]
        # a product with a weight makes data of positions
        meets = any(map(is_data, values)) or meeting.op_type in PRODUCTS
        if late and meets and len(late[0].shape) > 1:
            words = f"numbers that follow from positions meet data, {list(late[0].shape)}, and were not computed"
            yield NotJudged(meeting.node, words)
            return


def untaken_of(graph: Graph, run: Run, named: Sequence[Named], budget: Budget) -> Iterator[NotJudged]:
    """Yield what meets data in the branch alone that an input leaves out in a usual call.

    Args:
        graph: the graph.
        run: its interpretation.
        named: the encodings there.
        budget: how much another interpretation may cost.
    """
    known = list(named)
    for name, value in dict(_choices(graph, run)).items():
        try:
            other = interpret(graph, feeds={name: np.logical_not(value)}, budget=budget)
        except ValueError:  # sizes that no array has
            continue
        for entry in encodings_of(other):
            if not any(_is_alike(entry, one) for one in known):
                known.append(entry)
                words = f"{entry.form.family} ({entry.form.name})" if entry.form.name else entry.form.family
                yield NotJudged(entry.nodes[0], f"met where {name} is {not value.reshape(-1)[0]} alone: {words}")


def _is_alike(entry: Named, other: Named) -> bool:
    """Return whether two encodings are of one family, and of the same numbers or parameters."""
    if entry.form.family != other.form.family:
        return False
    is_same = entry.form.name == other.form.name and dict(entry.form.parameters) == dict(other.form.parameters)
    return is_same or not entry.stored or bool(set(entry.stored) & set(other.stored))


def _choices(graph: Graph, run: Run) -> Iterator[tuple[str, Array]]:
    """Yield the inputs that choose a branch, with what they are in a run."""
    given = {item.name for item in graph.inputs}
    for node in run.nodes:
        condition = node.operands[0].value if node.op_type == "If" and node.operands and node.operands[0] else None
        for name in condition.inputs & given if isinstance(condition, Position) else ():
            value = run.values.get(name)
            if isinstance(value, Position) and value.array.dtype == np.bool_ and value.array.size == 1:
                yield name, value.array
