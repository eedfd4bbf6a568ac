"""Biases of attention scores: which encodings they are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from posenc.formulas.fitting import Form, Observation, find_scheme, looked_at, spacing_of_dtype
from posenc.formulas.parts.distances import by_distance
from posenc_export.read.interpret.networks import of_network, opened
from posenc_export.read.recognise.added.taken_in import coordinates_form
from posenc_export.read.recognise.claims import Claim, Shared, claim, gathered
from posenc_export.read.recognise.lookups import Lookup, Lookups, distance_lookup_form, table_of
from posenc_export.read.recognise.masks import is_mask, unblocked
from posenc_export.read.recognise.named import Named
from posenc_export.read.recognise.scores.relative import stored_by_distance
from posenc_export.read.recognise.sides import TensorAxes
from posenc_export.read.recognise.trails import (
    Trails,
    is_data,
    is_float,
    made_of,
    numbers_of,
    positions_of,
    shape_of,
    stored_of,
)
from posenc_export.read.values import Constant, Meeting, Operand, Position, Run

Array = NDArray[np.generic]
ADDING = ("Add", "Sub", "Sum", "BiasSoftmax")
PRODUCTS = ("MatMul", "Einsum", "FusedMatMul")
BIAS_OF = {
    ("com.microsoft", "MultiHeadAttention"): 5,
    ("com.microsoft", "DecoderMaskedMultiHeadAttention"): 5,
    ("com.microsoft", "Attention"): 5,
    ("com.microsoft", "GroupQueryAttention"): 10,
    ("com.microsoft", "GatedRelativePositionBias"): 2,
    ("", "Attention"): 3,
}
"""Which input of an operator of attention is added to scores."""


def biases_of(run: Run, axes: TensorAxes) -> list[Named]:
    """Return the encodings that are added to attention scores, in the graph's order.

    Args:
        run: an interpreted graph.
        axes: what the axes of its data are.
    """
    lookups, shared = Lookups(run, distance_lookup_form, Trails(run)), Shared()
    return gathered(item for meeting in run.nodes for item in _claims(run, axes, lookups, shared, meeting))


def _claims(run: Run, axes: TensorAxes, lookups: Lookups, shared: Shared, meeting: Meeting) -> Iterator[Claim]:
    if meeting.op_type == "RelativePositionBias":
        yield from _by_operator(run, meeting)
        return
    if not any(is_data(run.values.get(name)) for name in meeting.outputs if name):
        return
    for place, operand in enumerate(meeting.operands):
        if operand is None or not is_float(operand.value):
            continue
        with looked_at(operand.tensor):
            if is_data(operand.value):
                item = _of_network(run, shared, meeting, place) if _is_added(meeting, place) else None
            else:
                item = _of_positions(run, axes, (lookups, shared), meeting, place)
        if item is not None:
            yield item
            if meeting.op_type == "Where":
                yield from (replace(item, node=taker) for taker in _takers(run, meeting))


def _of_positions(
    run: Run, axes: TensorAxes, known: tuple[Lookups, Shared], meeting: Meeting, place: int
) -> Claim | None:
    """Return the encoding of an input that follows from positions, or is stored; None where it is none."""
    operand, (lookups, shared) = meeting.operands[place], known
    if operand is None:
        return None
    item = _looked_up(run, lookups, meeting, operand)
    if item is not None and _is_of_tokens(axes, meeting, operand):
        item = None
    if item is None and meeting.op_type in PRODUCTS:
        item = _padded(run, meeting, operand) or _nearest(run, meeting, operand) or _unfolded(run, meeting, operand)
    if item is None and _is_added(meeting, place):
        sign = -1 if meeting.op_type == "Sub" else 1
        item = shared.claim(meeting, operand, f"added {sign}", partial(_of_numbers, run, meeting, operand, sign))
    return item


def _of_network(run: Run, shared: Shared, meeting: Meeting, place: int) -> Claim | None:
    """Return the encoding of what a network of positions alone adds to scores; None where these are of one, too."""
    operand = meeting.operands[place]
    others = (o for o in meeting.operands if o is not None and o is not operand)
    if operand is None or not _is_of_scores(operand) or not any(is_data(o.value) and not of_network(o) for o in others):
        return None
    known = opened(operand)
    if known is operand:
        return None
    sign = -1 if meeting.op_type == "Sub" else 1
    return shared.claim(meeting, known, f"added {sign}", partial(_of_numbers, run, meeting, known, sign))


def _takers(run: Run, meeting: Meeting) -> Iterator[Meeting]:
    """Yield the nodes that add to scores what a mask left of a bias: those of all layers."""
    kept = meeting.outputs[0]
    for node in run.nodes[run.produced[kept] :]:
        if node.op_type in ADDING and any(operand is not None and operand.tensor == kept for operand in node.operands):
            yield node


def _is_of_tokens(axes: TensorAxes, meeting: Meeting, operand: Operand) -> bool:
    """Return whether rows (tokens, features) are added to tokens: no distance chooses them."""
    several = [size for size in shape_of(operand.value) if size > 1]
    return meeting.op_type in ADDING and len(several) < 3 and axes.met(meeting)[-1:] == ("features",)


def _by_operator(run: Run, meeting: Meeting) -> Iterator[Claim]:
    """Give T5's bias of ONNX Runtime's operator, which has its parameters as attributes."""
    table = meeting.operands[0]
    far, ahead = meeting.attributes.get("max_distance"), meeting.attributes.get("is_bidirectional", 0)
    if table is None or len(shape_of(table.value)) != 2 or not isinstance(far, int):
        return
    buckets, heads = shape_of(table.value)
    sizes = {"heads": heads, "num_buckets": buckets, "max_distance": far, "bidirectional": bool(ahead)}
    form = Form("t5", "buckets", sizes, scheme="t5_bias", typed=sizes)
    yield replace(claim(run, form, meeting, table), rows=buckets, positions="range")


def _is_added(meeting: Meeting, place: int) -> bool:
    """Return whether an input is added to scores."""
    if meeting.op_type == "Sub":
        return place == 1
    if meeting.op_type == "Where":
        # a mask that comes in keeps a bias, or puts one number in its place, and what comes of it is added
        other = meeting.operands[3 - place] if place else None
        return other is not None and math.prod(shape_of(other.value)) == 1 and not is_data(other.value)
    return meeting.op_type in ADDING or BIAS_OF.get((meeting.domain, meeting.op_type)) == place


def _looked_up(run: Run, lookups: Lookups, meeting: Meeting, operand: Operand) -> Claim | None:
    """Return the encoding of rows that distances choose, whatever was made of them since; None for other values."""
    # masks and transpositions after the look-up change nothing of what it is
    known = lookups.before(operand.tensor)
    if known is None:
        return None
    lookup, form = known
    name = "head_dim" if meeting.op_type in PRODUCTS else "heads"
    return _of_lookup(run, _with_columns(form, lookup, name), meeting, operand, lookup)


def _with_columns(form: Form, lookup: Lookup, name: str) -> Form:
    """Return a form with the columns of its table by their name: heads, or features of a head."""
    table = lookup.node.operands[0]
    shape = () if table is None else shape_of(table.value)
    columns = [size for size in shape if size != lookup.rows]
    if len(columns) != 1:
        return form
    # rows that queries are multiplied by are no bias of heads, which schemes have
    return (
        form.beside(**{name: columns[0]}) if name == "heads" else replace(form, scheme="").beside(**{name: columns[0]})
    )


def _padded(run: Run, meeting: Meeting, operand: Operand) -> Claim | None:
    """Return the encoding of stored rows by distance, with zeros around, that queries or probabilities multiply."""
    stored = stored_of(operand)
    array = np.squeeze(operand.value.array) if isinstance(operand.value, Position) else np.zeros(0)
    if array.ndim != 2 or not stored:
        return None
    # queries are multiplied by rows as columns, probabilities by rows as they are
    for rows in (array, array.T):
        table = table_of(run, stored, rows.shape[1])
        if table is None:
            continue
        form = find_scheme(Observation("distances", rows, spacing_of_dtype(rows.dtype), stored=(table,)))
        if form is not None:
            return replace(claim(run, form, meeting, operand), rows=len(table))
    return None


def _nearest(run: Run, meeting: Meeting, operand: Operand) -> Claim | None:
    """Return the encoding of the last of stored rows, as many as a call has tokens, that queries are multiplied by.

    Music Transformer has a row for each distance, the farthest first, and moves the scores to their keys.
    """
    value = operand.value
    stored = stored_of(operand)
    array = np.squeeze(value.array) if isinstance(value, Position) and value.sizes else np.zeros(0)
    if array.ndim != 2 or len(stored) != 1 or min(array.shape) < 2:
        return None
    # queries are multiplied by rows as columns
    rows = array.T
    queries = next((shape_of(o.value) for o in meeting.operands if o is not None and is_data(o.value)), ())
    # a part of a joined weight has as many rows as features, and not as tokens
    if len(queries) < 3 or queries[-2:] != rows.shape or len(rows) % rows.shape[1] == 0:
        return None
    table = table_of(run, stored, rows.shape[1])
    if table is None or len(rows) >= len(table) or not np.array_equal(table[-len(rows) :], rows):
        return None
    sides = {"head_dim": rows.shape[1], "left": len(table) - 1, "right": 0, "rows": len(table)}
    return replace(claim(run, Form("relative", "distances", sides), meeting, operand), rows=len(table))


def _unfolded(run: Run, meeting: Meeting, operand: Operand) -> Claim | None:
    """Return the encoding of rows by distance that were looked up when a file was written: (queries, keys, features).

    Exporters fold what follows from sizes alone: SAM's rows of each distance are then stored once for each pair.
    """
    array = numbers_of(operand.value) if isinstance(operand.value, Constant) and len(operand.value.shape) == 3 else None
    if array is None or min(array.shape[:2]) < 2 or array.shape[2] < 2:
        return None
    # each feature (queries, keys) has one number on each diagonal, as a weight has not
    diagonals = by_distance(np.moveaxis(array, -1, 0))
    if diagonals is None or len(np.unique(diagonals.values, axis=-1).T) < diagonals.values.shape[-1]:
        return None
    queries, keys, width = array.shape
    sides = {"left": keys - 1, "right": queries - 1, "rows": queries + keys - 1}
    form = Form("relative", "distances", {"head_dim": width, **sides})
    return replace(claim(run, form, meeting, operand), rows=queries + keys - 1)


def _of_lookup(run: Run, form: Form, meeting: Meeting, operand: Operand, lookup: Lookup) -> Claim:
    table, indices = lookup.node.operands[:2]
    assert indices is not None  # a look-up has both
    item = claim(run, form, meeting, operand)
    source = positions_of(run, indices.value)
    return replace(item, rows=lookup.rows, stored=stored_of(table) or item.stored, positions=source)


def _of_numbers(run: Run, meeting: Meeting, operand: Operand, sign: int) -> Claim | None:
    """Return the encoding that a bias is by its numbers; None where it is a mask, or no bias of heads."""
    array = numbers_of(operand.value) if _is_of_scores(operand) else None
    if array is None or is_mask(array):
        return None
    # (.., heads, queries, keys) -> (heads, queries, keys): a batch repeats the first
    heads = unblocked(array).reshape(-1, *array.shape[-3:])[0]
    seen = Observation("bias", sign * heads, spacing_of_dtype(array.dtype), stored=made_of(run, operand))
    form = find_scheme(seen)
    if form is not None:
        item = claim(run, _continuous(seen, form), meeting, operand)
        # trained numbers are stored by distances or differences
        return replace(
            item,
            rows=None if form.traits.is_trained else _stored_keys(run, operand, form),
            error=None if form.exact is None else form.error,
        )
    form = stored_by_distance(seen)
    if form is None or not _is_kept(run, operand, form, array):
        return None
    return replace(claim(run, form, meeting, operand), rows=_rows(form))


def _is_of_scores(operand: Operand) -> bool:
    """Return whether numbers may differ from head to head, or from query to query, and from key to key."""
    shape = shape_of(operand.value)
    return len(shape) > 2 and shape[-1] > 1 and max(shape[:-1]) > 1


def _is_kept(run: Run, operand: Operand, form: Form, array: Array) -> bool:
    """Return whether a bias of all pairs of tokens is stored, or a row for each distance: and not a few numbers."""
    if isinstance(operand.value, Constant):
        return True
    keys, rows = array.shape[-1], form.parameters.get("rows")
    values = [run.values[name] for name in stored_of(operand) if name in run.values]
    sizes = [[size for size in shape_of(value) if size >= keys] for value in values if is_float(value)]
    return any(len(large) > 1 or rows in large for large in sizes)


def _continuous(seen: Observation, form: Form) -> Form:
    """Return a window's form with the name of what computed it, where coordinates are among what is stored."""
    for table in seen.stored if form.name == "table" else ():
        found = coordinates_form(table)
        if found is not None:
            return replace(form, name=found.name, parameters={**form.parameters, **found.parameters}, scheme="")
    return form


def _stored_keys(run: Run, operand: Operand, form: Form) -> int | None:
    """Return for how many keys a bias is stored, with a row of them for each head; None where it is computed."""
    shapes = [shape_of(run.values[name]) for name in stored_of(operand) if name in run.values]
    keys = [shape[-1] for shape in shapes if shape and int(np.prod(shape[:-1])) == form.parameters["heads"]]
    return max((count for count in keys if count > 1), default=None)


def _rows(form: Form) -> int | None:
    rows = form.parameters.get("rows")
    return rows if isinstance(rows, int) else None
