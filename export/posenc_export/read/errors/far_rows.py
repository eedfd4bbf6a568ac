"""Rows at positions far out, computed densely: a graph is read once, and again from the nodes on that count positions.

A graph that counts positions itself cannot be given any. Where a node counts (Range, CumSum of ones, NonZero of ones),
its count is started elsewhere, and the nodes between it and the rows are computed again: a million rows are a few
hundred turns of a few nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx

from posenc_export.read.graph import Graph, Node
from posenc_export.read.interpret.budget import Budget, Stopped
from posenc_export.read.interpret.control import walk
from posenc_export.read.interpret.state import State
from posenc_export.read.values import Array, Position, Run, Value

LENGTH = 4099
"""Rows of a turn: a prime, unlike sizes of tensors."""
COUNTING = ("Range", "CumSum", "NonZero", "Loop")
"""Operators that count places."""


@dataclass(frozen=True)
class FarRows:
    """What is computed again at other positions.

    Args:
        graph: the nodes between what counts and the rows, in order.
        run: the whole graph, at LENGTH places from position 0 on.
        counts: the tensors that hold positions, or blocks of so many positions each.
        targets: the tensors that hold rows.
        budget: how much a turn may cost.
    """

    graph: Graph
    run: Run
    counts: Mapping[str, int]
    targets: tuple[str, ...]
    budget: Budget

    @property
    def stride(self) -> int:
        """How many positions a turn is ahead of the one before: as many as there are whole blocks of them."""
        block = max(self.counts.values())
        return (LENGTH - self.stored) // block * block

    @property
    def stored(self) -> int:
        """How many of the first rows a graph takes from a table, and counts the blocks of the others alone."""
        firsts = ((value.array.flat[0], block) for value, block in self._counted() if block > 1)
        return max((int(first) * block for first, block in firsts), default=0)

    def at(self, first: int) -> dict[str, Array] | None:
        """Return the rows of LENGTH positions from one on; None where the graph refuses them, or leaves them out.

        Args:
            first: the first position, at which a block begins.
        """
        values: dict[str, Value] = dict(self.run.values)
        # stored rows stay where they are: those behind them move, and are put in their place
        start = max(first - self.stored, 0) if self.stored else first  # a bias is computed before 0, too
        for name, (known, block) in zip(self.counts, self._counted(), strict=True):
            with np.errstate(over="ignore"):
                moved = (known.array.astype(np.int64) + start // block).astype(known.array.dtype)
            values[name] = replace(known, array=moved)
        state = State(self.graph, self.budget, values, set())
        try:
            walk(state, self.graph)
        except Stopped:
            return None
        rows = {name: value.array for name in self.targets if isinstance(value := state.values.get(name), Position)}
        if start < first:
            rows = {name: _from(array, first - start) for name, array in rows.items()}
        return rows if len(rows) == len(self.targets) else None

    def _counted(self) -> Iterator[tuple[Position, int]]:
        """Yield what counts, and how many positions each step of it is."""
        for name, block in self.counts.items():
            known = self.run.values[name]
            assert isinstance(known, Position)  # what counts is computed
            yield known, block


def _from(array: Array, first: int) -> Array:
    """Return rows from one on, and those before it behind the last; an array without LENGTH rows as it is."""
    return np.roll(array, -first, array.shape.index(LENGTH)) if LENGTH in array.shape else array


def far_rows(graph: Graph, run: Run, targets: Collection[str], source: str | None, budget: Budget) -> FarRows | None:
    """Return what computes rows at other positions; None where they do not follow from a count that is known.

    Args:
        graph: the graph.
        run: its interpretation at LENGTH places, from position 0 on.
        targets: the tensors of rows.
        source: the input that holds positions; None where the graph counts them.
        budget: how much a turn may cost.
    """
    counts = {source: 1} if source is not None else counts_of(path_from(graph, targets), run)
    return rows_from(graph, run, targets, counts, budget)


def rows_from(
    graph: Graph, run: Run, targets: Collection[str], counts: Mapping[str, int], budget: Budget
) -> FarRows | None:
    """Return what computes rows from counts of places; None where they do not follow from these."""
    if not counts or any(not isinstance(run.values.get(name), Position) for name in counts):
        return None
    reached, path = set(counts), []
    for node in path_from(graph, targets):
        # what counts is given: a count of a count is not computed again
        if reached & _taken_by(node) and not set(node.outputs) & set(counts):
            path.append(node)
            reached.update(name for name in node.outputs if name)
    if not reached.issuperset(targets):
        return None
    return FarRows(replace(graph, nodes=tuple(path), constants={}), run, counts, tuple(targets), budget)


def path_from(graph: Graph, targets: Collection[str]) -> list[Node]:
    """Return the nodes of a graph that tensors are made by, in order."""
    makers = {name: node for node in graph.nodes for name in node.outputs if name}
    needed, waiting = set(), [name for name in targets if name in makers]
    while waiting:
        node = makers[waiting.pop()]
        if node.name not in needed:
            needed.add(node.name)
            waiting += [name for name in _taken_by(node) if name in makers]
    return [node for node in graph.nodes if node.name in needed]


def counts_of(nodes: Sequence[Node], run: Run, last: bool = False) -> dict[str, int]:
    """Return the first tensors on the way to rows that count places, or blocks of places, and how many a block has.

    Args:
        nodes: that lead to the rows.
        run: the graph at LENGTH places.
        last: whether a count may also end at 0.
    """
    outputs = [node.outputs[0] for node in nodes if node.op_type in COUNTING]
    values = {name: value.array for name in outputs if isinstance(value := run.values.get(name), Position)}
    counts = {name: 1 for name, array in values.items() if is_count(array, last)}
    return counts or {name: block for name, array in values.items() if (block := _block(array))}


def _block(array: Array) -> int:
    """Return how many places a block has where an array counts the blocks of LENGTH places; 0 where it does not.

    Angle addition takes the high digits of positions once for a block, and the low ones from a table. It may count from
    the first block whose rows no table has.
    """
    if array.ndim != 1 or not array.size or array.dtype.kind not in "iu":
        return 0
    first = int(array[0])
    if first > 0 and len(array) == 1:  # a number, as that of the last place is
        return 0
    if first < 0 or not np.array_equal(array, first + np.arange(len(array))):
        return 0
    blocks = first + len(array)
    fitting = [1 << bits for bits in range(1, LENGTH.bit_length()) if -(-LENGTH // (1 << bits)) == blocks]
    return fitting[0] if len(fitting) == 1 else 0


def is_count(array: Array, last: bool = False) -> bool:
    """Return whether an array counts LENGTH places along one of its axes, from about 0 on; or, with `last`, up to 0."""
    if array.dtype.kind not in "iuf" or LENGTH not in array.shape or array.size % LENGTH:
        return False
    rows = np.moveaxis(array, array.shape.index(LENGTH), -1).reshape(-1, LENGTH).astype(np.float64)
    begins = abs(rows[0, 0]) <= 1 or (last and rows[0, -1] == 0)
    return bool((rows == rows[:1]).all() and begins and (np.diff(rows[0]) == 1).all())


def _taken_by(node: Node) -> set[str]:
    """Return the tensors that a node takes, those that graphs inside it take from outside too."""
    names = set(node.inputs)
    waiting = list(_graphs(node.attributes))
    while waiting:
        inner = waiting.pop()
        for proto in inner.node:
            names.update(proto.input)
            waiting += [attribute.g for attribute in proto.attribute if attribute.HasField("g")]
        names.update(output.name for output in inner.output)
    return names - {""}


def _graphs(attributes: Mapping[str, object]) -> Iterator[onnx.GraphProto]:
    return (value for value in attributes.values() if isinstance(value, onnx.GraphProto))
