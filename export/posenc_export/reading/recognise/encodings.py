"""All encodings that an interpreted graph holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from posenc_export.reading.recognise.biases import biases_of
from posenc_export.reading.recognise.claims import Claim, claim, gathered
from posenc_export.reading.recognise.image_rotary import image_rotary_of
from posenc_export.reading.recognise.lookups import unrepeated
from posenc_export.reading.recognise.masks import is_mask
from posenc_export.reading.recognise.named import Form, Named
from posenc_export.reading.recognise.rotary import rotary_of
from posenc_export.reading.recognise.tables import tables_of
from posenc_export.reading.recognise.trails import is_data, is_even, is_float, numbers_of, shape_of, stored_of
from posenc_export.reading.values import Operand, Position, Run

COMPUTING = ("Add", "Sub", "Mul", "Div")
"""Operators in which a position value that nothing is known of is worth a word."""


def encodings_of(run: Run) -> list[Named]:
    """Return the encodings that a graph holds, in its order: each meeting is claimed once."""
    named: list[Named] = []
    claimed: set[str] = set()
    rotary = rotary_of(run)
    images = image_rotary_of(run, {tensor for encoding in rotary for tensor in encoding.tensors})
    for encoding in (*rotary, *images, *biases_of(run), *tables_of(run)):
        # cosines and sines meet data in several nodes of a layer, of which an encoding has the first
        names = {*encoding.nodes, *(encoding.tensors if encoding.form.family == "rotary" else ())}
        if not claimed.issuperset(names):
            named.append(encoding)
            claimed.update(names)
    named += unrecognised_of(run, claimed)
    # dicts keep the last of a key: the first node of a name counts
    order = {node.node: place for place, node in reversed(list(enumerate(run.nodes)))}
    return sorted(named, key=lambda encoding: min(order.get(node, len(order)) for node in encoding.nodes))


def unrecognised_of(run: Run, claimed: set[str]) -> list[Named]:
    """Return position values that vary by position and meet data, and that no encoding has claimed.

    Args:
        run: the graph, interpreted.
        claimed: the names of nodes and of tensors that are named.
    """
    claims: list[Claim] = []
    for meeting in run.meetings:
        if meeting.op_type not in COMPUTING or meeting.node in claimed:
            continue
        values = [operand for operand in meeting.operands if operand is not None]
        if not any(is_data(operand.value) for operand in values):
            continue
        form = Form("not recognised", meeting.op_type, {})
        claims += [
            _sourced(run, claim(run, form, meeting, operand))
            for operand in values
            if operand.tensor not in claimed and _varies(run, operand)
        ]
    return gathered(claims)


def _sourced(run: Run, entry: Claim) -> Claim:
    """Return a claim that calls an input a mask only where it is one: what becomes of its numbers is not known."""
    kind, _, name = entry.positions.partition(" ")
    return replace(entry, positions=name) if kind == "mask" and not is_even(run.values.get(name)) else entry


def _varies(run: Run, operand: Operand) -> bool:
    """Return whether a value varies by position: no mask, no count, no stored numbers for each of a batch."""
    value = operand.value
    if not isinstance(value, Position) or not is_float(value) or value.array.size < 3 or is_mask(value.array):
        return False
    array = value.array.astype(np.float64)
    if not np.isfinite(array).all():
        return False
    varying = [axis for axis in range(array.ndim) if np.ptp(array, axis=axis).max() > 0]
    shapes = [shape_of(run.values[name]) for name in stored_of(operand) if name in run.values]
    # what varies by feature alone is a row of a table of types, or a scale of features
    features = varying == [array.ndim - 1] and any(shape[-1:] == array.shape[-1:] for shape in shapes)
    return bool(varying) and not features and not _is_stored(run, operand)


def _is_stored(run: Run, operand: Operand) -> bool:
    """Return whether a value is a stored tensor, repeated for a batch."""
    values = unrepeated(value.array) if isinstance(value := operand.value, Position) else np.zeros(0)
    for name in stored_of(operand):
        table = numbers_of(run.values.get(name))
        if table is not None and np.array_equal(unrepeated(table), values):
            return True
    return False
