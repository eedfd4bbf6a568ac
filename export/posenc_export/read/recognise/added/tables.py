"""Rows of positions that are added to data, or that a weight takes in: which encodings they are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from posenc.formulas.fitting import Form, Observation, Parameter, find_scheme, looked_at, spacing_of_dtype
from posenc.formulas.parts.windows import sides_of
from posenc.formulas.sinusoidal import near_columns
from posenc_export.read.recognise.added.claimed_rows import error_of_rows, from_input, of_numbers
from posenc_export.read.recognise.added.taken_in import step_of, taken_in, unquantized
from posenc_export.read.recognise.claims import Claim, Shared, claim, gathered
from posenc_export.read.recognise.lookups import (
    EIGHT_BITS,
    Lookup,
    Lookups,
    form_of_rows,
    is_smooth,
    learned_form,
    lookup_of,
    rows_lookup_form,
    rows_of,
    stored_rows,
    table_of,
)
from posenc_export.read.recognise.masks import is_mask
from posenc_export.read.recognise.named import Named
from posenc_export.read.recognise.sides import TensorAxes
from posenc_export.read.recognise.trails import (
    RESIZING,
    Trails,
    is_data,
    is_float,
    is_quantized,
    made_of,
    numbers_of,
    positions_of,
    shape_of,
    stored_of,
)
from posenc_export.read.values import Constant, Data, Meeting, Operand, Position, Run

Array = NDArray[np.generic]
ADDING = ("Add", "Sum", "SkipLayerNormalization", "BiasAdd")
TAKING = {
    *("MatMul", "Gemm", "Einsum", "FusedMatMul", "FusedGemm", "MatMulNBits", "MatMulInteger"),
    *("DynamicQuantizeMatMul", "MatMulIntegerToFloat"),
}
NARROWEST = 8
"""Features that learned rows have at least: coordinates of anchors and of boxes have fewer."""
MOST_CLASSES = 2
"""Tokens of a class before those of places, at most."""
DEEPEST = 4000
"""Nodes that are gone back from what is added to rows, at most."""
CONVOLUTIONS = {"Conv", "FusedConv", "NhwcConv", "QLinearConv", "ConvInteger"}
EMBEDDING = ("EmbedLayerNormalization", "QEmbedLayerNormalization")


def tables_of(run: Run, axes: TensorAxes) -> list[Named]:
    """Return the encodings whose rows are added to data, or that a weight takes in, in the graph's order.

    Args:
        run: an interpreted graph.
        axes: what the axes of its data are.
    """
    lookups, shared = Lookups(run, rows_lookup_form, Trails(run)), Shared()
    return gathered(item for meeting in run.nodes for item in _claims(run, axes, lookups, shared, meeting))


def _claims(run: Run, axes: TensorAxes, lookups: Lookups, shared: Shared, meeting: Meeting) -> Iterator[Claim]:
    if meeting.op_type in EMBEDDING:
        yield from _embedded(run, meeting)
        return
    operands = [operand for operand in meeting.operands if operand is not None]
    if meeting.op_type in ADDING and any(is_data(operand.value) for operand in operands):
        for operand in operands:
            if is_data(operand.value):
                continue
            with looked_at(operand.tensor):
                item = shared.claim(meeting, operand, "added", partial(_added, run, axes, lookups, meeting, operand))
                # features of a number may be all that a graph gives
                item = item or (step_of(run, meeting, operand) if meeting.outputs == ("",) else None)
            # tokens themselves may be rows that follow no formula
            if item is not None and not (item.form.traits.is_learned and are_tokens(run, meeting, operand)):
                yield item
    elif meeting.op_type in TAKING and any(isinstance(operand.value, Constant) for operand in operands):
        for operand in operands:
            with looked_at(operand.tensor):
                item = taken_in(run, meeting, unquantized(run, operand))
            if item is not None:
                yield item


def are_tokens(run: Run, meeting: Meeting, rows: Operand) -> bool:
    """Return whether rows are tokens themselves: what is added to them is what an attention has made of them.

    Pegasus-X has tokens of no word, and Perceiver latents: such rows go through a layer, and its last weight comes back
    to them. Object queries are no such rows: they are added to what a norm gives.
    """
    data = next((o for o in meeting.operands if o is not None and is_data(o.value)), None)
    place = None if data is None else _last_weight(run, data.tensor)
    if place is None:
        return False
    waiting, seen = [place], {place}
    while waiting and len(seen) < DEEPEST:
        node = run.nodes[waiting.pop()]
        # queries that were folded: scores have a row for each of the rows
        if node.op_type in TAKING and _is_folded(run, node, shape_of(rows.value)):
            return True
        for operand in node.operands:
            if operand is None:
                continue
            if operand.tensor == rows.tensor:
                return True
            before = run.produced.get(operand.tensor)
            if before is not None and before not in seen:
                seen.add(before)
                waiting.append(before)
    return False


def _is_folded(run: Run, node: Meeting, rows: tuple[int, ...]) -> bool:
    """Return whether a product has queries that an exporter folded: as many rows as others, and nothing made them."""
    first, second = node.operands[:2] if len(node.operands) > 1 else (None, None)
    if first is None or second is None or not is_data(second.value):
        return False
    if first.tensor in run.produced or not isinstance(first.value, Constant):
        return False
    if len(first.value.shape) < 3 or len(rows) < 2:
        return False
    return first.value.shape[-2] == rows[-2] and first.value.shape[-1] > 1


def _last_weight(run: Run, tensor: str) -> int | None:
    """Return the place of the product with a weight that made data, behind its bias; None where a norm made them."""
    place = run.produced.get(tensor)
    while place is not None:
        node = run.nodes[place]
        data = [operand for operand in node.operands if operand is not None and is_data(operand.value)]
        if node.op_type in TAKING:
            return place if len(data) == 1 else None
        if len(data) != 1 or node.op_type not in ("Add", "Reshape", "Cast", "Identity", "Dropout", "Transpose"):
            return None
        place = run.produced.get(data[0].tensor)
    return None


def _embedded(run: Run, meeting: Meeting) -> Iterator[Claim]:
    """Give the table of positions of ONNX Runtime's operator that adds and normalizes embeddings."""
    table = meeting.operands[3] if len(meeting.operands) > 3 else None
    ids = meeting.operands[8] if len(meeting.operands) > 8 else None
    if table is None or len(shape_of(table.value)) != 2:
        return
    rows = shape_of(table.value)[0]
    numbers = numbers_of(table.value)
    form = None if numbers is None else form_of_rows(numbers)
    item = claim(run, form or stored_rows(rows, shape_of(table.value)[1], 0), meeting, table, rows=rows)
    source = "range" if ids is None else positions_of(run, ids.value, numbers_of(ids.value))
    yield replace(item, rows=rows, positions=source, error=None if form is None else error_of_rows(form, numbers))


