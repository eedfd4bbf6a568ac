"""`--check-positions`: a look-up beyond its table gives NaN, where the runtime would give a number without a word.

ONNX's Gather refuses a wrong index on the CPU. On CUDA no kernel can raise an error, and ONNX Runtime gives zeros;
WebGPU gives some row. With the check, the CPU refuses as before, and every other device gives NaN:

    rows[positions]      row = Min(Where(positions < 0, N, positions), N)     every wrong position becomes N
                         refused = Gather([0], Div(row, N))           no second element: the CPU refuses N
                         Gather(rows and a row of NaN, row + refused)
    places[positions]    a table of integers holds no NaN: if any position is wrong, NaN is added to the first floats
                         that are computed from it, to a small table where there is one

The check is a few operations on integers, one number a position. A look-up whose index cannot leave its table, such as
that of a digit, stays as it is. New nodes go to the end of the graph, which is sorted at last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc.ports import Array
from posenc_export.common.errors import BadInput
from posenc_export.write.formats.onnx.lengths import initializer, node

if TYPE_CHECKING:
    import onnx_ir as ir

Range = tuple[float, float]
"""The least and the largest integer that a value may hold."""
ANY: Range = (-math.inf, math.inf)
SIZES = {"Shape", "Size"}
"""Operators that read how large a value is, and none of its numbers."""
MOVES = {"Reshape", "Unsqueeze", "Squeeze", "Expand", "Transpose", "Identity", "Slice", "Flatten", "Tile"}
"""Operators whose output holds numbers of their first input, and no others."""
SMALL = 2**16
"""Elements of a table to which a number is added in each call: fewer than most calls return."""
ONNX_FLOATS = ("FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE")


def check_positions(model: ir.Model) -> None:
    """Make each look-up by numbers of a call give NaN for an index that its table does not have, in place.

    Raises BadInput for a look-up inside a loop or a branch, and for outputs of whole numbers, which have no NaN.
    """
    graph = model.graph
    ranges = IntegerRanges()
    lookups = [lookup for lookup in _lookups(graph, _from_input_values(graph)) if not lookup.stays_inside(ranges)]
    rows = NanTables(graph, ranges)
    flags = []
    for lookup in lookups:
        if lookup.has_floats:
            rows.check(lookup)
        else:
            flags.append((lookup, _any_wrong(graph, lookup)))
    for lookup, flag in flags:
        _spread(graph, lookup, flag)
    graph.sort()


@dataclass(frozen=True)
class TableRead:
    """A Gather by numbers of a call.

    Attributes:
        rows: How many rows the table has; None where the call says it.
    """

    gather: ir.Node
    table: ir.Value
    index: ir.Value
    axis: int
    rows: int | None

    @property
    def has_floats(self) -> bool:
        """Whether the table is stored, and can hold a row of NaN."""
        return self.table.is_initializer() and self.rows is not None and _is_float(self.table)

    def stays_inside(self, ranges: IntegerRanges) -> bool:
        """Return whether no call can have an index that the table has not."""
        least, largest = ranges.of(self.index)
        return self.rows is not None and least >= 0 and largest < self.rows


def _from_input_values(graph: ir.Graph) -> set[ir.Value]:
    """Return the values whose numbers depend on numbers of the inputs, not on their sizes alone."""
    called = set(graph.inputs)
    for n in graph:
        _refuse_inside(n)
        if n.op_type not in SIZES and any(value in called for value in n.inputs if value is not None):
            called.update(n.outputs)
    return called


def _refuse_inside(n: ir.Node) -> None:
    """Raise BadInput for a node that looks something up inside a graph of its own."""
    inner = [a.value for a in n.attributes.values() if a.type.name == "GRAPH"]
    if any(m.op_type.startswith("Gather") for graph in inner for m in graph.all_nodes()):
        raise BadInput(f"--check-positions does not reach look-ups inside {n.op_type} ({n.name}): leave it out")


def _lookups(graph: ir.Graph, called: set[ir.Value]) -> Iterator[TableRead]:
    """Yield the look-ups by numbers of a call."""
    for n in graph:
        if n.op_type != "Gather" or n.domain not in ("", "ai.onnx"):
            continue
        table, index = n.inputs
        if table is None or index not in called:
            continue
        axis = n.attributes.get_int("axis", 0)
        if axis < 0 and table.shape is None:
            raise BadInput(f"--check-positions needs the rank of the table that {n.name} looks up: leave it out")
        axis = axis % len(table.shape) if table.shape is not None else axis
        size = table.shape[axis] if table.shape is not None else None
        yield TableRead(n, table, index, axis, size if isinstance(size, int) else None)


# ---- tables of numbers: a row of NaN ---------------------------------------------------------------------------------


@dataclass
class NanTables:
    """Tables with a row of NaN, and the indices that end in it: each is written once."""

    graph: ir.Graph
    ranges: IntegerRanges
    tables: dict[tuple[ir.Value, int], ir.Value] = field(default_factory=dict)
    indices: dict[tuple[ir.Value, int], ir.Value] = field(default_factory=dict)

    def check(self, lookup: TableRead) -> None:
        """Have a look-up find a row of NaN where its index is wrong."""
        assert lookup.rows is not None
        key, end = (lookup.table, lookup.axis), (lookup.index, lookup.rows)
        if key not in self.tables:
            self.tables[key] = self._with_nan(lookup)
        if end not in self.indices:
            self.indices[end] = self._checked(lookup, lookup.rows)
        lookup.gather.replace_input_with(0, self.tables[key])
        lookup.gather.replace_input_with(1, self.indices[end])
        if not any(lookup.table.uses()):
            self.graph.initializers.pop(str(lookup.table.name), None)

    def _with_nan(self, lookup: TableRead) -> ir.Value:
        stored = lookup.table.const_value
        assert stored is not None
        numbers = stored.numpy()
        shape = [1 if i == lookup.axis else n for i, n in enumerate(numbers.shape)]
        nan = np.full(shape, np.nan, numbers.dtype)
        return initializer(self.graph, f"{lookup.table.name}_or_nan", np.concatenate([numbers, nan], lookup.axis))

    def _checked(self, lookup: TableRead, rows: int) -> ir.Value:
        name, index = str(lookup.index.name), lookup.index

        def constant(text: str, number: int, rank: int = 0) -> ir.Value:
            kind = index.dtype.numpy() if index.dtype is not None else np.int64
            return initializer(self.graph, f"{name}_{text}_{rows}", np.full((1,) * rank, number, kind))

        end = constant("end", rows)
        nodes, place = [], index
        if self.ranges.of(index)[0] < 0:
            below = node("Less", f"{name}_below_{rows}", index, constant("first", 0))
            nodes = [below, node("Where", f"{name}_above_{rows}", below.outputs[0], end, index)]
            place = nodes[-1].outputs[0]
        row = node("Min", f"{name}_row_{rows}", place, end)
        wrong = node("Div", f"{name}_wrong_{rows}", row.outputs[0], end)
        refused = node("Gather", f"{name}_refused_{rows}", constant("none", 0, rank=1), wrong.outputs[0])
        checked = node("Add", f"{name}_checked_{rows}", row.outputs[0], refused.outputs[0])
        return _put(self.graph, [*nodes, row, wrong, refused, checked], index)


# ---- tables of whole numbers: NaN in what is computed of them --------------------------------------------------------


def _any_wrong(graph: ir.Graph, lookup: TableRead) -> ir.Value:
    """Return 1 where an index of a call is wrong, else 0: a single int32."""
    import onnx_ir as ir

    index, name = lookup.index, str(lookup.gather.name)
    kind = index.dtype.numpy() if index.dtype is not None else np.int64
    nodes = []
    if lookup.rows is None:
        sizes = node("Shape", f"{name}_rows", lookup.table, start=lookup.axis, end=lookup.axis + 1)
        nodes, rows = [sizes], sizes.outputs[0]
        if kind != np.int64:
            nodes.append(node("Cast", f"{name}_rows_cast", rows, to=index.dtype))
            rows = nodes[-1].outputs[0]
    else:
        rows = initializer(graph, f"{name}_rows", np.array(lookup.rows, kind))
    zero = initializer(graph, f"{name}_first", np.array(0, kind))
    below = node("Less", f"{name}_below", index, zero)
    inside = node("Less", f"{name}_inside", index, rows)
    beyond = node("Not", f"{name}_beyond", inside.outputs[0])
    wrong = node("Or", f"{name}_wrong", below.outputs[0], beyond.outputs[0])
    ones = node("Cast", f"{name}_ones", wrong.outputs[0], to=ir.DataType.INT32)
    largest = node("ReduceMax", f"{name}_any_wrong", ones.outputs[0], keepdims=0)
    return _put(graph, [*nodes, below, inside, beyond, wrong, ones, largest])


def _spread(graph: ir.Graph, lookup: TableRead, flag: ir.Value) -> None:
    """Add NaN, where a look-up of whole numbers was wrong, to the first numbers that are computed of it."""
    import onnx_ir as ir

    nans: dict[Any, ir.Value] = {}

    def nan_of(like: ir.Value) -> ir.Value:
        if like.dtype not in nans:
            name = f"{flag.name}_{str(like.dtype).lower()}"
            truth = node("Cast", f"{name}_truth", flag, to=ir.DataType.BOOL)
            kind = like.dtype.numpy() if like.dtype is not None else np.float32
            numbers = {"nan": np.nan, "zero": 0}
            either = [initializer(graph, f"{name}_{word}", np.array(n, kind)) for word, n in numbers.items()]
            nan = _put(graph, [truth, node("Where", name, truth.outputs[0], *either)])
            nan.type, nan.shape = like.type, ir.Shape(())
            nans[like.dtype] = nan
        return nans[like.dtype]

    places = dict.fromkeys(_first_numbers(lookup.gather.outputs[0], set()))
    if not places:
        raise BadInput("--check-positions makes wrong positions NaN, and the output is whole numbers: leave it out")
    for place in places:
        _add(graph, place, nan_of(place))


def _first_numbers(whole: ir.Value, seen: set[ir.Value]) -> Iterator[ir.Value]:
    """Yield, on every way from whole numbers, a value to which NaN is added: a small factor, or a result."""
    for use in list(whole.uses()):
        for result in use.node.outputs:
            if use.node.op_type in SIZES or result in seen:
                continue
            seen.add(result)
            if not _is_float(result):
                yield from _first_numbers(result, seen)
                continue
            factors = [_small_factor(use.node), *(_small_factor(later.node) for later in result.uses())]
            # a factor in every product that the numbers go into does for all of them
            own, later = factors[0], factors[1:]
            if own is not None:
                yield own
            elif later and all(factor is not None for factor in later):
                yield from dict.fromkeys(factor for factor in later if factor is not None)
            else:
                yield result


def _small_factor(n: ir.Node) -> ir.Value | None:
    """Return a small stored table that a node looks up or multiplies with."""
    tables = n.inputs[:1] if n.op_type == "Gather" else n.inputs if n.op_type == "Mul" else ()
    for value in tables:
        if value is not None and value.is_initializer() and _is_float(value) and _elements(value) <= SMALL:
            return value
    return None


def _add(graph: ir.Graph, place: ir.Value, nan: ir.Value) -> None:
    """Add a number to a value, for all who use it."""
    users = list(place.uses())
    total = node("Add", f"{place.name}_plus_{nan.name}", place, nan)
    _put(graph, [total], place)
    for user in users:
        user.node.replace_input_with(user.idx, total.outputs[0])
    for i, output in enumerate(graph.outputs):
        if output is place:
            name, total.outputs[0].name = str(place.name), str(place.name)
            place.name = f"{name}_unchecked"
            graph.outputs[i] = total.outputs[0]


def _put(graph: ir.Graph, nodes: Sequence[ir.Node], like: ir.Value | None = None) -> ir.Value:
    """Put nodes behind all others, and return what the last gives, with the type and shape of a value."""
    graph.extend(list(nodes))
    result = nodes[-1].outputs[0]
    if like is not None:
        result.type, result.shape = like.type, like.shape
    return result


def _elements(value: ir.Value) -> int:
    return value.const_value.size if value.const_value is not None else SMALL + 1


def _is_float(value: ir.Value) -> bool:
    return value.dtype is not None and value.dtype.name in ONNX_FLOATS


def without_nan_rows(tensors: Mapping[str, Array], axes: Mapping[str, int]) -> dict[str, Array]:
    """Return stored tensors as they were before the check: without a last row of NaN alone.

    Args:
        tensors: The tensors of a file, by name.
        axes: The axis of each one's rows.
    """
    return {name: _without_nan_row(array, axes[name]) for name, array in tensors.items()}


def _without_nan_row(array: Array, axis: int) -> Array:
    rows = np.moveaxis(array, axis, 0)
    is_float = array.dtype.kind == "f" or array.dtype.name == "bfloat16"
    if len(rows) < 2 or not is_float or not np.isnan(rows[-1].astype(np.float64)).all():
        return array
    return np.moveaxis(rows[:-1], 0, axis)


# ---- which integers a value may hold ---------------------------------------------------------------------------------


@dataclass
class IntegerRanges:
    """The least and the largest integer that values may hold, as far as the nodes before them say it."""

    found: dict[ir.Value, Range] = field(default_factory=dict)

    def of(self, value: ir.Value) -> Range:
        """Return the range of one value."""
        if value not in self.found:
            self.found[value] = self._stored(value) if value.const_value is not None else self._computed(value)
        return self.found[value]

    def _stored(self, value: ir.Value) -> Range:
        numbers = value.const_value.numpy() if value.const_value is not None else np.zeros(0)
        return (float(numbers.min()), float(numbers.max())) if 0 < numbers.size <= SMALL else ANY

    def _computed(self, value: ir.Value) -> Range:
        n = value.producer()
        inputs = [v for v in n.inputs if v is not None] if n is not None else []
        if n is None or not inputs:
            return ANY
        if n.op_type in SIZES:
            return (0, math.inf)
        if n.op_type in MOVES:
            return self.of(inputs[0])
        if n.op_type == "Cast":
            source = inputs[0].dtype
            is_flag = source is not None and source.name == "BOOL"
            return (0, 1) if is_flag else ANY if _is_float(inputs[0]) else self.of(inputs[0])
        if n.op_type == "Sub" and (by := _remainder_by(n)) is not None:
            return _mod(self.of(inputs[0]), self.of(by)) if self.of(inputs[0])[0] >= 0 else ANY
        if n.op_type == "Where" and _replaces_negative(n):
            least = max(0.0, self.of(inputs[2])[0])
            return _either(self.of(inputs[1]), (least, max(least, self.of(inputs[2])[1])))
        rule = RULES.get(n.op_type)
        numbers = inputs[1:] if n.op_type == "Where" else inputs
        return ANY if rule is None else rule(*map(self.of, numbers))


def _remainder_by(n: ir.Node) -> ir.Value | None:
    """Return by what a node divides and takes the remainder: x - Div(x, by) * by; None where it does not."""
    product = n.inputs[1].producer() if n.inputs[1] is not None else None
    if product is None or product.op_type != "Mul" or product.inputs[0] is None:
        return None
    quotient, by = product.inputs[0].producer(), product.inputs[1]
    is_own = quotient is not None and quotient.op_type == "Div" and tuple(quotient.inputs) == (n.inputs[0], by)
    return by if is_own else None


def _replaces_negative(n: ir.Node) -> bool:
    """Return whether a node is Where(x < 0, other, x)."""
    below = n.inputs[0].producer() if n.inputs[0] is not None else None
    if below is None or below.op_type != "Less" or below.inputs[0] is not n.inputs[2] or below.inputs[1] is None:
        return False
    zero = below.inputs[1].const_value
    return zero is not None and not zero.numpy().any()


def _clip(x: Range, least: Range = ANY, largest: Range = ANY) -> Range:
    return max(x[0], least[0]), min(x[1], largest[1])


def _mod(x: Range, by: Range) -> Range:
    if by[0] != by[1] or by[0] <= 0:
        return ANY
    return x if x[0] >= 0 and x[1] < by[0] else (0, by[0] - 1)


def _div(x: Range, by: Range) -> Range:
    if by[0] != by[1] or by[0] <= 0:
        return ANY
    return tuple(end if math.isinf(end) else float(math.trunc(end / by[0])) for end in x)  # type: ignore[return-value]


def _mul(x: Range, y: Range) -> Range:
    if math.inf in map(abs, (*x, *y)):
        return (0, math.inf) if x[0] >= 0 and y[0] >= 0 else ANY
    products = [a * b for a in x for b in y]
    return min(products), max(products)


def _either(*ranges: Range) -> Range:
    return min(r[0] for r in ranges), max(r[1] for r in ranges)


RULES: dict[str, Callable[..., Range]] = {
    "Clip": _clip,
    "Mod": _mod,
    "Div": _div,
    "Mul": _mul,
    "Add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "Sub": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "Neg": lambda x: (-x[1], -x[0]),
    "Abs": lambda x: (0.0 if x[0] <= 0 <= x[1] else min(map(abs, x)), max(map(abs, x))),
    "Min": lambda *r: (min(x[0] for x in r), min(x[1] for x in r)),
    "Max": lambda *r: (max(x[0] for x in r), max(x[1] for x in r)),
    "Where": _either,
    "Concat": _either,
    "Gather": lambda table, _: table,
}
"""The range of an operator's result, by the ranges of what goes in."""
