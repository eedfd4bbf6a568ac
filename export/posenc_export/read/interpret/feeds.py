"""Numbers for the inputs of a graph: ids of tokens, positions, masks; what is data has a shape alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import onnx

from posenc_export.read.graph import Graph, Input
from posenc_export.read.interpret.movement import unmoved
from posenc_export.read.interpret.roles import Role, rows_axis
from posenc_export.read.interpret.sizes import axes_of, axis_name
from posenc_export.read.values import Array, Data, Position, Value

FIRST = 4
"""The first id of a token that is not usually one of padding, or of a start, an end, an unknown word."""
LIMIT = 1 << 12
"""Below which primes are looked for."""
THROUGH = ("Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Flatten", "Slice", "Split", "Gather")
"""Operators that move ids: those of a codebook, or of a corner of a box, are taken out of more."""
JOINING = ("Pad", "Concat", "Where", "Add", "Mul", "ScatterND", "Expand", "Tile", "Clip")
"""Operators that change some ids, or put others beside them: ids that are padded, shifted or masked."""
DEQUANTIZING = ("DequantizeLinear", "Cast", "Mul", "Identity")
"""Operators between a stored table and its look-up."""
STEP = 7
DATA: tuple[Role, ...] = ("data", "past", "audio")
"""Roles of inputs whose numbers positions do not depend on."""


def input_values(
    graph: Graph,
    roles: Mapping[str, Role],
    sizes: Mapping[str, int],
    feeds: Mapping[str, Array],
    value_bytes: int,
) -> dict[str, Value]:
    """Return the value of each input.

    Args:
        graph: as `read_graph` has it.
        roles: what inputs are for.
        sizes: of dynamic axes, by name.
        feeds: numbers in place of those that are made up.
        value_bytes: how large numbers are that are made up.
    """
    shapes = {item.name: _shape(item, sizes) for item in graph.inputs}
    past, length = _extent(graph, sizes, "past"), _extent(graph, sizes, "length")
    # a graph of a fixed length has no axis of the kind
    length = length or next((shapes[name][-1] for name, role in roles.items() if role == "tokens" and shapes[name]), 1)
    rows = _rows(graph, (name for name, role in roles.items() if role == "tokens"), shapes)
    values: dict[str, Value] = {}
    for item in graph.inputs:
        array, shape, role = feeds.get(item.name), shapes[item.name], roles[item.name]
        # numbers of eight bytes are made first, whatever their type is then
        fits = math.prod(shape) * 8 <= value_bytes
        if array is None and fits:
            array = _numbers(item, role, shape, (past, length), rows.get(item.name))
        if array is not None:
            values[item.name] = Position(np.asarray(array).astype(item.dtype, copy=False), frozenset({item.name}))
        else:
            values[item.name] = Data(shape, item.dtype, unmoved(item.name, shape), role not in DATA)
    return values


def _shape(item: Input, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(size if isinstance(size, int) else sizes[axis_name(item, i)] for i, size in enumerate(item.shape))


def _extent(graph: Graph, sizes: Mapping[str, int], kind: str) -> int:
    """Return the size of the first dynamic axis of a kind, 0 where there is none."""
    return next((sizes[name] for name, own in axes_of(graph).items() if own == kind), 0)


def _numbers(
    item: Input, role: Role, shape: tuple[int, ...], extent: tuple[int, int], rows: int | None
) -> Array | None:
    """Return the numbers of an input that is not data; None for data.

    Args:
        item: the input.
        role: what it is for.
        shape: its sizes.
        extent: how many tokens are past, and how many come in.
        rows: of the table that tokens are looked up in, where it is known.
    """
    past, length = extent
    if role == "tokens":
        return tokens(shape, rows)
    # steps of an episode, one for each token, are looked up as places are
    if role == "places" or (role == "step" and len(shape) > 1 and item.dtype.kind in "iu"):
        return counted(item, shape, past)
    if role in DATA:
        return None
    if role == "step":
        return np.linspace(1, 900, math.prod(shape)).reshape(shape)
    # token types, languages and speakers are 0, as a bias on scores is
    numbers = {
        "mask": 1,
        "length": length,
        "last": past + length - 1,
        "total": past + length,
        "before": past,
        "flag": 1,
    }
    # a cache is read only where a flag says so: without a past there is nothing to read
    flag = int("cache" not in item.name or past > 0)
    return np.full(shape, flag if role == "flag" else numbers.get(role, 0))


def counted(item: Input, shape: tuple[int, ...], first: int = 0, apart: int = 0) -> Array:
    """Return positions of tokens, in a row from a first one on.

    Args:
        item: the input that they are for.
        shape: its sizes.
        first: the first position.
        apart: by how much each further position of a token is larger, where it has several.
    """
    if not shape:
        return np.array(first)
    rows = rows_axis(item)
    # places in an image have their coordinates last
    along = len(shape) - (2 if rows == len(shape) - 1 else 1)
    numbers = np.arange(shape[along]).reshape(-1, *(1,) * (len(shape) - along - 1)) + first
    if rows is not None and apart:
        numbers = numbers + apart * np.arange(shape[rows]).reshape(-1, *(1,) * (len(shape) - rows - 1))
    return np.broadcast_to(numbers, shape)


def tokens(shape: tuple[int, ...], rows: int | None) -> Array:
    """Return ids of tokens: primes, in an order unlike that of positions, within the rows of a table."""
    last = min(rows or LIMIT, LIMIT)
    numbers = np.arange(last)
    composite = np.zeros(last, bool)
    for i in range(2, int(last**0.5) + 1):
        composite[i * i :: i] = True
    # 0 to 3 may be padding, and 4 is no prime
    ids = numbers[~composite & (numbers > FIRST)]
    if not ids.size:
        ids = np.array([max(last - 1, 0)])
    count = math.prod(shape)
    # steps that share no divisor with the number of ids go through all of them
    step = STEP if ids.size % STEP else STEP + 4
    return ids[(np.arange(count) * step) % ids.size].reshape(shape)


def _rows(graph: Graph, names: Iterable[str], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """Return how many rows the smallest table has in which each of some inputs is looked up; none where it is not.

    Args:
        graph: the graph; branches and loops in it are looked through, too.
        names: of inputs.
        shapes: of all inputs, in which indices may be looked up as well.
    """
    # what an input was moved to, and which one
    sources = {name: name for name in names}
    tables = {table: constant.shape[0] for table, constant in graph.constants.items() if constant.shape}
    tables.update((name, shape[0]) for name, shape in shapes.items() if shape and name not in sources)
    rows: dict[str, int] = {}
    for op_type, inputs, outputs in _nodes(graph):
        first, second, third = (*inputs[:3], "", "", "")[:3]
        ids, table = (
            (first, third)
            if op_type in ("EmbedLayerNormalization", "QEmbedLayerNormalization")
            else (second, first if op_type in ("Gather", "GatherBlockQuantized") else "")
        )
        if op_type in DEQUANTIZING and first in tables:
            tables[outputs[0]] = tables[first]
        elif op_type in THROUGH and first in sources:
            sources.update(dict.fromkeys(outputs, sources[first]))
        elif op_type in JOINING and any(name in sources for name in inputs):
            sources.update(dict.fromkeys(outputs, next(sources[name] for name in inputs if name in sources)))
        elif ids in sources and table in tables:
            rows[sources[ids]] = min(rows.get(sources[ids], tables[table]), tables[table])
    return rows


def _nodes(graph: Graph) -> Iterator[tuple[str, Sequence[str], Sequence[str]]]:
    """Yield the operator, the inputs and the outputs of each node, those inside of others after these."""
    inside: list[onnx.GraphProto] = []
    for node in graph.nodes:
        yield node.op_type, node.inputs, node.outputs
        inside += [value for value in node.attributes.values() if isinstance(value, onnx.GraphProto)]
    while inside:
        inner = inside.pop()
        for proto in inner.node:
            yield proto.op_type, proto.input, proto.output
            inside += [attribute.g for attribute in proto.attribute if attribute.HasField("g")]


def looked_up(graph: Graph, names: Iterable[str]) -> set[str]:
    """Return those inputs that are looked up in a table, as ids of words are."""
    return set(_rows(graph, names, {}))
