"""Reshapes that keep sizes of their input: written with a stored shape, where torch.onnx puts one together.

    Reshape(q, Concat(Shape(q)[0:1], Shape(q)[1:2], Shape(q)[2:3], [2], [64]))    Reshape(q, [0, 0, 0, 2, 64])

0 keeps a size. At one token a node costs ONNX Runtime as much as its work: the shapes of rotary queries and keys are
eight nodes of 54. A size of k in the shape of q refuses another size, which the stored shape cannot: such a size is
left out only where a check of `lengths.py` compares the two inputs, and that check then compares this axis, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from posenc_export.write.formats.onnx.lengths import initializer, node

if TYPE_CHECKING:
    import onnx_ir as ir


class AxisSize(NamedTuple):
    """The size of a tensor along one of its axes."""

    tensor: ir.Value
    axis: int


class ReshapeCheck(NamedTuple):
    """A Reshape that compares sizes of its result with those of another input along the same axes.

    Args:
        checked: Its result.
        other: The other input.
        mask: 1 for each axis that is compared.
    """

    checked: ir.Value
    other: ir.Value
    mask: ir.Value

    def compares(self, left: AxisSize, right: AxisSize) -> bool:
        """Return whether two sizes lie along the same axis of the two tensors."""
        return left.axis == right.axis and {left.tensor, right.tensor} == {self.checked, self.other}


def stored_shape(graph: ir.Graph, reshape: ir.Node) -> Sequence[ir.Node]:
    """Return a Reshape to a stored shape; nothing where the shape has a size that the input does not say."""
    value, shape = reshape.inputs[:2]
    maker = shape.producer() if shape is not None else None
    if value is None or maker is None or maker.op_type != "Concat":
        return ()
    checks = list(_checks(graph))
    numbers: list[int] = []
    compared: list[tuple[ReshapeCheck, int]] = []
    for axis, part in enumerate(maker.inputs):
        number, size = _number(part), _said(part)
        if number is None and size is None:
            return ()
        numbers.append(number or 0)
        if size is None:
            continue
        own = _traced(AxisSize(value, axis))
        check = None if own == size else next((check for check in checks if check.compares(own, size)), None)
        if own != size and check is None:
            return ()
        # the shape put together refused another size, where the check let it pass
        compared += [] if check is None else [(check, own.axis)]
    for check, axis in compared:
        _compare_too(check, axis)
    name = str(reshape.outputs[0].name)
    return [node("Reshape", f"{name}_kept", value, initializer(graph, f"{name}_shape", numbers))]


def _number(part: ir.Value | None) -> int | None:
    """Return the size that a part of a shape is, if it is stored and above 0."""
    array = None if part is None or part.const_value is None else part.const_value.numpy()
    return int(array.item()) if array is not None and array.size == 1 and array.item() > 0 else None


def _said(part: ir.Value | None) -> AxisSize | None:
    """Return whose size a part of a shape is, if it is a single one."""
    maker = part.producer() if part is not None else None
    if maker is None or maker.op_type != "Shape" or maker.inputs[0] is None:
        return None
    start, end = (maker.attributes[key].as_int() if key in maker.attributes else 0 for key in ("start", "end"))
    return _traced(AxisSize(maker.inputs[0], start)) if start >= 0 and end == start + 1 else None


def _traced(size: AxisSize) -> AxisSize:
    """Return the size that one is a copy of, through operators that keep it."""
    # Gather along another axis, and a Reshape with 0 there, keep a size
    maker = size.tensor.producer()
    source = maker.inputs[0] if maker is not None and maker.inputs else None
    if maker is None or source is None or source.shape is None:
        return size
    if maker.op_type == "Gather":
        index, axis = maker.inputs[1], maker.attributes["axis"].as_int() if "axis" in maker.attributes else 0
        single = index is not None and index.shape is not None and len(index.shape) == 1
        keeps = single and size.axis != axis % len(source.shape)
    else:
        numbers = maker.inputs[1].const_value if maker.op_type == "Reshape" and maker.inputs[1] is not None else None
        keeps = numbers is not None and size.axis < numbers.size and numbers.numpy()[size.axis] == 0
    return _traced(AxisSize(source, size.axis)) if keeps else size


def _checks(graph: ir.Graph) -> Iterator[ReshapeCheck]:
    """Yield the checks of two inputs along all their axes."""
    for reshape in graph:
        target = reshape.inputs[1] if reshape.op_type == "Reshape" else None
        sizes = target.producer() if target is not None else None
        shape = sizes.inputs[0].producer() if sizes is not None and sizes.op_type == "Mul" and sizes.inputs[0] else None
        other = shape.inputs[0] if shape is not None and shape.op_type == "Shape" else None
        mask = sizes.inputs[1] if sizes is not None and other is not None else None
        if other is None or mask is None or mask.const_value is None or other.shape is None:
            continue
        if mask.const_value.size == len(other.shape):
            yield ReshapeCheck(reshape.outputs[0], other, mask)


def _compare_too(check: ReshapeCheck, axis: int) -> None:
    """Make a check compare one more axis, in place."""
    import onnx_ir as ir

    assert check.mask.const_value is not None
    compared = np.array(check.mask.const_value.numpy())
    compared[axis] = 1
    check.mask.const_value = ir.tensor(compared, name=check.mask.name)
