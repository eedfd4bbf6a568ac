"""Operators that take rotary tables: what they turn, by which tables, at which positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from posenc.formulas.fitting import Parameter
from posenc.formulas.parts.circles import circle_of, offset_of
from posenc_export.read.recognise.flow import Flow
from posenc_export.read.recognise.rotary.rows import CosSinRows
from posenc_export.read.values import Array, Constant, Data, Meeting, Operand, Position, Value


@dataclass(frozen=True)
class Places:
    """At which inputs an operator takes its tables and its positions.

    Args:
        cosine: the place of the cosines; the sines come next.
        positions: places that say positions, the first that is there.
        interleaved: the attribute that says whether pairs are neighbours.
    """

    cosine: int
    positions: tuple[int, ...]
    interleaved: str = "interleaved"


OFF_CIRCLE = 0.03
"""By how much the sizes of pairs in a row may differ, relative to them: tables of eight bits differ by a hundredth."""
BENT = 1e-3
"""By how much a logarithm of such sizes may miss a straight line."""
OPERATORS: Mapping[tuple[str, str], Places] = {
    ("com.microsoft", "RotaryEmbedding"): Places(2, (1,)),
    ("com.microsoft", "MRotaryEmbedding"): Places(2, (1,)),
    ("", "RotaryEmbedding"): Places(1, (3,)),
    ("com.microsoft", "GroupQueryAttention"): Places(7, (9, 5), "rotary_interleaved"),
    ("com.microsoft", "PagedAttention"): Places(8, (6,), "rotary_interleaved"),
}


@dataclass(frozen=True)
class TabledOperator:
    """An operator with its tables.

    Args:
        node: the operator.
        tables: cosines and sines.
        ids: the input that says positions; None where the tables are those of the positions already.
        rows: cosines and sines, a row a position.
        positions: whole, a row each.
        parameters: what its attributes say.
    """

    node: Meeting
    tables: tuple[Operand, Operand]
    ids: Operand | None
    rows: CosSinRows
    positions: NDArray[np.int64]
    parameters: dict[str, Parameter]


def is_rotation(rows: CosSinRows) -> bool:
    """Return whether rows can turn pairs: cos^2 + sin^2 is the same for all pairs of a row, and not 0.

    Tables that grow or shrink by one factor a position, pair by pair, are those of xPos.
    """
    cosine, sine = rows.cosine.astype(np.float64), rows.sine.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        size = np.hypot(cosine, sine)
        if not np.isfinite(size).all() or not (size > 0).all():
            return False
        if float(np.max(np.ptp(size, axis=1) / np.median(size, axis=1))) <= OFF_CIRCLE:
            return True
        return len(size) > 2 and float(np.abs(np.diff(np.log(size), 2, axis=0)).max()) <= BENT


def rotary_tables(flow: Flow) -> Iterator[tuple[Meeting, tuple[Operand, Operand], CosSinRows]]:
    """Yield each operator that turns by tables whose numbers are known, with its tables, as rows too."""
    for node in flow.run.nodes:
        found = _tables_of(flow, node)
        if found is not None:
            yield node, *found


def _tables_of(flow: Flow, node: Meeting) -> tuple[tuple[Operand, Operand], CosSinRows] | None:
    places = OPERATORS.get((node.domain.replace("ai.onnx", ""), node.op_type))
    if places is None or (places.interleaved != "interleaved" and not node.attributes.get("do_rotary")):
        return None
    cosine, sine = (_at(node, places.cosine + place) for place in (0, 1))
    numbers = [None if table is None else flow.numbers(table) for table in (cosine, sine)]
    if cosine is None or sine is None or numbers[0] is None or numbers[1] is None:
        return None
    rows = _rows(numbers[0], numbers[1])
    return None if rows is None else ((cosine, sine), rows)


def absent_tables(flow: Flow) -> Iterator[tuple[Meeting, Operand, int, dict[str, Parameter], Operand | None]]:
    """Yield each operator whose tables lie in a file that is not there: the table, its rows, parameters and ids."""
    for node in flow.run.nodes:
        places = OPERATORS.get((node.domain.replace("ai.onnx", ""), node.op_type))
        if places is None or (places.interleaved != "interleaved" and not node.attributes.get("do_rotary")):
            continue
        table = _at(node, places.cosine)
        if table is None or not isinstance(table.value, Constant) or flow.numbers(table) is not None:
            continue
        rows, pairs = table.value.shape[-2:] if len(table.value.shape) > 1 else (0, 0)
        ids = next((ids for place in places.positions if (ids := _at(node, place)) is not None), None)
        if rows and pairs:
            yield node, table, rows, _parameters(node, 2 * pairs, places.interleaved), ids


def tabled_operators(flow: Flow) -> Iterator[TabledOperator]:
    """Yield the operators of a run that turn by tables whose numbers are known."""
    for node in flow.run.nodes:
        operator = tabled_operator(flow, node)
        if operator is not None:
            yield operator


def tabled_operator(flow: Flow, node: Meeting) -> TabledOperator | None:
    """Return a node as an operator that turns by tables whose numbers are known; None where it is none."""
    found = _tables_of(flow, node)
    if found is None:
        return None
    tables, rows = found
    places = OPERATORS[node.domain.replace("ai.onnx", ""), node.op_type]
    ids = next((ids for place in places.positions if (ids := _at(node, place)) is not None), None)
    parameters = _parameters(node, 2 * rows.cosine.shape[1], places.interleaved)
    return TabledOperator(node, tables, ids, rows, _positions(rows, ids), parameters)


def _at(node: Meeting, place: int) -> Operand | None:
    return node.operands[place] if place < len(node.operands) else None


def _rows(cosine: Array, sine: Array) -> CosSinRows | None:
    """Return tables as (positions, pairs); a call's tables have an axis of sequences more, all alike."""
    if cosine.shape != sine.shape or cosine.ndim not in (2, 3) or 0 in cosine.shape:
        return None
    return CosSinRows(cosine, sine) if cosine.ndim == 2 else CosSinRows(cosine[0], sine[0])


