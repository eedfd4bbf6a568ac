"""Graphs inside nodes: the branch of an If, the turns of a Loop and of a Scan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import onnx

from posenc_export.read.graph import Graph, Node
from posenc_export.read.graph.read import inner_graph
from posenc_export.read.interpret.budget import Stopped
from posenc_export.read.interpret.meetings import is_float
from posenc_export.read.interpret.movement import unmoved
from posenc_export.read.interpret.state import (
    SMALL,
    State,
    dtype_of,
    is_data,
    is_positional,
    shape_of,
    size_of,
    small_numbers,
)
from posenc_export.read.interpret.step import record_of, step
from posenc_export.read.values import Constant, Data, Operand, Position, Unknown, Value

ITERATIONS = 256
"""How many turns of a loop are taken."""
DAMAGE = (AssertionError, ValueError, TypeError, IndexError, KeyError, ArithmeticError, AttributeError, RuntimeError)
"""What nodes raise whose attributes and inputs are not those of their operator."""
Operands = Sequence[Operand | None]


def walk(state: State, graph: Graph) -> None:
    """Interpret all nodes of a graph; raises Stopped."""
    state.values.update(graph.constants)
    for node in graph.nodes:
        state.visit(node)
        enter = CONTROL.get(node.op_type) if not node.domain else None
        operands = state.operands(node)
        try:
            if enter is None:
                step(state, node, operands)
            else:
                state.add(record_of(node, operands), enter(state, node, operands))
        except Stopped as stop:
            if state.nodes[-1:] and state.nodes[-1].node == stop.node:
                raise  # a node in the graph inside refused
            _refuse(state, node, operands, stop)
        except DAMAGE as error:
            _refuse(state, node, operands, Stopped(f"it cannot be read: {type(error).__name__}", node.name))


def _refuse(state: State, node: Node, operands: Operands, stop: Stopped) -> None:
    """Note a node that cannot run as the last in the list, so that others see what came in, and raise why."""
    if stop.node == node.name:
        state.add(record_of(node, operands), [Unknown(stop.reason)] * len(node.outputs))
    raise stop from None


def _inside(state: State, node: Node, attribute: str) -> Graph:
    proto = node.attributes[attribute]
    assert isinstance(proto, onnx.GraphProto)
    return inner_graph(proto, state.graph)


def _outcome(state: State, graph: Graph) -> list[Value]:
    """Interpret a graph inside a node, and return its outputs."""
    walk(state, graph)
    return [state.value(name) for name in graph.outputs]


def _if(state: State, node: Node, operands: Operands) -> list[Value]:
    """Take the branch that is known, or both, and merge what comes out."""
    condition = small_numbers(operands[0].value) if operands and operands[0] else None
    if condition is not None and condition.size == 1:
        taken = "then_branch" if bool(condition.reshape(())[()]) else "else_branch"
        return _outcome(state, _inside(state, node, taken))
    # data decide: positions may meet data in either branch
    outcomes = [_outcome(state, _inside(state, node, branch)) for branch in ("then_branch", "else_branch")]
    return [_merged(node.outputs[i], *values) for i, values in enumerate(zip(*outcomes, strict=True))]


def _merged(name: str, first: Value, second: Value) -> Value:
    """Return what is known of a value that is one or the other: its shape, where they agree on it."""
    shape, dtype = shape_of(first), dtype_of(first)
    if shape is None or dtype is None or shape != shape_of(second) or dtype != dtype_of(second):
        return Unknown("the branches of an If differ in shape, and data decide which is taken")
    # rows of either branch follow from positions, whichever is taken
    if not is_data(first) and not is_data(second) and (is_positional(first) or is_positional(second)):
        return Data(shape, dtype, positional=True)
    return Data(shape, dtype, unmoved(name, shape))


def _loop(state: State, node: Node, operands: Operands) -> list[Value]:
    """Take the turns of a Loop whose number is known, as long as its condition is."""
    count = small_numbers(operands[0].value) if operands[0] else None
    going = small_numbers(operands[1].value) if operands[1] else np.array(True)
    if (
        going is None
        or (count is None and operands[0])
        or (count is not None and int(count.reshape(())[()]) > ITERATIONS)
    ):
        return [Unknown("a Loop whose number of turns is not known, or large")] * len(node.outputs)
    graph = _inside(state, node, "body")
    # what is carried from turn to turn comes first among the outputs, what is collected after it
    carried = [operand.value if operand else Unknown("left out") for operand in operands[2:]]
    rows: list[list[Value]] = [[] for _ in graph.outputs[1 + len(carried) :]]
    limit = ITERATIONS if count is None else int(count.reshape(())[()])
    # as many turns as there are tokens count them
    counts = count is None or (operands[0] is not None and isinstance(operands[0].value, Position))
    for turn in range(limit):
        if not bool(going.reshape(())[()]):
            break
        number = np.array(turn, np.int64)
        values = [Position(number, sizes=True) if counts else _number(number), _number(going), *carried]
        state.values.update(zip((item.name for item in graph.inputs), values, strict=False))
        outputs = _outcome(state, graph)
        # the first output of a turn is whether there is another one
        carried = outputs[1 : 1 + len(carried)]
        for row, value in zip(rows, outputs[1 + len(carried) :], strict=True):
            row.append(value)
        following = small_numbers(outputs[0])
        if following is None:
            return [Unknown("a Loop whose end data decide")] * len(node.outputs)
        going = following
    scanned = [_stacked(name, row) for name, row in zip(node.outputs[len(carried) :], rows, strict=False)]
    return [*carried, *scanned]


def _scan(state: State, node: Node, operands: Operands) -> list[Value]:
    """Take the turns of a Scan along first axes; others are not followed."""
    ways = ("scan_input_axes", "scan_output_axes", "scan_input_directions", "scan_output_directions")
    count = node.attributes.get("num_scan_inputs", 0)
    straight = not any(np.any(np.asarray(node.attributes.get(way, 0))) for way in ways)
    values = [operand.value if operand else Unknown("left out") for operand in operands]
    if not isinstance(count, int) or not count or not straight or any(shape_of(value) is None for value in values):
        return [Unknown("a Scan that is not followed")] * len(node.outputs)
    # what is carried along a sequence may count it: numbers that change from turn to turn
    carried, sequences = [_counting(value) for value in values[:-count]], values[-count:]
    given = {item.name for item in state.graph.inputs}
    if any(o is not None and is_data(o.value) and o.tensor not in given for o in operands[-count:]):
        # a turn for each token: stored rows beside them are taken by place
        sequences = [_counted(value) for value in sequences]
    length = (shape_of(sequences[0]) or (0,))[0]
    if length > ITERATIONS:
        return [Unknown("a Scan of many turns")] * len(node.outputs)
    graph = _inside(state, node, "body")
    rows: list[list[Value]] = [[] for _ in graph.outputs[len(carried) :]]
    for turn in range(length):
        taken = [*carried, *(_row(value, turn) for value in sequences)]
        state.values.update(zip((item.name for item in graph.inputs), taken, strict=False))
        outputs = _outcome(state, graph)
        carried = outputs[: len(carried)]
        for row, value in zip(rows, outputs[len(carried) :], strict=True):
            row.append(value)
    return [*carried, *(_stacked(name, row) for name, row in zip(node.outputs[len(carried) :], rows, strict=False))]


def _counting(value: Value) -> Value:
    """Return a stored number as one that may follow from how many turns were taken."""
    array = small_numbers(value) if isinstance(value, Constant) else None
    return value if array is None or array.size > 1 or not isinstance(value, Constant) else Position(array, sizes=True)


def _counted(value: Value) -> Value:
    """Return stored rows as those of places, which a turn has one of."""
    if not isinstance(value, Constant) or not is_float(value) or size_of(value) > SMALL:
        return value
    try:
        return Position(value.load(), sizes=True, stored=value.stored)
    except ValueError:  # external data that are not there
        return value


def _number(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> Value:
    return Constant(array.shape, array.dtype, lambda: array)


def _row(value: Value, turn: int) -> Value:
    """Return what a turn of a Scan takes of a value."""
    if isinstance(value, Position):
        return replace(value, array=value.array[turn])
    array = small_numbers(value)
    if array is not None:
        return _number(array[turn])
    shape, dtype = shape_of(value), dtype_of(value)
    assert shape is not None
    assert dtype is not None
    return Data(shape[1:], dtype, positional=is_positional(value))


def _stacked(name: str, rows: Sequence[Value]) -> Value:
    """Return what the turns of a loop give, one after another."""
    shapes, dtype = {shape_of(row) for row in rows}, dtype_of(rows[0]) if rows else None
    arrays = list(_arrays(rows))
    if len(arrays) == len(rows) and rows and len(shapes) == 1:
        positions = [row for row in rows if isinstance(row, Position)]
        inputs = frozenset(name for row in positions for name in row.inputs)
        stored = frozenset(name for row in rows if isinstance(row, Position | Constant) for name in row.stored)
        return Position(np.stack(arrays), inputs, any(row.sizes for row in positions), stored)
    shape = shapes.pop() if len(shapes) == 1 else None
    if shape is None or dtype is None:
        return Unknown("what the turns of a loop give differs in shape")
    return Data((len(rows), *shape), dtype, unmoved(name, (len(rows), *shape)))


def _arrays(rows: Sequence[Value]) -> Iterator[np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    for row in rows:
        array = small_numbers(row)
        if array is not None:
            yield array


CONTROL: dict[str, Callable[[State, Node, Operands], list[Value]]] = {"If": _if, "Loop": _loop, "Scan": _scan}
"""Operators that hold graphs."""