def _added(run: Run, axes: TensorAxes, lookups: Lookups, meeting: Meeting, operand: Operand) -> Claim | None:
    """Return the encoding whose rows are added to data; None where they are a mask, or not of positions."""
    # a bias of features, of channels, or of heads has a single axis
    several = sum(size > 1 for size in shape_of(operand.value)) > 1
    array = numbers_of(operand.value) if several and is_float(operand.value) else None
    if array is None or is_mask(array):
        return None
    known = lookups.before(operand.tensor)
    # rows and columns of a grid are looked up each in a table of half the features
    if (
        known is not None
        and known[0].values.shape[-1] == array.shape[-1]
        and not _is_composed(lookups, operand, known[1])
    ):
        return _looked_up(run, known[1], meeting, operand, known[0])
    form = _form_of_numbers(array, EIGHT_BITS if is_quantized(run, operand) else None)
    if form is not None and form.is_trained:
        form = _form_of_tables(run, operand, array) or form
    if form is not None:
        return of_numbers(run, form, meeting, operand, array)
    resized = [node for node in lookups.trails.before(operand.tensor) if node.op_type in RESIZING]
    interpolated = _interpolated(run, meeting, operand, resized[0]) if resized else None
    return interpolated or _learned(run, axes, meeting, operand, array)