def _positions(rows: CosSinRows, ids: Operand | None) -> NDArray[np.int64]:
    """Return the positions of rows: those of a table are counted, those of a call begin somewhere."""
    # a stored table begins at position 0; what a graph computed may begin where a cache ends
    count = len(rows)
    circle = None if ids is not None else circle_of(rows.cosine, rows.sine)
    start = None if circle is None else offset_of(circle, count)
    return np.arange(count, dtype=np.int64) + (start or 0)


def _parameters(node: Meeting, width: int, interleaved: str) -> dict[str, Parameter]:
    """Return the layout and the sizes of heads that an operator has."""
    # 0 stands for halves in all of these operators
    layout = "interleaved" if node.attributes.get(interleaved) else "halves"
    rotary_dim = _integer(node, "rotary_embedding_dim") or width
    parameters: dict[str, Parameter] = {
        "head_dim": _head_dim(node) or rotary_dim,
        "rotary_dim": rotary_dim,
        "layout": layout,
    }
    sections = node.attributes.get("mrope_section")
    if isinstance(sections, list | tuple):
        parameters["mrope_section"] = tuple(int(section) for section in sections)
    return parameters


def _head_dim(node: Meeting) -> int:
    """Return the features of a head; 0 where the operator does not say how many heads there are."""
    data = _at(node, 0)
    shape = _shape(data.value) if data is not None else ()
    if len(shape) == 4:
        return shape[3]
    heads = _integer(node, "num_heads")
    # keys and values may be packed beside queries
    packed = node.op_type in ("GroupQueryAttention", "PagedAttention") and _at(node, 1) is None
    heads += 2 * _integer(node, "kv_num_heads") if packed else 0
    return shape[-1] // heads if heads and shape else 0


def _shape(value: Value) -> tuple[int, ...]:
    if isinstance(value, Position):
        return value.array.shape
    return value.shape if isinstance(value, Data) else ()


def _integer(node: Meeting, name: str) -> int:
    value = node.attributes.get(name, 0)
    return value if isinstance(value, int) else 0
