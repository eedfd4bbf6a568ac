"""Forms of what torch.onnx writes that give the same bits in ONNX Runtime, as fast, and that tract loads too.

    Split(rows, [length, 0], axis=1)[0]            Reshape(rows, length * [0, 1, 0]): it copies nothing, and refuses
    Split(rows, [length, all - length])[0]         a Slice of all numbers in one row: ONNX Runtime copies it in one move
    MatMul(Expand(matrix, shape), others)          Expand(Unsqueeze(matrix), shape): tract drops an Expand, and its axes
    GatherElements(rows, Expand(index, shape))     Expand(Cast(index), shape), of int32: half the bytes; in int64 tract
                                                   keeps sizes of a call as symbols, and looks nothing up by them
    GatherElements(rows, Cast(index))              GatherElements(rows, index), where index is int32
    Clip(x, low, high), of int32                   Max(Min(x, high), low): CUDA and TensorRT have no Clip of int32
    Abs(x), Neg(x), of int32                       Max(x, 0 - x), 0 - x: WebGPU has neither of int32
    Mod(x, n), of int32                            x - (x / n) n, or x - Min(x, 0) n where -1 is least: WebGPU, CoreML,
                                                   WebNN and NNAPI have no Mod
    Round(circles) in float64                      x + 1.5 * 2^52 - 1.5 * 2^52: float64 has no fractions there
    (90 - length) / 2 in whole numbers             45 - (length + 1) / 2: tract takes 45 - length / 2
    Reshape(q, Concat(sizes of q, 2, 64))          Reshape(q, [0, 0, 0, 2, 64]), in `reshapes.py`: fewer nodes

The two Splits are by a length of the call, and their second part is not used. tract does not load a Split whose sizes
depend on the call, and does not round float64. MNN leaves out an operator if an output has size zero, as the second
part may have: the first part is then whatever its memory held.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from posenc_export.write.formats.onnx.lengths import initializer, node
from posenc_export.write.formats.onnx.reshapes import stored_shape

if TYPE_CHECKING:
    import onnx_ir as ir

T = TypeVar("T")
INT32 = 6
"""The number of int32 among ONNX's dtypes."""
WHOLE = 1.5 * 2**52
"""Near it float64 has only whole numbers: adding a small number to it rounds that number, half way to the even one."""


def load_on_more(model: ir.Model) -> None:
    """Write the nodes of a graph of ours as more runtimes load them, in place."""
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    replaced = _narrow_indices(model.graph)
    for old in list(model.graph):
        nodes = FORMS[old.op_type](model.graph, old) if old.op_type in FORMS else ()
        if nodes:
            put(model.graph, old, nodes)
            replaced = True
    if replaced:
        RemoveUnusedNodesPass()(model)


def _narrow_indices(graph: ir.Graph) -> bool:
    """Look elements up by indices of int32 as they are, which torch.onnx widens first; return whether any were."""
    import onnx_ir as ir

    narrowed = False
    for cast in [each for each in graph if each.op_type == "Cast"]:
        index, wide = _there(cast.inputs[0]), cast.outputs[0]
        users = [user.node.op_type for user in wide.uses()]
        if index.dtype == ir.DataType.INT32 and wide.dtype == ir.DataType.INT64 and set(users) == {"GatherElements"}:
            wide.replace_all_uses_with(index)
            narrowed = True
    return narrowed


def _there(value: T | None) -> T:
    """Return a value that this node has, though a node may lack it."""
    assert value is not None
    return value


def _split(graph: ir.Graph, split: ir.Node) -> Sequence[ir.Node]:
    """Return nodes that take the first part of a tensor, as long as a call."""
    sizes = split.inputs[1].producer() if len(split.inputs) == 2 and split.inputs[1] is not None else None
    if sizes is None or sizes.op_type != "Concat" or len(sizes.inputs) != 2 or any(split.outputs[1].uses()):
        return ()
    length, remainder = map(_there, sizes.inputs)
    is_all = remainder.const_value is not None and not remainder.const_value.numpy().any()
    return _exactly(graph, split, length) if is_all else _first_rows(graph, split, length)


def _exactly(graph: ir.Graph, split: ir.Node, length: ir.Value) -> list[ir.Node]:
    """Return nodes that keep a tensor that is as long as a call."""
    rows, axis = _there(split.inputs[0]), split.attributes["axis"].as_int()
    name = str(split.outputs[0].name)
    # 0 in a shape keeps a size
    mask = initializer(graph, f"{name}_axis", [int(i == axis) for i in range(len(_there(rows.shape)))])
    product = node("Mul", f"{name}_length", length, mask)
    return [product, node("Reshape", f"{name}_exactly", rows, product.outputs[0])]


