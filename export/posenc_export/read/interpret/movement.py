"""Which element of which tensor stands where, as long as data are only moved, copied or negated.

An element is written as its place in the first tensor plus 1, and negative where it was negated; 0 is what a constant
filled in. So the operators that moved the data move these numbers, and nothing else is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from posenc_export.read.graph import Node
from posenc_export.read.interpret.state import shape_of, small_numbers
from posenc_export.read.values import Data, Moved, Operand, Shape

MOST = 1 << 22
"""How many elements a tensor has whose moves are followed."""
Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Movement:
    """Where elements come from, computed when it is asked for.

    Args:
        tensor: the name of the tensor that they were in before the first move.
        codes: computes the number of each element.
    """

    tensor: str
    codes: Callable[[], Codes] = field(repr=False)

    def __call__(self) -> Moved:
        """Return the places and the signs."""
        codes = self.codes()
        sign = np.sign(codes).astype(np.int8) if (codes < 0).any() else None
        if sign is not None:
            sign[sign == 0] = 1  # what a constant filled in was not negated
        return Moved(self.tensor, np.abs(codes) - 1, sign)


def unmoved(tensor: str, shape: Shape) -> Movement | None:
    """Return the movement of a tensor that was computed, and not yet moved; None where it is too large."""
    if math.prod(shape) > MOST:
        return None
    return Movement(tensor, lambda: np.arange(1, math.prod(shape) + 1, dtype=np.int64).reshape(shape))


def moved(node: Node, operands: Sequence[Operand | None], shape: Shape, output: int) -> Movement | None:
    """Return how an output of a node follows from the moves before it; None where the node does not move."""
    move = MOVES.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    if move is None or math.prod(shape) > MOST or not _decided(node, operands):
        return None
    taken = operands if node.op_type == "Concat" else operands[:1]
    sources = [_movement(operand) for operand in taken]
    # parts that come from different tensors start anew as a tensor of their own
    tensors = {source.tensor for source in sources if isinstance(source, Movement)}
    if len(tensors) != 1 or None in sources:
        return None

    def codes() -> Codes:
        arrays = [_codes(source) for source in sources]
        return np.reshape(move(_Call(node, operands, shape, output), arrays), shape)

    return Movement(tensors.pop(), codes)


def _decided(node: Node, operands: Sequence[Operand | None]) -> bool:
    """Return whether it is known where a node moves elements: its indices, its ends, its pads."""
    if node.op_type not in ("Gather", "Slice", "Split", "Pad", "Tile"):
        return True
    mode = node.attributes.get("mode", "constant")
    known = all(small_numbers(operand.value) is not None for operand in operands[1:] if operand)
    return known and mode in ("constant", b"constant")


def _movement(operand: Operand | None) -> Movement | Shape | None:
    """Return the movement of an input, the shape of a constant or of what is empty, or None where nobody knows it."""
    if operand is None:
        return None
    if not isinstance(operand.value, Data):
        return shape_of(operand.value)
    if 0 in operand.value.shape:  # an empty cache
        return operand.value.shape
    return operand.value.moved if isinstance(operand.value.moved, Movement) else None


def _codes(source: Movement | Shape | None) -> Codes:
    return source.codes() if isinstance(source, Movement) else np.zeros(source or (), np.int64)


@dataclass(frozen=True)
class _Call:
    """A node that moves: its inputs, the shape of the output, and which output that is."""

    node: Node
    operands: Sequence[Operand | None]
    shape: Shape
    output: int

    def attribute(self, name: str, default: int = 0) -> int:
        value = self.node.attributes.get(name, default)
        return value if isinstance(value, int) else default

    def integers(self, name: str, place: int) -> list[int] | None:
        """Return a list of integers that is an attribute in old opsets, and an input in new ones."""
        value = self.node.attributes.get(name)
        if value is not None:
            return [int(number) for number in np.ravel(np.asarray(value))]
        operand = self.operands[place] if place < len(self.operands) else None
        array = small_numbers(operand.value) if operand else None
        return None if array is None else [int(number) for number in np.ravel(array)]


def _concat(call: _Call, arrays: list[Codes]) -> Codes:
    return np.concatenate(arrays, axis=call.attribute("axis"))


def _transpose(call: _Call, arrays: list[Codes]) -> Codes:
    return np.transpose(arrays[0], call.integers("perm", len(call.operands)))


def _expand(call: _Call, arrays: list[Codes]) -> Codes:
    return np.broadcast_to(arrays[0], call.shape)


def _tile(call: _Call, arrays: list[Codes]) -> Codes:
    return np.tile(arrays[0], call.integers("repeats", 1) or [])


def _slice(call: _Call, arrays: list[Codes]) -> Codes:
    starts, ends = call.integers("starts", 1) or [], call.integers("ends", 2) or []
    axes = call.integers("axes", 3) or list(range(len(starts)))
    steps = call.integers("steps", 4) or [1] * len(starts)
    cut = [slice(None)] * arrays[0].ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        # an end before the first element, going backwards, is None for NumPy and a very negative number for ONNX
        last = None if step < 0 and end < -arrays[0].shape[axis] else end
        cut[axis] = slice(start, last, step)
    return arrays[0][tuple(cut)]


def _split(call: _Call, arrays: list[Codes]) -> Codes:
    axis, size = call.attribute("axis"), arrays[0].shape[call.attribute("axis")]
    parts = call.integers("split", 1)  # without it, parts are equal, and the last may be shorter
    count = call.attribute("num_outputs", len(call.node.outputs))
    chunk = -(-size // count)
    edges = np.cumsum(parts) if parts else np.minimum(np.arange(1, count + 1) * chunk, size)
    return np.split(arrays[0], [int(edge) for edge in edges[:-1]], axis=axis)[call.output]


def _gather(call: _Call, arrays: list[Codes]) -> Codes:
    operand = call.operands[1]
    indices = small_numbers(operand.value) if operand else None
    if indices is None:
        raise ValueError("the indices are not known")
    return np.take(arrays[0], np.asarray(indices, np.int64), axis=call.attribute("axis"))


def _pad(call: _Call, arrays: list[Codes]) -> Codes:
    pads = call.integers("pads", 1) or []
    axes = call.integers("axes", 3) or list(range(arrays[0].ndim))
    widths = [(0, 0)] * arrays[0].ndim
    cut = [slice(None)] * arrays[0].ndim
    for i, axis in enumerate(axes):
        begin, end = pads[i], pads[i + len(axes)]
        # a pad below zero cuts elements off, as a causal convolution does with those of the future
        widths[axis] = (max(begin, 0), max(end, 0))
        cut[axis] = slice(max(-begin, 0), arrays[0].shape[axis] + min(end, 0))
    return np.pad(arrays[0][tuple(cut)], widths)


def _same(call: _Call, arrays: list[Codes]) -> Codes:
    return arrays[0]


def _negate(call: _Call, arrays: list[Codes]) -> Codes:
    return -arrays[0]


RESHAPING = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Cast", "CastLike")
MOVES: dict[str, Callable[[_Call, list[Codes]], Codes]] = {
    **dict.fromkeys(RESHAPING, _same),
    "Neg": _negate,
    "Concat": _concat,
    "Transpose": _transpose,
    "Expand": _expand,
    "Tile": _tile,
    "Slice": _slice,
    "Split": _split,
    "Gather": _gather,
    "Pad": _pad,
}
"""Operators that move data, by what they do to an array."""
