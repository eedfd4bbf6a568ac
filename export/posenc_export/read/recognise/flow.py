"""Which node makes a tensor, and which ones take it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from posenc_export.read.values import Array, Constant, Data, Meeting, Operand, Position, Run, Value

MOVES = {
    *("Reshape", "Transpose", "Unsqueeze", "Squeeze", "Concat", "Slice", "Split", "Cast", "Identity", "Flatten"),
    *("Expand", "Tile", "Gather", "ScatterElements", "ScatterND", "Pad"),
}
SCALES = {"Mul", "Div"}
SMALL = 1 << 20
"""Bytes of a stored tensor that stays open."""


@dataclass(frozen=True)
class Flow:
    """A run, read forward and backward."""

    run: Run
    _numbers: dict[str, Array] = field(default_factory=dict, compare=False)

    @cached_property
    def takers(self) -> dict[str, list[Meeting]]:
        """The nodes that take each tensor, in order."""
        takers: dict[str, list[Meeting]] = {}
        for node in self.run.nodes:
            for operand in node.operands:
                if operand is not None:
                    takers.setdefault(operand.tensor, []).append(node)
        return takers

    def maker(self, tensor: str) -> Meeting | None:
        """Return the node that makes a tensor; None for an input or an initializer."""
        place = self.run.produced.get(tensor)
        return None if place is None else self.run.nodes[place]

    def numbers(self, operand: Operand) -> Array | None:
        """Return the numbers of a position value or a constant; None where they are not there."""
        if isinstance(operand.value, Position):
            return operand.value.array
        if not isinstance(operand.value, Constant):
            return None
        if operand.tensor in self._numbers:
            return self._numbers[operand.tensor]
        try:
            numbers = operand.value.load()
        except ValueError:
            return None
        # what lies in a file is there again at once: tables of all layers together may be larger than the memory
        if operand.tensor in self.run.produced or numbers.nbytes < SMALL:
            self._numbers[operand.tensor] = numbers
        return numbers

    def moved_on(self, tensors: tuple[str, ...]) -> Iterator[Meeting]:
        """Yield the nodes that only move what is in tensors, and what they make, in turn."""
        yield from (node for node in self._reached(tensors) if node.op_type in MOVES)

    def ends(self, tensors: tuple[str, ...]) -> frozenset[str]:
        """Return the names of the nodes in which moved and scaled tensors are used at last: an attention."""
        return frozenset(node.node for node in self._reached(tensors) if not _passes(node))

    def _reached(self, tensors: tuple[str, ...]) -> Iterator[Meeting]:
        # a graph may join what it took apart: no tensor is followed twice
        waiting, seen = list(tensors), set(tensors)
        while waiting:
            for node in self.takers.get(waiting.pop(), []):
                yield node
                if _passes(node):
                    fresh = [name for name in node.outputs if name not in seen]
                    seen.update(fresh)
                    waiting += fresh


def _passes(node: Meeting) -> bool:
    """Tell whether what comes out of a node is what came in, moved or scaled by a constant."""
    if node.op_type in MOVES:
        return True
    values = [operand.value for operand in node.operands if operand is not None]
    return node.op_type in SCALES and sum(isinstance(value, Data) for value in values) == 1 and _has_scalar(values)


def _has_scalar(values: list[Value]) -> bool:
    shapes = [
        v.array.shape if isinstance(v, Position) else v.shape for v in values if isinstance(v, Position | Constant)
    ]
    return any(all(size == 1 for size in shape) for shape in shapes)