def _is_composed(lookups: Lookups, operand: Operand, form: Form) -> bool:
    """Return whether rows of no formula are made of those of several tables, each at indices of its own."""
    if form.exact is not None:
        return False
    tables = {
        node.operands[0].tensor
        for node in lookups.trails.before(operand.tensor)
        if node.operands[0] is not None and (lookup := lookup_of(lookups.run, node)) and np.ptp(lookup.indices) > 0
    }
    return len(tables) > 1


def _looked_up(run: Run, form: Form, meeting: Meeting, operand: Operand, lookup: Lookup) -> Claim:
    indices = lookup.node.operands[1]
    assert indices is not None  # a look-up has both
    near = None if form.exact is not None else _nearly(lookup)
    item = claim(run, near or form, meeting, operand)
    if near is not None:
        return item
    source = positions_of(run, indices.value, numbers_of(indices.value))
    return replace(
        item,
        form=from_input(run, form, source),
        rows=lookup.rows,
        stored=stored_of(lookup.node.operands[0]) or item.stored,
        positions=source,
        error=error_of_rows(form, rows_of(lookup.values)),
    )


def _form_of_numbers(array: Array, spacing: float | None) -> Form | None:
    """Return the form of rows (.., positions, features), or of a grid, with features last or before the places."""
    rows = rows_of(array)
    if rows is not None:
        # a batch of sequences has rows that differ; positions along the features are a sequence of channels first
        return form_of_rows(rows, spacing) or form_of_grid(rows, spacing)
    forms = (form_of_rows(grid, spacing) for grid in _grids_of(array))
    return next((form for form in forms if form is not None), None)


def _form_of_tables(run: Run, operand: Operand, array: Array) -> Form | None:
    """Return the scheme of a grid whose rows follow no formula, as the tables tell it that it is made of."""
    stored = made_of(run, operand)
    spacing = spacing_of_dtype(array.dtype)
    forms = (find_scheme(Observation("rows", grid, spacing, stored=stored)) for grid in _grids_of(array))
    return next((form for form in forms if form is not None and form.scheme), None)


def _grids_of(array: Array) -> Iterator[Array]:
    """Yield an array as (height, width, features), where it may be a grid: its features are last, or first."""
    grid = array[0] if array.ndim == 4 and (array == array[:1]).all() else array
    if grid.ndim == 3:
        yield grid
        yield np.moveaxis(grid, 0, -1)


def form_of_grid(rows: Array, spacing: float | None = None) -> Form | None:
    """Return the form of rows (places, features) that are a grid's, with rows of zeros before for tokens of a class."""
    before = int(np.argmax(rows.any(1))) if rows.any() else len(rows)
    for sides in sides_of(len(rows) - before) if before <= MOST_CLASSES else ():
        # (places, features) -> (height, width, features)
        form = form_of_rows(rows[before:].reshape(*sides, -1), spacing)
        if form is not None:
            tokens: dict[str, Parameter] = {"class_tokens": before} if before else {}
            parameters = {**form.parameters, "grid": sides, **tokens}
            # no scheme has rows of zeros before those of places
            return replace(form, parameters=parameters, scheme="" if before else form.scheme)
    return None


