"""Values that no recogniser has named are held against the formulas of all schemes: `posenc.formulas.fitting`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from posenc.formulas.fitting import Form, Kind, Observation, find_scheme, looked_at, spacing_of_dtype
from posenc.formulas.parts.windows import boxes_of, sides_of
from posenc_export.read.recognise.added.taken_in import form_of_steps
from posenc_export.read.recognise.flow import Flow
from posenc_export.read.recognise.named import Named
from posenc_export.read.recognise.rotary.by_place import PlaceRotation, returned_rotations, rotations_by_place
from posenc_export.read.recognise.trails import arrays_of, made_of, numbers_of
from posenc_export.read.values import Array, Meeting, Operand, Position, Run

FEWEST = 4
"""Tokens of the smallest grid."""
ADDING = ("Add", "Sub", "Sum")


def name_by_formula(run: Run, unread: list[Named]) -> list[Named]:
    """Return entries without a name, each with the scheme whose formula gives its numbers, where one does."""
    if not unread:
        return []
    turned: dict[str, PlaceRotation] = {}
    if any(entry.form.exact is None and not entry.rows for entry in unread):
        found = (*rotations_by_place(Flow(run)), *returned_rotations(run))
        turned = {name: turning for turning in found for name in turning.tables}
    nodes = {node.node: node for node in run.nodes}
    named: list[Named] = []
    done: set[str] = set()
    for entry in unread:
        if done.issuperset(entry.tensors):
            continue
        turning = next((turned[name] for name in entry.tensors if name in turned), None)
        with looked_at(*entry.tensors, *(turning.tables if turning is not None else ())):
            form = _of_steps(run, entry) or _behind_text(run, entry)
            if form is not None:
                named.append(replace(entry, form=form, shape=()))
                continue
            meeting = nodes.get(entry.nodes[0])
            match = _of_rotation(turning.seen) if turning is not None else _of_value(run, meeting, entry)
        if match is None:
            named.append(entry)
            continue
        tensors = turning.tables if turning is not None else entry.tensors
        done.update(tensors)
        # cosines and sines may be stored once for each layer: all nodes in which either meets data count
        met = (node for other in unread if not set(tensors).isdisjoint(other.tensors) for node in other.nodes)
        nodes_of = tuple(dict.fromkeys(met))
        named.append(replace(entry, form=match, tensors=tensors, nodes=nodes_of, shape=()))
    return named


def named_by_factor(entry: Named, factors: Array | None) -> Named:
    """Return the entry of a factor that differs far out with the scheme whose formula gives it at all positions."""
    if factors is None:
        return entry
    spacing = spacing_of_dtype(factors.dtype)
    # positions beyond that were rounded, or are infinite
    with looked_at(*entry.tensors):
        match = find_scheme(Observation("factor", factors[: int(1 / spacing)], spacing))
    return entry if match is None else replace(entry, form=match, shape=())


def _of_rotation(seen: Observation) -> Form | None:
    """Return the scheme of a rotation; tokens in a row may be the places of an image, or of a video."""
    found = find_scheme(seen)
    if found is not None or seen.layout == "" or len(seen.numbers) < FEWEST:
        return found
    count = len(seen.numbers)
    for sides in (*sides_of(count), *boxes_of(count)):
        grid = replace(seen, numbers=seen.numbers.reshape(*sides, *seen.numbers.shape[1:]))
        found = find_scheme(grid)
        if found is not None:
            return found
    return None


def _of_steps(run: Run, entry: Named) -> Form | None:
    """Return the form of sinusoids at steps of diffusion, which come in as numbers."""
    steps = run.values.get(entry.positions)
    value = run.values.get(entry.tensors[0])
    array = None if value is None else numbers_of(value)
    if array is None or not isinstance(steps, Position) or steps.array.ndim > 1:
        return None
    if array.ndim > 2 and len(array) == steps.array.size:
        # every sample of a sound, or every token, gets the features of the step
        rows = _of_each_step(array)
        return None if rows is None else form_of_steps(rows, steps.array)
    return form_of_steps(array, steps.array) if array.ndim == 2 and steps.array.dtype.kind == "f" else None


def _of_each_step(array: Array) -> Array | None:
    """Return (steps, features) of numbers that are repeated along all other axes; None where more than one is left."""
    for axis in reversed(range(1, array.ndim)):
        if array.ndim > 2 and (array == array.take([0], axis)).all():
            array = np.asarray(array.take(0, axis))
    return array if array.ndim == 2 else None


def _behind_text(run: Run, entry: Named) -> Form | None:
    """Return the form of sines of places of an image or a video, behind tokens of text whose rows are zeros."""
    value = run.values.get(entry.tensors[0])
    array = None if value is None else numbers_of(value)
    rows = None if array is None or not array.ndim else array.reshape(-1, array.shape[-1])
    if rows is None or array is None or array.size != rows.size or max(array.shape[:-1], default=0) != len(rows):
        return None
    text = int(np.argmax((rows != 0).any(-1)))
    if not text or len(rows) - text < FEWEST:
        return None
    places = rows[text:]
    for sides in (*sides_of(len(places)), *boxes_of(len(places))):
        found = find_scheme(Observation("rows", places.reshape(*sides, -1), spacing_of_dtype(rows.dtype)))
        if found is not None:
            # no scheme has rows of zeros before those of places
            parameters = {**found.parameters, "class_tokens": text}
            return Form(found.family, found.name, parameters)
    return None


def _of_value(run: Run, meeting: Meeting | None, entry: Named) -> Form | None:
    """Return the scheme of a value that is added to data, multiplied with them, or chooses among them."""
    value = run.values.get(entry.tensors[0])
    array = None if value is None else numbers_of(value)
    if value is None or array is None or meeting is None:
        return None
    stored = (*arrays_of(run, entry.stored), *(one for one in made_of(run, Operand("", value)) if not one.ndim))
    for kind, numbers in _readings(meeting, array):
        found = find_scheme(Observation(kind, numbers, spacing_of_dtype(array.dtype), stored=stored))
        if found is not None:
            return found
    return None


def _readings(meeting: Meeting, array: Array) -> Iterator[tuple[Kind, Array]]:
    """Yield what an array may be by its shape: rows of a grid, features last or first, a bias, a factor, indices."""
    if array.dtype.kind in "iu":
        if meeting.op_type == "GatherElements":
            yield "index", array.reshape(-1, *array.shape[-2:])[0]
        return
    # a batch repeats the first
    once = array[0] if array.ndim > 2 and (array == array[:1]).all() else array
    if meeting.op_type in ADDING:
        if max(array.shape, default=1) == math.prod(array.shape):
            yield "factor", array.reshape(-1)
            return
        if once.ndim == 3:
            yield "bias", once
        if once.ndim >= 2 and once.shape[-1] > 1:
            yield "rows", once
        if once.ndim >= 3:
            yield "rows", np.moveaxis(once, 0, -1)
        if once.ndim == 2:
            for sides in sides_of(len(once)):
                yield "rows", once.reshape(*sides, -1)
    elif meeting.op_type in ("Mul", "Div") and max(array.shape, default=1) == math.prod(array.shape):
        yield "factor", array.reshape(-1)
