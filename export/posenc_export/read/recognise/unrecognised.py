"""Position values that meet data and that no encoding has claimed: what they are made by, and where they meet it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from posenc.formulas.fitting import Form
from posenc_export.read.interpret.meetings import COORDINATES, PRODUCTS
from posenc_export.read.recognise.claims import Claim, claim, gathered
from posenc_export.read.recognise.flow import Flow
from posenc_export.read.recognise.named import Named
from posenc_export.read.recognise.rotary.operators import is_rotation, rotary_tables
from posenc_export.read.recognise.sides import TensorAxes
from posenc_export.read.recognise.stored_places import (
    FITTED,
    QUANTIZED,
    STORED,
    choosing_of,
    differs,
    is_byte,
    joins_features,
    stands_by_place,
    stored_of_places,
    stored_turns,
    told_numbers,
)
from posenc_export.read.recognise.trails import is_data, is_even, is_float, numbers_of, shape_of, stored_of
from posenc_export.read.values import Constant, Data, Meeting, Operand, Position, Run, Value

PLACING = ("GridSample", "RoiAlign", "MaxRoiPool", "DeformConv", "NonMaxSuppression")
"""Operators that take data from places that come in as floats: nothing is computed with both."""
WAVES = ("Sin", "Cos")
TURNING = (*WAVES, "GemmaRotaryEmbedding")
"""Operators that take sines, or that turn by angles."""
TABLES_OF = ("RotaryEmbedding", "MRotaryEmbedding")
"""Operators that turn by tables of cosines and sines, which may come in."""
ROUNDING = ("Round", "Floor")
TELLING = (*WAVES, "Log", "Exp", "CumSum", "NonZero", "Range", "Gather", "Loop", "Scan")
"""Operators that say how a position value was made, those that turn positions into angles first."""
TAKING = ("Gather", "GatherElements", "GatherND")
"""Operators that take rows or elements at indices."""
STEPPING = {
    *("Floor", "Ceil", "Round", "Cast", "Clip", "Min", "Max", "Add", "Sub", "Mul", "Div", "Where", "Identity", "Mod"),
    *("Reshape", "Unsqueeze", "Squeeze", "Expand", "Transpose", "Slice", "Concat"),
}
"""Operators between a count and the indices that it becomes."""
NEAR = 16
"""How many nodes there are between them, at most."""
FARTHEST = 2000
"""How many nodes are gone back from a value."""
SHOWN = 2
JOINED = 3
"""Inputs of places that are joined, at most."""
FEWEST = 3
"""Numbers that a value has at least which may differ by position."""
STILL = 8
"""Values that are looked at far out, at most."""
NOTHING = Constant((), np.dtype(np.float32), lambda: np.zeros((), np.float32))


def unrecognised_of(run: Run, axes: TensorAxes, claimed: set[str]) -> list[Named]:
    """Return position values that vary by position and meet data, and that no encoding has claimed.

    Args:
        run: the graph, interpreted.
        axes: what the axes of its data are.
        claimed: the names of nodes and of tensors that are named.
    """
    claims: list[Claim] = []
    turning = _differing_by_turn(run)
    for meeting in run.meetings:
        if meeting.node in claimed:
            continue
        operands = [operand for operand in meeting.operands if operand is not None]
        claims += [
            _sourced(run, claim(run, Form("not recognised", meeting.op_type, {}), meeting, operand))
            for operand in operands
            if operand.tensor not in claimed
            and (_meets(run, axes, meeting, operand, operands) or (meeting.node, operand.tensor) in turning)
        ]
    found = [_with_origin(run, named) for named in gathered(claims)]
    chosen = choosing_of(run, claimed)
    found += [entry if entry.form.name.startswith(STORED) else _with_origin(run, entry) for entry in chosen]
    found += _chosen_by_counts(run, claimed)
    found += [*_tables_of_operators(run, claimed), *_waves_of_inputs(run, claimed)]
    stored, likely = stored_of_places(run, axes, claimed)
    if not found and not claimed:
        # where nothing else tells of positions, stored numbers may be they whose axes are not known
        return stored or likely
    turns = stored_turns(run, claimed)
    turned = {node for entry in turns for node in entry.nodes}
    likely = [entry for entry in likely if _is_of_all_places(run, entry)]
    return found + turns + [entry for entry in (*stored, *likely) if not turned & set(entry.nodes)]


def _is_of_all_places(run: Run, entry: Named) -> bool:
    """Return whether stored numbers are added to data of as many places: all of its axes but that of the batch."""
    node = run.nodes[next(place for place, node in enumerate(run.nodes) if node.node == entry.nodes[0])]
    shapes = [o.value.shape for o in node.operands if o is not None and isinstance(o.value, Data)]
    sizes = [size for size in entry.shape if size > 1]
    return node.op_type == "Add" and any(len(shape) > 2 and list(shape[1:]) == sizes for shape in shapes)


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


def still_of(run: Run) -> list[tuple[Operand, list[Meeting]]]:
    """Return values that are the same at all positions of a short call, each with the nodes that compute data with it.

    They may be others far out: factors of an attention's temperature are 1 up to position 8191.
    """
    found: dict[str, tuple[Operand, list[Meeting]]] = {}
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
                found.setdefault(operand.tensor, (operand, []))[1].append(meeting)
    return list(found.values())[:STILL]


def moving(run: Run, operand: Operand, meetings: Sequence[Meeting]) -> Named:
    """Return the entry of a value that is another one far out."""
    form = Form("not recognised", meetings[0].op_type, {})
    named = gathered([claim(run, form, meeting, operand) for meeting in meetings])[0]
    return _with_origin(run, named)


def _sourced(run: Run, entry: Claim) -> Claim:
    """Return a claim that calls an input a mask only where it is one: what becomes of its numbers is not known."""
    kind, _, name = entry.positions.partition(" ")
    return replace(entry, positions=name) if kind == "mask" and not is_even(run.values.get(name)) else entry


def _meets(run: Run, axes: TensorAxes, meeting: Meeting, operand: Operand, operands: Sequence[Operand]) -> bool:
    """Return whether an operand varies by position, and meets data, or a weight, in a node that computes with both.

    Which node that is does not matter: what only compares, chooses or counts takes no floats that differ by position.
    """
    with_data = any(is_data(other.value) for other in operands)
    # a product with a weight makes data of positions
    if not with_data and meeting.op_type not in PRODUCTS:
        return False
    return meeting.op_type not in PLACING and _varies(run, axes, meeting, operand)


def _differing_by_turn(run: Run) -> set[tuple[str, str]]:
    """Return nodes in loops, and their operands, that meet data with other numbers in each turn.

    Stored numbers may be those of a layer, of which a loop has one in each turn: they are told where a turn has a token
    of data of its own.
    """
    turns = Counter(meeting.node for meeting in run.meetings)
    first: dict[tuple[str, str], NDArray[np.generic]] = {}
    differing: set[tuple[str, str]] = set()
    for meeting in run.meetings:
        if turns[meeting.node] == 1 or meeting.op_type not in FITTED:
            continue
        for operand in meeting.operands:
            if operand is None or not is_float(operand.value):
                continue
            is_stored = isinstance(operand.value, Constant)
            array = numbers_of(operand.value) if not is_stored or _takes_a_token(run, meeting) else None
            if array is None:
                continue
            known = first.setdefault((meeting.node, operand.tensor), array)
            if known is not array and not np.array_equal(known, array):
                differing.add((meeting.node, operand.tensor))
    return differing


def _takes_a_token(run: Run, meeting: Meeting) -> bool:
    """Return whether a node computes with what was taken out of data just before."""
    places = (run.produced.get(operand.tensor) for operand in meeting.operands if operand and is_data(operand.value))
    return any(place is not None and run.nodes[place].op_type in ("Gather", "Slice") for place in places)


def _varies(run: Run, axes: TensorAxes, meeting: Meeting, operand: Operand) -> bool:
    """Return whether a value varies by position: no mask, no count, no stored numbers for each of a batch."""
    value = operand.value
    # rows of eight bits are floats to a quantized sum
    is_taken = is_float(value) or (meeting.op_type in QUANTIZED and shape_of(value) and is_byte(value))
    if not isinstance(value, Position) or not is_taken or value.array.size < FEWEST:
        return False
    # a mask that comes in may be a feature
    numbers = told_numbers(value.array, not value.inputs and joins_features(axes, meeting))
    if numbers is None:
        return False
    along = [axis for axis in range(numbers.ndim) if differs(numbers, axis)]
    shapes = [shape_of(run.values[name]) for name in stored_of(operand) if name in run.values]
    # what varies by feature alone is a row of a table of types, or a scale of features
    is_row = along == [numbers.ndim - 1] and any(shape[-1:] == numbers.shape[-1:] for shape in shapes)
    if not along:
        return False
    if meeting.op_type in PRODUCTS and _is_cut_weight(run, meeting, value):
        return False
    return not (is_row or _is_stored(run, operand)) or stands_by_place(run, axes, meeting, operand, numbers)


def _is_stored(run: Run, operand: Operand) -> bool:
    """Return whether a value is a stored tensor, repeated for a batch, or for each token as attention sinks are."""
    values = _once(value.array) if isinstance(value := operand.value, Position) else np.zeros(0)
    for name in stored_of(operand):
        table = numbers_of(run.values.get(name))
        if table is not None and np.array_equal(_once(table), values):
            return True
    return False


def _is_cut_weight(run: Run, meeting: Meeting, value: Position) -> bool:
    """Return whether a factor is a part of a stored weight, cut where the number of features says.

    PyTorch's attention keeps the weights of queries, keys and values in one tensor.
    """
    data = next((o.value for o in meeting.operands if o is not None and isinstance(o.value, Data)), None)
    if data is None or value.inputs or value.array.ndim != 2 or len(value.stored) != 1 or not data.shape:
        return False
    (name,) = value.stored
    whole, width = shape_of(run.values[name]) if name in run.values else (), data.shape[-1]
    # so many rows as there are tokens are no multiple of features
    is_square = width > 0 and all(size % width == 0 for size in (*value.array.shape, *whole))
    return is_square and width in value.array.shape and len(whole) == 2


def _once(array: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return an array without the axes along which its numbers are the same."""
    for axis in reversed(range(array.ndim)):
        first = np.take(array, [0], axis)
        if np.array_equal(np.broadcast_to(first, array.shape), array):
            array = np.squeeze(first, axis)
    return array