def _interpolated(run: Run, meeting: Meeting, operand: Operand, resizing: Meeting) -> Claim | None:
    """Return the claim of a learned grid that is resized to the places of the data; None where it is not stored."""
    # masks are resized as well, but are not stored
    stored = stored_of(resizing.operands[0]) if isinstance(operand.value, Position) else ()
    shape = shape_of(operand.value)
    if not stored or shape[-1] < NARROWEST:
        return None
    tables = [shape_of(run.values[name]) for name in stored if name in run.values]
    # features are last, or before the places of a grid as convolutions have them
    fitting = [table for table in tables if shape[-1] in (table[-1:] + (table[1:2] if len(table) == 4 else ()))]
    sizes = [int(np.prod(table)) // shape[-1] for table in fitting]
    form = Form("grid", "interpolated", {"dim": shape[-1], **({"rows": sizes[0]} if sizes else {})})
    return replace(claim(run, form, meeting, operand), rows=sizes[0] if sizes else None)


def _learned(run: Run, axes: TensorAxes, meeting: Meeting, operand: Operand, array: Array) -> Claim | None:
    """Return the claim of stored rows that are added as they are: the first ones, some later ones, or all."""
    rows = rows_of(array)
    stored = stored_of(operand)
    if rows is None and isinstance(operand.value, Constant):
        rows = _places(run, axes, meeting, array)
    elif rows is not None and not _in_rows(meeting, rows):
        return None
    if rows is None or len(rows) < 2 or not stored:
        return None
    # the first rows of a table, as many as there are tokens, are positions however narrow they are
    if rows.shape[1] < NARROWEST and isinstance(operand.value, Constant):
        return None
    table = rows if isinstance(operand.value, Constant) else table_of(run, stored, rows.shape[1])
    if table is None or is_smooth(rows) or is_split(run, meeting, shape_of(operand.value)):
        return None
    first = np.flatnonzero((table == rows[0]).all(1))
    if not len(first) or not np.array_equal(table[first[0] : first[0] + len(rows)], rows):
        return None
    form = nearly_sinusoidal(rows) or learned_form(rows, len(table), int(first[0]))
    return None if form is None else replace(claim(run, form, meeting, operand), rows=len(table))


def _nearly(lookup: Lookup) -> Form | None:
    rows = rows_of(lookup.values)
    return nearly_sinusoidal(rows) if rows is not None and int(lookup.indices.reshape(-1)[0]) == 0 else None


def nearly_sinusoidal(rows: Array) -> Form | None:
    """Return a form without a name for rows of which some columns are those of sinusoids, and others are not."""
    found = near_columns(rows)
    if found is None:
        return None
    name, base, wrong = found
    words = f"close to sinusoidal ({name}, base {base:g}): {wrong} of {rows.shape[1]} columns are not"
    return Form("not recognised", words, {})


def _places(run: Run, axes: TensorAxes, meeting: Meeting, array: Array) -> Array | None:
    """Return the rows (places, features) of a stored grid that is added to a map of features place by place.

    SAM's has its features last, as (1, height, width, features), PiT's first, as (1, features, height, width). Which it
    is, is told by the node that made the map, or takes the sum: a convolution has features first.
    """
    grid = array[0] if array.ndim == 4 and len(array) == 1 else array
    shapes = [o.value.shape for o in meeting.operands if o is not None and isinstance(o.value, Data)]
    if grid.ndim != 3 or min(grid.shape) < 2 or not any(len(s) == 4 and s[1:] == grid.shape for s in shapes):
        return None
    made = {
        run.nodes[place].op_type for o in meeting.operands if o and (place := run.produced.get(o.tensor)) is not None
    }
    users = {node.op_type for node in run.nodes if any(o and o.tensor == meeting.outputs[0] for o in node.operands)}
    is_first = bool(CONVOLUTIONS & (made | users))
    # a bias of scores has places there
    if axes.met(meeting)[-3 if is_first else -1] in ("places", "mixed"):
        return None
    features = np.moveaxis(grid, 0, -1) if is_first else grid
    return features.reshape(-1, features.shape[-1])


def _in_rows(meeting: Meeting, rows: Array) -> bool:
    """Return whether data has a place for each row, and its features last; heads have an axis more."""
    shapes = [o.value.shape for o in meeting.operands if o is not None and isinstance(o.value, Data)]
    return any(len(shape) == 3 and shape[-1] == rows.shape[1] and len(rows) in shape[:-1] for shape in shapes)


def is_split(run: Run, meeting: Meeting, shape: tuple[int, ...]) -> bool:
    """Return whether rows are taken apart after the sum: shifts and scales of a norm, and not places."""
    users = [node for node in run.nodes if any(o and o.tensor == meeting.outputs[0] for o in node.operands)]
    parts = [user for user in users if user.op_type in ("Split", "Slice", "Gather")]
    sizes = {math.prod(shape_of(run.values[name])) for user in parts for name in user.outputs if name in run.values}
    # a slice of all is no part; shifts and scales are parts of one size; the token of a class leaves all others
    sizes.discard(math.prod(shape_of(run.values[meeting.outputs[0]])) if meeting.outputs[0] in run.values else 0)
    return bool(parts) and len(sizes) == 1 and len(shape) > 1