def _first_rows(graph: ir.Graph, split: ir.Node, length: ir.Value) -> list[ir.Node]:
    """Return nodes that take the first rows of a matrix: (rows, width) -> (length, width)."""
    rows = _there(split.inputs[0])
    width = _there(rows.shape)[1]
    assert isinstance(width, int)
    name, made = str(split.outputs[0].name), rows.producer()
    source = _there(made.inputs[0]) if made is not None and made.op_type == "Reshape" else rows
    zero, every = initializer(graph, f"{name}_zero", [0]), initializer(graph, f"{name}_every", [-1])
    flat = node("Reshape", f"{name}_flat", source, every)  # (rows * width,)
    count = node("Mul", f"{name}_count", length, initializer(graph, f"{name}_width", [width]))
    first = node("Slice", f"{name}_first", flat.outputs[0], zero, count.outputs[0], zero)  # (length * width,)
    shape = initializer(graph, f"{name}_shape", [-1, width])
    return [flat, count, first, node("Reshape", f"{name}_rows", first.outputs[0], shape)]


def _expand(graph: ir.Graph, expand: ir.Node) -> Sequence[ir.Node]:
    """Return nodes that repeat a matrix for a product with several, or indices for a look-up of each element."""
    import onnx_ir as ir

    value, shape = map(_there, expand.inputs[:2])
    name, users = str(expand.outputs[0].name), {user.node.op_type for user in expand.outputs[0].uses()}
    if users == {"GatherElements"} and value.dtype != ir.DataType.INT32:
        small = node("Cast", f"{name}_cast", value, to=INT32)
        return [small, node("Expand", f"{name}_expanded", small.outputs[0], shape)]
    more = len(expand.outputs[0].shape or ()) - len(value.shape or ())
    if "MatMul" not in users or value.shape is None or more <= 0:
        return ()
    # (rows, columns) -> (1, ..., rows, columns)
    whole = node("Unsqueeze", f"{name}_unsqueezed", value, initializer(graph, f"{name}_axes", range(more)))
    return [whole, node("Expand", f"{name}_expanded", whole.outputs[0], shape)]


def _round(graph: ir.Graph, old: ir.Node) -> Sequence[ir.Node]:
    """Return nodes that round circles, or steps of one, in float64."""
    import onnx_ir as ir

    steps = _there(old.inputs[0])
    if steps.dtype != ir.DataType.DOUBLE or not (_is_of_fraction(steps) or _is_circles(steps)):
        return ()
    name = str(old.outputs[0].name)
    whole = initializer(graph, f"{name}_whole", np.array(WHOLE))
    added = node("Add", f"{name}_added", steps, whole)
    return [added, node("Sub", f"{name}_rounded", added.outputs[0], whole)]


def _is_of_fraction(value: ir.Value) -> bool:
    """Return whether a value is a multiple of x - floor(x): fewer than 2^51."""
    for op, place in (("Mul", 0), ("Sub", 1), ("Floor", 0)):
        producer = value.producer()
        taken = producer.inputs[place] if producer is not None and producer.op_type == op else None
        if taken is None:
            return False
        value = taken
    return True


def _is_circles(value: ir.Value) -> bool:
    """Return whether a value is an angle divided by 2 pi."""
    producer = value.producer()
    divisor = producer.inputs[1] if producer is not None and producer.op_type == "Div" else None
    array = None if divisor is None or divisor.const_value is None else divisor.const_value.numpy()
    # beyond 2^51 circles a sum rounds to even numbers alone, but there one circle more or less is as good
    return array is not None and array.size == 1 and array.item() == 2 * math.pi