def _with_origin(run: Run, named: Named) -> Named:
    """Return an entry with the nodes that made its values as its name."""
    made = dict.fromkeys(words for tensor in named.tensors for words in _origins(run, tensor))
    return replace(named, form=replace(named.form, name=" and ".join(list(made)[:SHOWN])))


def _origins(run: Run, tensor: str) -> list[str]:
    """Return the nodes that say how a value was made, the nearest first; sines and cosines before all others."""
    nodes = list(nodes_before(run, tensor, lambda value: not is_data(value)))
    told = [node for node in nodes if node.op_type in WAVES] or [node for node in nodes if node.op_type in TELLING]
    return [f"{node.op_type} at {node.node}" for node in told[:SHOWN]]


def nodes_before(run: Run, tensor: str, follows: Callable[[Value], bool]) -> Iterator[Meeting]:
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
        if (node.domain and node.op_type not in (*TURNING, *TABLES_OF)) or node.node in claimed or not node.operands:
            continue
        # a row of a table may be chosen by coordinates, as well
        if node.op_type in TABLES_OF:
            source = next((name for o in node.operands[1:] if o and (name := _given_table(run, o))), "")
            if source:
                found.setdefault(source, []).append(node)
            continue
        chosen = node.op_type == "Gather" and len(node.operands) > 1 and _is_table(node.operands[0])
        operand = node.operands[1] if chosen else node.operands[0] if node.op_type in TURNING else None
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


