"""What an interpretation knows while it goes from node to node."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from posenc_export.read.graph import Graph, Node
from posenc_export.read.interpret.budget import Budget, Stopped
from posenc_export.read.interpret.remembered import Remembered
from posenc_export.read.values import Array, Constant, Data, Meeting, Operand, Position, Unknown, Value

SMALL = 4096
"""How many numbers a constant has that is read at once, since shapes may follow from it."""


@dataclass
class State:
    """What an interpretation knows.

    Args:
        graph: what is interpreted.
        budget: how much it may cost.
        values: of each tensor, by its name.
        tokens: the tensors that are ids of tokens, or were computed of them number by number.
        nodes: the nodes that were interpreted.
        meetings: the nodes in which a position value meets data.
        produced: of each tensor, the place in `nodes` of the node that makes it.
        remembered: what was computed.
        deadline: when the seconds are spent.
    """

    graph: Graph
    budget: Budget
    values: dict[str, Value]
    tokens: set[str]
    nodes: list[Meeting] = field(default_factory=list)
    meetings: list[Meeting] = field(default_factory=list)
    produced: dict[str, int] = field(default_factory=dict)
    remembered: Remembered = field(default_factory=Remembered)
    deadline: float = field(init=False)

    def __post_init__(self) -> None:
        self.deadline = time.monotonic() + self.budget.seconds

    def operands(self, node: Node) -> tuple[Operand | None, ...]:
        """Return the inputs of a node, with their values."""
        return tuple(Operand(name, self.value(name)) if name else None for name in node.inputs)

    def value(self, name: str) -> Value:
        """Return the value of a tensor."""
        return self.values.get(name, Unknown(f"no node makes {name!r}"))

    def visit(self, node: Node) -> None:
        """Count a node; raises Stopped where the budget is spent."""
        # turns of loops count as often as they are taken
        if len(self.nodes) >= self.budget.nodes:
            raise Stopped(f"more than {self.budget.nodes} nodes were visited", node.name)
        if time.monotonic() > self.deadline:
            raise Stopped(f"more than {self.budget.seconds:g} s were spent", node.name)

    def add(self, record: Meeting, results: Iterable[Value]) -> None:
        """Note a node and the values of its outputs."""
        for name, value in zip(record.outputs, results, strict=False):
            if name:
                self.values[name] = value
                self.produced[name] = len(self.nodes)
        self.nodes.append(record)


def shape_of(value: Value) -> tuple[int, ...] | None:
    """Return the shape of a value, as far as it is known."""
    if isinstance(value, Position):
        return value.array.shape
    return None if isinstance(value, Unknown) else value.shape


def dtype_of(value: Value) -> np.dtype[np.generic] | None:
    """Return the element type of a value, as far as it is known."""
    if isinstance(value, Position):
        return value.array.dtype
    return None if isinstance(value, Unknown) else value.dtype


def size_of(value: Value) -> int:
    """Return how many elements a value has."""
    return int(np.prod(shape_of(value) or (), dtype=object))


def small_numbers(value: Value | None) -> Array | None:
    """Return the numbers of a value that is computed, or of a constant that is small; None where there are none."""
    if isinstance(value, Position):
        return value.array
    if isinstance(value, Constant) and size_of(value) <= SMALL:
        try:
            return value.load()
        except ValueError:  # external data that are not there
            return None
    return None


def is_data(value: Value) -> bool:
    """Return whether a value depends on data or weights."""
    return isinstance(value, Data) and not value.positional


def is_positional(value: Value) -> bool:
    """Return whether a value depends on positions, sizes or masks alone, computed or not."""
    return isinstance(value, Position) or (isinstance(value, Data) and value.positional)