def _divide(graph: ir.Graph, old: ir.Node) -> Sequence[ir.Node]:
    """Return nodes for (number - length) // divisor, all whole."""
    left, divisor = old.inputs[:2]
    sub = left.producer() if left is not None else None
    if sub is None or sub.op_type != "Sub" or divisor is None:
        return ()
    number, length = map(_there, sub.inputs)
    minuend, by = _whole(number), _whole(divisor)
    if minuend is None or by is None or length.shape is None or len(length.shape) > 0:
        return ()
    # (90 - length) // 4 == 22 - (length + 1) // 4, since 90 = 22 * 4 + 2 and 1 = 4 - 1 - 2
    name, added_size = str(old.outputs[0].name), by - 1 - minuend % by
    added = node("Add", f"{name}_added", length, initializer(graph, f"{name}_rest", np.array(added_size)))
    quotient = node("Div", f"{name}_quotient", added.outputs[0], divisor)
    whole = initializer(graph, f"{name}_whole", np.array(minuend // by))
    return [added, quotient, node("Sub", f"{name}_left", whole, quotient.outputs[0])]


def _clip(graph: ir.Graph, old: ir.Node) -> Sequence[ir.Node]:
    """Return nodes that keep an int32 in a range."""
    import onnx_ir as ir

    value, *ends = old.inputs
    number = _there(value)
    if number.dtype != ir.DataType.INT32:
        return ()
    nodes: list[ir.Node] = []
    for name, end in reversed(list(zip(("Max", "Min"), ends, strict=False))):
        if end is not None:
            nodes.append(node(name, f"{old.outputs[0].name}_{name.lower()}", number, end))
            number = nodes[-1].outputs[0]
    for made in nodes:
        made.outputs[0].dtype, made.outputs[0].shape = ir.DataType.INT32, old.outputs[0].shape
    return nodes


def _negative(graph: ir.Graph, old: ir.Node) -> Sequence[ir.Node]:
    """Return nodes for 0 minus an int32, or for the larger of both."""
    import onnx_ir as ir

    number, name = _there(old.inputs[0]), str(old.outputs[0].name)
    if number.dtype != ir.DataType.INT32:
        return ()
    less = node("Sub", f"{name}_below", initializer(graph, f"{name}_zero", np.array(0, np.int32)), number)
    return [less] if old.op_type == "Neg" else [less, node("Max", f"{name}_either", number, less.outputs[0])]


def _remainder(graph: ir.Graph, old: ir.Node) -> Sequence[ir.Node]:
    """Return nodes for a remainder in int32, of a number that is not negative, or of -1."""
    import onnx_ir as ir

    number, divisor = map(_there, old.inputs[:2])
    by, name = _integer(divisor), str(old.outputs[0].name)
    if number.dtype != ir.DataType.INT32 or by is None or by < 1:
        return ()
    quotient = _quotient(graph, old, by)
    before: list[ir.Node] = []
    if _from_minus_one(number, by):  # -1 -> -1 + n, and all else as it is
        zero = initializer(graph, f"{name}_zero", np.array(0, np.int32))
        before = [node("Min", f"{name}_below", number, zero)]
        quotient = before[0].outputs[0]
    if quotient is None:
        return ()
    product = node("Mul", f"{name}_whole", quotient, divisor)
    return [*before, product, node("Sub", f"{name}_rest", number, product.outputs[0])]


def _quotient(graph: ir.Graph, mod: ir.Node, by: int) -> ir.Value | None:
    """Return the quotient that a graph has already of what a Mod divides: it says that nothing there is negative."""
    earlier = list(graph)[: list(graph).index(mod)]
    users = (user.node for user in _there(mod.inputs[0]).uses() if user.idx == 0 and user.node.op_type == "Div")
    return next((div.outputs[0] for div in users if div in earlier and _integer(_there(div.inputs[1])) == by), None)


def _from_minus_one(value: ir.Value, below: int) -> bool:
    """Return whether a value is -1, or not negative and below a number: Max(Min(x, end), -1)."""
    largest = value.producer()
    least = largest.inputs[0] if largest is not None and largest.op_type == "Max" else None
    inner = None if least is None else least.producer()
    if largest is None or inner is None or inner.op_type != "Min":
        return False
    low, high = (_integer(_there(one.inputs[1])) for one in (largest, inner))
    return low == -1 and high is not None and high < below


def integers_of(value: ir.Value | None) -> list[int] | None:
    """Return the integers that a constant is; None for any other value."""
    stored = None if value is None or value.const_value is None else value.const_value.numpy()
    return [int(number) for number in stored.ravel()] if stored is not None and stored.dtype.kind == "i" else None


def _integer(value: ir.Value) -> int | None:
    """Return the integer that a constant is; None for any other value."""
    numbers = integers_of(value)
    return numbers[0] if numbers is not None and len(numbers) == 1 else None


def _whole(value: ir.Value) -> int | None:
    """Return the integer above 0 that a constant is; None for any other value."""
    number = _integer(value)
    return number if number is not None and number > 0 else None


def put(graph: ir.Graph, old: ir.Node, nodes: Sequence[ir.Node]) -> None:
    """Put nodes in the place of another, the last of them in that of its first output."""
    left, right = old.outputs[0], nodes[-1].outputs[0]
    right.shape = left.shape
    right.type = None if nodes[0].op_type == "Cast" else left.type
    graph.insert_before(old, nodes)
    # a copy of the list: replacing changes it
    for user in list(left.uses()):
        user.node.replace_input_with(user.idx, right)
    if left in graph.outputs:
        graph.outputs[graph.outputs.index(left)] = right
        # the graph's output keeps its name
        left.name, right.name = f"{left.name}_before", left.name
    graph.remove(old, safe=True)


def put_value(graph: ir.Graph, old: ir.Value, new: ir.Value) -> None:
    """Use a value everywhere in the place of another, also as an output of the graph, which keeps its name."""
    new.type, new.shape = old.type, old.shape
    is_output = old in graph.outputs
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    if is_output:
        old.name, new.name = f"{old.name}_before", old.name


FORMS: Mapping[str, Callable[[ir.Graph, ir.Node], Sequence[ir.Node]]] = {
    "Split": _split,
    "Expand": _expand,
    "Round": _round,
    "Div": _divide,
    "Clip": _clip,
    "Abs": _negative,
    "Neg": _negative,
    "Mod": _remainder,
    "Reshape": stored_shape,
}
"""By operator: a node to the nodes in its place; none where it stays."""
