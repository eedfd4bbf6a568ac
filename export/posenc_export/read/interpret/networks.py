"""Networks whose only input is positions: no data come in, and so their numbers can be told.

Swin V2 and FIRE make their biases by a few weights from coordinates or distances. To the nodes around them these are
data, as all that a weight makes; whoever recognises encodings asks for their numbers where they meet data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

from posenc_export.read.graph import Node
from posenc_export.read.interpret.budget import Stopped
from posenc_export.read.interpret.computing import computed
from posenc_export.read.interpret.state import State
from posenc_export.read.values import Constant, Data, Network, Operand, Position

DEEPEST = 64
"""Nodes of a network, one behind the other, at most: a larger one is a model, and no encoding."""
Operands = Sequence[Operand | None]


def networks_of(state: State, node: Node, operands: Operands) -> list[Network | None]:
    """Return how each output of a node is computed, where positions and weights alone come in; None for others."""
    before = [o.value.network for o in operands if o and isinstance(o.value, Data) and o.value.network is not None]
    depth = 1 + max((network.depth for network in before), default=0)
    if depth > DEEPEST or not all(operand is None or _is_told(state, operand) for operand in operands):
        return [None] * len(node.outputs)

    @cache
    def every() -> list[Position] | None:
        taken = [None if operand is None else _opened(operand) for operand in operands]
        if any(now is None for was, now in zip(operands, taken, strict=True) if was is not None):
            return None
        try:
            values = computed(state, node, taken)
        except Stopped:
            return None
        known = [o.value.through for o in taken if o is not None and isinstance(o.value, Position)]
        through = frozenset([node.name]).union(*known)
        return None if values is None else [replace(value, through=through) for value in values]

    return [Network(depth, _output(every, place)) for place in range(len(node.outputs))]


def opened(operand: Operand) -> Operand:
    """Return an operand with the numbers of the network that makes it; as it is where there is none."""
    return _opened(operand) or operand


def of_network(operand: Operand) -> bool:
    """Return whether weights made a value of positions alone."""
    return isinstance(operand.value, Data) and operand.value.network is not None


def _opened(operand: Operand) -> Operand | None:
    value = operand.value
    if not isinstance(value, Data):
        return operand
    position = None if value.network is None else value.network.load()
    return None if position is None else Operand(operand.tensor, position)


def _is_told(state: State, operand: Operand) -> bool:
    """Return whether an operand is stored, or follows from positions alone: ids of tokens are words."""
    if operand.tensor in state.tokens:
        return False
    value = operand.value
    return isinstance(value, (Constant, Position)) or (isinstance(value, Data) and value.network is not None)


def _output(every: Callable[[], list[Position] | None], place: int) -> Callable[[], Position | None]:
    def load() -> Position | None:
        values = every()
        return values[place] if values is not None and place < len(values) else None

    return load
