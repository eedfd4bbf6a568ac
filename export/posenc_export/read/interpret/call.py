"""A node of an operator outside the onnx package, as the rules of its shape read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from onnx import helper

from posenc_export.read.graph import Node
from posenc_export.read.interpret.budget import Stopped
from posenc_export.read.interpret.state import dtype_of, shape_of, small_numbers
from posenc_export.read.values import Operand, Shape


@dataclass(frozen=True)
class NodeCall:
    """A node, its inputs and the versions of operators."""

    node: Node
    operands: Sequence[Operand | None]
    opsets: Mapping[str, int]

    @property
    def known(self) -> bool:
        """Whether all inputs have shapes, the first at least being there."""
        shapes = [shape_of(operand.value) for operand in self.operands if operand]
        return bool(self.operands) and self.operands[0] is not None and None not in shapes

    def has(self, place: int) -> bool:
        """Return whether there is an input at a place."""
        return place < len(self.operands) and self.operands[place] is not None

    def shape(self, place: int) -> Shape:
        """Return the shape of an input; raises Stopped where it is left out."""
        operand = self.operands[place] if place < len(self.operands) else None
        shape = shape_of(operand.value) if operand else None
        if shape is None:
            raise Stopped(f"input {place} is left out", self.node.name)
        return shape

    def dtype(self, place: int) -> np.dtype[np.generic]:
        """Return the element type of an input, float32 where it is left out."""
        operand = self.operands[place] if place < len(self.operands) else None
        return (dtype_of(operand.value) if operand else None) or np.dtype(np.float32)

    def number(self, place: int) -> int | None:
        """Return the largest number of an input, None where it is not known."""
        operand = self.operands[place] if place < len(self.operands) else None
        array = small_numbers(operand.value) if operand else None
        return int(array.max()) if array is not None and array.size else None

    def integer(self, name: str, default: int = 0) -> int:
        """Return an attribute that is an integer."""
        value = self.node.attributes.get(name, default)
        return value if isinstance(value, int) else default

    def require(self, holds: bool, reason: str) -> None:
        """Raise Stopped unless something holds."""
        if not holds:
            raise Stopped(reason, self.node.name)

    def broadcast(self, *shapes: Shape) -> Shape:
        """Return the shape of an elementwise operator; raises Stopped where shapes do not fit."""
        try:
            return np.broadcast_shapes(*shapes)
        except ValueError:
            raise Stopped(f"shapes do not fit: {' and '.join(map(str, shapes))}", self.node.name) from None

    def product(self, left: Shape, right: Shape) -> Shape:
        """Return the shape of a product of matrices; raises Stopped where shapes do not fit."""
        self.require(bool(left) and bool(right), "a product of scalars")
        rows = left[-2:-1]  # none where the left factor is a vector
        columns = right[-1:] if len(right) > 1 else ()
        inner = right[-2] if len(right) > 1 else right[0]
        self.require(left[-1] == inner, f"shapes do not fit: {left} and {right}")
        return (*self.broadcast(left[:-2], right[:-2]), *rows, *columns)

    def renamed(self, op_type: str) -> Node:
        """Return the node as one of a plain operator, with the attributes and the inputs that it has."""
        # attributes of the activation are unknown to the plain operator
        known = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides", "ceil_mode")
        inputs = self.node.inputs[:3] if op_type == "Conv" else self.node.inputs[:1]
        proto = helper.make_node(op_type, list(inputs), list(self.node.outputs[:1]))
        proto.attribute.extend(attribute for attribute in self.node.proto.attribute if attribute.name in known)
        return replace(self.node, op_type=op_type, domain="", inputs=inputs, proto=proto)