def _given_table(run: Run, operand: Operand) -> str:
    """Return the input that cosines of a rotary operator come from; nothing where they are stored or computed."""
    is_given = isinstance(operand.value, Data) and is_float(operand.value) and not operand.value.positional
    return _input_behind(run, operand.tensor) if is_given else ""


def _chosen_by_counts(run: Run, claimed: set[str]) -> list[Named]:
    """Return rows or scores that are taken at places which data count, as gates do in contextual encodings."""
    claims = []
    for node in run.nodes:
        indices = node.operands[1] if node.op_type in TAKING and len(node.operands) > 1 else None
        if indices is None or node.node in claimed or not isinstance(indices.value, Data) or indices.value.positional:
            continue
        if is_float(indices.value) or math.prod(indices.value.shape) < FEWEST:
            continue
        tensor, found = indices.tensor, None
        for _ in range(NEAR):
            place = run.produced.get(tensor)
            before = None if place is None else run.nodes[place]
            data = [] if before is None else [o for o in before.operands if o is not None and is_data(o.value)]
            if before is None or before.op_type == "CumSum" or len(data) != 1 or before.op_type not in STEPPING:
                found = before if before is not None and before.op_type == "CumSum" else None
                break
            tensor = data[0].tensor
        if found is not None:
            form = Form("not recognised", f"CumSum at {found.node}", {})
            claims.append(claim(run, form, node, indices))
    return gathered(claims)


def _is_table(operand: Operand | None) -> bool:
    value = None if operand is None else operand.value
    return isinstance(value, Constant) and is_float(value) and len(value.shape) > 1


def _input_behind(run: Run, tensor: str) -> str:
    """Return the inputs that data were made of by no weight; nothing where there is none, or a weight between.

    Flux joins the places of its words and of its image, two inputs, before it makes angles of them.
    """
    nodes = list(nodes_before(run, tensor, is_data))
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
