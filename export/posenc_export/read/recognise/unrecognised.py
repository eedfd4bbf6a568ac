"""Position values that meet data and that no encoding has claimed: what they are made by, and where they meet it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from posenc_export.read.interpret.meetings import COORDINATES, PRODUCTS, TABLED
from posenc_export.read.recognise.claims import Claim, claim, gathered
from posenc_export.read.recognise.flow import Flow
from posenc_export.read.recognise.masks import is_mask
from posenc_export.read.recognise.named import Form, Named
from posenc_export.read.recognise.rotary_operators import is_rotation, rotary_tables
from posenc_export.read.recognise.tables import is_split
from posenc_export.read.recognise.trails import is_data, is_even, is_float, numbers_of, shape_of, stored_of
from posenc_export.read.values import Constant, Data, Meeting, Operand, Position, Run, Value

COMPUTING = ("Add", "Sub", "Mul", "Div", "Sum", "Pow", "Concat", "SkipLayerNormalization", "BiasSoftmax")
"""Operators in which a position value that nothing is known of is worth a word, beside products."""
CHOOSING = ("GatherElements",)
"""Operators that take from data what position values say: scores by the distance of two tokens."""
WAVES = ("Sin", "Cos")
ROUNDING = ("Round", "Floor")
TELLING = (*WAVES, "Log", "Exp", "CumSum", "NonZero", "Range", "Gather", "Loop", "Scan")
"""Operators that say how a position value was made, those that turn positions into angles first."""
FARTHEST = 2000
"""How many nodes are gone back from a value."""
SHOWN = 2
JOINED = 3
"""Inputs of places that are joined, at most."""
FEWEST = 3
"""Numbers that a value has at least which may differ by position."""
UNROUND = 4e-3
"""How far cosines and sines of half precision lie off a circle."""
STILL = 8
"""Values that are looked at far out, at most."""
NOTHING = Constant((), np.dtype(np.float32), lambda: np.zeros((), np.float32))


def unrecognised_of(run: Run, claimed: set[str]) -> list[Named]:
    """Return position values that vary by position and meet data, and that no encoding has claimed.

    Args:
        run: the graph, interpreted.
        claimed: the names of nodes and of tensors that are named.
    """
    claims: list[Claim] = []
    turning = _differing_by_turn(run)
    for meeting in run.meetings:
        if meeting.node in claimed or meeting.domain not in ("", "ai.onnx", "com.microsoft"):
            continue
        operands = [operand for operand in meeting.operands if operand is not None]
        claims += [
            _sourced(run, claim(run, Form("not recognised", meeting.op_type, {}), meeting, operand))
            for operand in operands
            if operand.tensor not in claimed
            and (_meets(run, meeting, operand, operands) or (meeting.node, operand.tensor) in turning)
        ]
    found = [_with_origin(run, named) for named in gathered(claims)]
    found += [*_tables_of_operators(run, claimed), *_waves_of_inputs(run, claimed)]
    # where nothing else tells of positions, stored numbers by place may be they
    stored = _stored_by_place(run)
    if found or claimed:
        # shifts and scales are stored by place too: beside others, what covers every place and what turns pairs is told
        stored = [entry for entry in stored if _is_of_all_places(run, entry)] + _stored_turns(run, claimed)
    return found + [entry for entry in stored if not claimed & {*entry.nodes, *entry.tensors}]


def _stored_by_place(run: Run) -> list[Named]:
    """Return stored numbers of several axes that are added to data, or that data are multiplied by, place by place."""
    claims = [
        claim(run, Form("not recognised", f"numbers stored in {operand.tensor}", {}), meeting, operand)
        for meeting in run.meetings
        if meeting.op_type in ("Add", "Sub", "Mul")
        and any(o is not None and is_data(o.value) for o in meeting.operands)
        for operand in meeting.operands
        if operand is not None and _is_by_place(operand.value) and not is_split(run, meeting, shape_of(operand.value))
    ]
    # a product whose stored factor differs from place to place is of no layer
    claims += [
        claim(run, Form("not recognised", f"numbers stored in {operand.tensor}", {}), node, operand)
        for node in run.nodes
        if node.op_type == "MatMul"
        for operand in node.operands
        if operand is not None and sum(size > 1 for size in shape_of(operand.value)) > 2 and _is_by_place(operand.value)
    ]
    return gathered(claims)


def _is_of_all_places(run: Run, entry: Named) -> bool:
    """Return whether stored numbers are added to data of as many places: all of its axes but that of the batch."""
    node = run.nodes[next(place for place, node in enumerate(run.nodes) if node.node == entry.nodes[0])]
    shapes = [o.value.shape for o in node.operands if o is not None and isinstance(o.value, Data)]
    sizes = [size for size in entry.shape if size > 1]
    return node.op_type == "Add" and any(len(shape) > 2 and list(shape[1:]) == sizes for shape in shapes)


def _stored_turns(run: Run, claimed: set[str]) -> list[Named]:
    """Return stored cosines and sines by which data are multiplied in two products: turns of no known form."""
    products = [
        (node, operand)
        for node in run.meetings
        if node.op_type == "Mul" and node.node not in claimed
        for operand in node.operands
        if operand is not None and _is_by_place(operand.value)
    ]
    claims = []
    for (first, cosine), (_, sine) in pairwise(products):
        cosines, sines = numbers_of(cosine.value), numbers_of(sine.value)
        if cosines is None or sines is None or cosines.shape != sines.shape:
            continue
        radii = np.hypot(cosines.astype(np.float64), sines.astype(np.float64))
        if np.abs(radii - 1).max() <= UNROUND:
            form = Form("not recognised", f"turns by numbers stored in {cosine.tensor} and {sine.tensor}", {})
            claims.append(claim(run, form, first, cosine))
    return gathered(claims)


def _is_by_place(value: Value) -> bool:
    """Return whether stored numbers have several axes along which they vary, as a bias of features has not."""
    shape = shape_of(value)
    if not isinstance(value, Constant) or not is_float(value) or sum(size > 1 for size in shape) < 2:
        return False
    array = numbers_of(value)
    if array is None or is_mask(array) or not np.isfinite(array.astype(np.float64)).all():
        return False
    varying = [axis for axis in range(array.ndim) if np.ptp(array.astype(np.float64), axis=axis).max() > 0]
    return len(varying) > 1


def _tables_of_operators(run: Run, claimed: set[str]) -> list[Named]:
    """Return stored tables of rotary operators that turn pairs, by angles of no known form."""
    return gathered(
        claim(
            run,
            Form("not recognised", f"angles of no known form in {cosine.tensor} and {sine.tensor}", {}),
            node,
            cosine,
        )
        for node, (cosine, sine), rows in rotary_tables(Flow(run))
        if node.node not in claimed and not {cosine.tensor, sine.tensor} & claimed and is_rotation(rows)
    )


def still_of(run: Run) -> list[tuple[Meeting, Operand]]:
    """Return values that data are computed with, and that are the same at all positions of a short call.

    They may be others far out: factors of an attention's temperature are 1 up to position 8191.
    """
    found: dict[str, tuple[Meeting, Operand]] = {}
    for meeting in run.meetings:
        if meeting.op_type not in ("Mul", "Div", "Add") or not any(
            o is not None and is_data(o.value) for o in meeting.operands
        ):
            continue
        for operand in meeting.operands:
            value = operand.value if operand is not None else None
            if operand is None or not isinstance(value, Position) or not is_float(value) or value.array.size < FEWEST:
                continue
            if np.ptp(value.array.astype(np.float64)) == 0 and (value.inputs or value.sizes):
                found.setdefault(operand.tensor, (meeting, operand))
    return list(found.values())[:STILL]


def moving(run: Run, meeting: Meeting, operand: Operand) -> Named:
    """Return the entry of a value that is another one far out."""
    named = gathered([claim(run, Form("not recognised", meeting.op_type, {}), meeting, operand)])[0]
    return _with_origin(run, named)


def _sourced(run: Run, entry: Claim) -> Claim:
    """Return a claim that calls an input a mask only where it is one: what becomes of its numbers is not known."""
    kind, _, name = entry.positions.partition(" ")
    return replace(entry, positions=name) if kind == "mask" and not is_even(run.values.get(name)) else entry


def _meets(run: Run, meeting: Meeting, operand: Operand, operands: Sequence[Operand]) -> bool:
    """Return whether an operand varies by position, and meets data, or a weight, in a node that computes with both."""
    with_data = any(is_data(other.value) for other in operands)
    if meeting.op_type in CHOOSING:
        return with_data and operand is operands[-1] and _chooses(operand.value)
    if meeting.op_type in COMPUTING or meeting.op_type in TABLED:
        return with_data and _varies(run, operand)
    # a product with a weight makes data of positions
    return meeting.op_type in PRODUCTS and _varies(run, operand)


def _differing_by_turn(run: Run) -> set[tuple[str, str]]:
    """Return nodes in loops, and their operands, that meet data with another position value in each turn."""
    first: dict[tuple[str, str], Position] = {}
    differing: set[tuple[str, str]] = set()
    for meeting in run.meetings:
        if meeting.op_type not in COMPUTING:
            continue
        for operand in meeting.operands:
            if operand is None or not isinstance(operand.value, Position) or not is_float(operand.value):
                continue
            known = first.setdefault((meeting.node, operand.tensor), operand.value).array
            if known is not operand.value.array and not np.array_equal(known, operand.value.array):
                differing.add((meeting.node, operand.tensor))
    return differing


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
    """Return whether a value is a stored tensor, repeated for a batch, or for each token as attention sinks are."""
    values = _once(value.array) if isinstance(value := operand.value, Position) else np.zeros(0)
    for name in stored_of(operand):
        table = numbers_of(run.values.get(name))
        if table is not None and np.array_equal(_once(table), values):
            return True
    return False


def _once(array: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return an array without the axes along which its numbers are the same."""
    for axis in reversed(range(array.ndim)):
        first = np.take(array, [0], axis)
        if np.array_equal(np.broadcast_to(first, array.shape), array):
            array = np.squeeze(first, axis)
    return array


