"""The rotary encodings of a run: `rotary_of`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from posenc.formulas.fitting import Form, Parameter, looked_at
from posenc.formulas.rope import of_heads
from posenc.ports import Floats
from posenc_export.read.recognise.flow import Flow
from posenc_export.read.recognise.named import Named
from posenc_export.read.recognise.rotary.heads import head_widths
from posenc_export.read.recognise.rotary.numbers import Numbers, Reader
from posenc_export.read.recognise.rotary.operators import TabledOperator, tabled_operators
from posenc_export.read.recognise.rotary.pairing import Pairing, features_of
from posenc_export.read.recognise.rotary.rotations import Rotation, rotations
from posenc_export.read.recognise.rotary.rows import row_errors
from posenc_export.read.recognise.sources import positions_from, stored_names
from posenc_export.read.values import Data, Meeting, Operand, Position, Run


@dataclass(frozen=True)
class Use:
    """A place in a graph where something is turned.

    Args:
        node: the node in which cosines meet data.
        attention: the nodes in which what is turned is used.
        tables: the tensors of cosines and of sines.
        form: what they are, with the features that they turn.
        numbers: the cosines and sines.
        ids: where positions come from.
    """

    node: str
    attention: frozenset[str]
    tables: tuple[Operand, Operand]
    form: Form
    numbers: Numbers
    ids: str


def rotary_of(run: Run) -> list[Named]:
    """Return the rotary encodings of a run; layers that share the same numbers are one."""
    return [named for named, _ in _encodings(run)]


def error_by_position(named: Named, run: Run) -> tuple[NDArray[np.int64], Floats]:
    """Return positions, and the largest absolute error of each against the form in float64.

    Stored tables are compared row by row, computed ones at the positions of the run. Raises ValueError where the form
    has no formula or is not in the run.
    """
    for encoding, numbers in _encodings(run):
        if encoding.tensors == named.tensors and encoding.form == named.form:
            return numbers.positions, row_errors(numbers.rows, named.form, numbers.positions)
    raise ValueError(f"the run has no encoding of {', '.join(named.tensors)}: give the run that it was read from")


def exceeds_from(positions: NDArray[np.int64], errors: Floats, bound: float) -> int | None:
    """Return the position from which an error exceeds a bound; None where it never does."""
    beyond = positions[errors > bound]
    return int(beyond.min()) if beyond.size else None


def _encodings(run: Run) -> list[tuple[Named, Numbers]]:
    """Return the encodings, each with the numbers that are the worst."""
    order = {node.node: place for place, node in enumerate(run.nodes)}
    groups: dict[object, list[Use]] = {}
    for use in sorted(_uses(Flow(run)), key=lambda use: order[use.node]):
        key = (
            use.form.name,
            tuple(use.form.parameters.items()),
            use.form.also,
            use.numbers.count,
            use.ids,
            _dtype(use),
        )
        groups.setdefault(key, []).append(use)
    return [_named(uses) for uses in groups.values()]


def _uses(flow: Flow) -> Iterator[Use]:
    reader = Reader(flow)
    for rotation in rotations(flow):
        with looked_at(*(table.tensor for table in rotation.tables)):
            numbers = reader.of_rotation(rotation)
        if numbers is not None:
            yield _rotation_use(flow, rotation, numbers)
    for operator in tabled_operators(flow):
        with looked_at(*(table.tensor for table in operator.tables)):
            numbers = reader.of_operator(operator)
        if numbers is not None:
            yield _operator_use(flow, operator, numbers)


def _rotation_use(flow: Flow, rotation: Rotation, numbers: Numbers) -> Use:
    """Return a rotation with the features of heads that it turns."""
    head_dim = max(head_widths(flow, rotation.outputs, 2 * rotation.first.size))
    features = features_of(rotation.first, rotation.second, rotation.shape, head_dim)
    form = of_heads(numbers.form, Pairing(*features, head_dim).parameters)
    ids = positions_from(flow.run, rotation.tables[0].value)
    return Use(rotation.multiplied.node, flow.ends(rotation.outputs), rotation.tables, form, numbers, ids)


def _operator_use(flow: Flow, operator: TabledOperator, numbers: Numbers) -> Use:
    """Return an operator with the features of heads that it turns."""
    node, parameters = operator.node, dict(operator.parameters)
    is_attention = not node.op_type.endswith("RotaryEmbedding")
    if not is_attention:
        parameters |= _paired_before(node, parameters)
        parameters["head_dim"] = max(head_widths(flow, node.outputs[:1], int(np.asarray(parameters["head_dim"]))))
    if numbers.exchanged:
        parameters["tables"] = "cosines and sines exchanged"
    ends = frozenset({node.node}) if is_attention else flow.ends(node.outputs[:1])
    source = operator.tables[0].value if operator.ids is None else operator.ids.value
    ids = positions_from(flow.run, source)
    return Use(node.node, ends, operator.tables, of_heads(numbers.form, parameters), numbers, ids)


def _paired_before(node: Meeting, parameters: dict[str, Parameter]) -> dict[str, Parameter]:
    """Return the layout of features that were put in another order before an operator; nothing where they were not."""
    value = None if node.operands[0] is None else node.operands[0].value
    head, width = int(np.asarray(parameters["head_dim"])), int(np.asarray(parameters["rotary_dim"]))
    if not isinstance(value, Data) or value.moved is None or not width or math.prod(value.shape) == 0:
        return {}
    moved = value.moved()
    # the features of the first head of the first token, wherever they were before they were moved
    row = moved.index.reshape(-1, moved.index.shape[-1])[0][: max(head, width)]
    if len(row) < width or np.any(row < 0) or np.all(np.diff(row) == 1):
        return {}
    pairs = width // 2
    first = np.arange(pairs) * (2 if parameters["layout"] == "interleaved" else 1)
    second = first + (1 if parameters["layout"] == "interleaved" else pairs)
    # features of a head that lie in a row, in whatever order: heads that lie apart are no other layout
    ranks = np.argsort(np.argsort(row))
    if not np.array_equal(np.sort(row), np.arange(row.min(), row.min() + len(row))):
        return {}
    return {
        "layout": Pairing(np.minimum(ranks[first], ranks[second]), np.maximum(ranks[first], ranks[second]), head).layout
    }


def _named(uses: Sequence[Use]) -> tuple[Named, Numbers]:
    """Return the encoding of several uses, with a node for each layer."""
    worst = max((use.numbers for use in uses), key=lambda numbers: numbers.error or 0.0)
    tensors = dict.fromkeys(table.tensor for use in uses for table in use.tables)
    stored = dict.fromkeys(name for use in uses for table in use.tables for name in stored_names(table))
    first = uses[0]
    named = Named(
        first.form,
        tuple(_layers(uses)),
        tuple(tensors),
        tuple(stored),
        _dtype(first),
        first.numbers.count,
        first.ids,
        worst.error,
    )
    return named, worst


def _layers(uses: Sequence[Use]) -> Iterator[str]:
    """Yield the first node of each attention: its queries and its keys are turned by the same numbers."""
    seen: set[str] = set()
    for use in uses:
        # keys come after queries, and meet them in the same product
        if not use.attention & seen:
            yield use.node
        seen |= use.attention


def _dtype(use: Use) -> str:
    value = use.tables[0].value
    dtype = value.array.dtype if isinstance(value, Position) else getattr(value, "dtype", np.dtype(np.float32))
    return str(dtype.name)