def _chooses(value: Value) -> bool:
    """Return whether indices follow from positions, and differ from row to row."""
    if not isinstance(value, Position) or value.array.dtype.kind not in "iu" or value.array.ndim < 2:
        return False
    rows = value.array.reshape(-1, value.array.shape[-1])
    return len(rows) > 1 and value.array.shape[-1] > 1 and bool((rows != rows[:1]).any())


def _with_origin(run: Run, named: Named) -> Named:
    """Return an entry with the nodes that made its values as its name."""
    made = dict.fromkeys(words for tensor in named.tensors for words in _origins(run, tensor))
    return replace(named, form=replace(named.form, name=" and ".join(list(made)[:SHOWN])))


def _origins(run: Run, tensor: str) -> list[str]:
    """Return the nodes that say how a value was made, the nearest first; sines and cosines before all others."""
    nodes = list(_before(run, tensor, lambda value: not is_data(value)))
    told = [node for node in nodes if node.op_type in WAVES] or [node for node in nodes if node.op_type in TELLING]
    return [f"{node.op_type} at {node.node}" for node in told[:SHOWN]]


def _before(run: Run, tensor: str, follows: Callable[[Value], bool]) -> Iterator[Meeting]:
    """Yield the nodes before a tensor, the nearest first, as far as values are such that are followed."""
    waiting, seen = [tensor], {tensor}
    for name in waiting:
        place = run.produced.get(name)
        if place is None or len(seen) > FARTHEST:
            continue
        node = run.nodes[place]
        yield node
        inside = [output.name for graph in node.attributes.values() for output in getattr(graph, "output", ())]
        values = {operand.tensor: operand.value for operand in node.operands if operand is not None}
        values |= {inner: run.values[inner] for inner in inside if inner in run.values}
        fresh = [tensor for tensor, value in values.items() if tensor not in seen and follows(value)]
        seen.update(fresh)
        waiting += fresh


def _waves_of_inputs(run: Run, claimed: set[str]) -> list[Named]:
    """Return sines and cosines of an input that was taken for data: no weight is between them and the input.

    Coordinates may come in as floats, under any name. A wave of what a network computed is part of the network.
    """
    found: dict[str, list[Meeting]] = {}
    for node in run.nodes:
        if node.domain or node.node in claimed or not node.operands:
            continue
        # a row of a table may be chosen by coordinates, as well
        chosen = node.op_type == "Gather" and len(node.operands) > 1 and _is_table(node.operands[0])
        operand = node.operands[1] if chosen else node.operands[0] if node.op_type in WAVES else None
        if operand is not None and isinstance(operand.value, Data) and not operand.value.positional:
            source = _input_behind(run, operand.tensor)
            if source:
                found.setdefault(source, []).append(node)
    if not found and not any(node.op_type in PRODUCTS for node in run.nodes):
        # sines may be polynomials of what is left of a coordinate behind whole turns
        rounds = [node for node in run.nodes if node.op_type in ROUNDING and not node.domain]
        for node in rounds:
            operand = node.operands[0] if node.operands else None
            source = _input_behind(run, operand.tensor) if operand is not None and is_data(operand.value) else ""
            if source:
                found.setdefault(source, []).append(node)
    return [_of_waves(run, source, nodes) for source, nodes in found.items()]


def _is_table(operand: Operand | None) -> bool:
    value = None if operand is None else operand.value
    return isinstance(value, Constant) and is_float(value) and len(value.shape) > 1


def _input_behind(run: Run, tensor: str) -> str:
    """Return the inputs that data were made of by no weight; nothing where there is none, or a weight between.

    Flux joins the places of its words and of its image, two inputs, before it makes angles of them.
    """
    nodes = list(_before(run, tensor, is_data))
    if any(node.op_type in PRODUCTS and not _is_outer(node) for node in nodes):
        return ""
    names = {o.tensor for node in nodes for o in node.operands if o is not None and is_data(o.value)} | {tensor}
    roots = [name for name in names if name not in run.produced]
    return " and ".join(sorted(roots)) if 0 < len(roots) <= JOINED else ""


def _is_outer(node: Meeting) -> bool:
    """Return whether a product takes the few numbers of a place to frequencies, and mixes no features."""
    shapes = [shape_of(operand.value) for operand in node.operands if operand is not None]
    if node.op_type == "Einsum":
        return True
    return node.op_type in ("MatMul", "Gemm") and len(shapes) > 1 and 0 < min(shapes[0][-1:] or (0,)) <= COORDINATES


def _of_waves(run: Run, source: str, nodes: Sequence[Meeting]) -> Named:
    words = " and ".join(dict.fromkeys(f"{node.op_type} at {node.node}" for node in nodes[:SHOWN]))
    value = run.values.get(nodes[0].outputs[0], NOTHING)
    named = gathered([claim(run, Form("not recognised", words, {}), nodes[0], Operand(nodes[0].outputs[0], value))])[0]
    return replace(named, nodes=tuple(node.node for node in nodes), positions=source)
