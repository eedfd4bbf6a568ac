"""The run in which encodings are recognised: at usual sizes, or at others where a graph does not go through at those.

A table may have fewer rows than the usual length, a sound may be too long for it, and an image may be of another size
than the rows of its patches are for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from posenc.formulas.parts.windows import sides_of
from posenc_export.read.graph import Graph
from posenc_export.read.interpret.budget import Budget
from posenc_export.read.interpret.meetings import is_float
from posenc_export.read.interpret.networks import opened
from posenc_export.read.interpret.run import interpret
from posenc_export.read.interpret.sizes import axes_of, tokens_first
from posenc_export.read.interpret.state import shape_of, small_numbers
from posenc_export.read.values import Array, Constant, Data, Meeting, Operand, Position, Run, Value

WAVES = ("Sin", "Cos")
LENGTHS = (7, 5, 3, 2)
"""Lengths for tables of few rows."""
LONGER = (61, 127, 251)
"""Lengths for networks whose strides leave few tokens of a call."""
FEWEST = 4
"""Tokens that tell positions apart, at least."""
SAMPLES = (16000, 401, 161, 121)
"""Numbers of samples: a second, and those of a few frames."""
PREFIXES = 6
"""Rows in front of those of patches, at most: tokens of a class and registers."""
IMAGE = ("height", "width")
"""Kinds of axes of an image."""
SMALL = ((32, 48), (16, 24), (8, 12))
"""Sides of small images: a grid may have few rows and columns."""
FRAMES = 5
"""Images of a small video."""
SIDES = (224, 256, 384, 512)
"""Sides of images that models are made for."""
TRIED = 16
"""Images, or traced lengths, that are tried, at most."""
SHAPING, RANK = ("Reshape", "Expand"), 8
"""Operators that take a shape, and how many axes it has at most."""
LARGEST_DATA = 2**20
"""Elements of data beyond which nobody looks for pairs in them."""
TRACED = range(4, 4097)
"""Lengths that a graph may have been traced at."""


def first_run(graph: Graph, budget: Budget) -> Run:
    """Return a graph interpreted at usual sizes; at others, where it goes through at those alone."""
    run = interpret(graph, budget=budget)
    if run.stopped is None:
        run = _long_enough(graph, _small_enough(graph, run, budget), budget)
        return _with_other_masks(graph, run, budget)
    if is_spent(run):
        return run
    for sizes in _others(graph):
        other = interpret(graph, sizes, budget=budget)
        if other.stopped is None:
            return _small_enough(graph, other, budget)
    return run


def with_tokens_first(graph: Graph, run: Run, budget: Budget) -> tuple[Graph, Run]:
    """Return a graph whose first axis is the length, and its run, where all angles are those of one token otherwise.

    Older modules take (length, batch, features), and a file of torch.export has no names for that.
    """
    kinds = tokens_first(graph)
    if not kinds or not _is_short(run):
        return graph, run
    other = replace(graph, kinds=kinds)
    found = first_run(other, budget)
    has_angles = any(node.op_type in WAVES for node in found.nodes)
    return (other, found) if found.stopped is None and has_angles and not _is_short(found) else (graph, run)


def _long_enough(graph: Graph, run: Run, budget: Budget) -> Run:
    """Return a run of a longer call, where strides leave too few tokens of the usual one to tell positions apart."""
    strides = (node.attributes.get("strides") for node in graph.nodes)
    strided = any(isinstance(stride, (list, tuple)) and max(stride, default=1) > 1 for stride in strides)
    if not strided or "length" not in axes_of(graph).values() or not _is_short(run):
        return run
    for length in LONGER:
        other = interpret(graph, {"length": length}, budget=budget)
        if other.stopped is None and not _is_short(other):
            return other
    return run


def _is_short(run: Run) -> bool:
    """Return whether angles are those of a few tokens."""
    operands = [node.operands[0] for node in run.nodes if node.op_type in WAVES and node.operands]
    shapes = [o.value.array.shape for o in operands if o is not None and isinstance(o.value, Position)]
    return bool(shapes) and all(math.prod(shape[:-1]) < FEWEST for shape in shapes)


def _small_enough(graph: Graph, run: Run, budget: Budget) -> Run:
    """Return a run of a smaller image or video, where pairs of places of the usual one are too many to be computed."""
    kinds = set(axes_of(graph).values())
    if not is_left_out(graph, run) or not kinds.issuperset(IMAGE):
        return run
    images = [{"height": height, "width": width} for height, width in SMALL]
    videos = [{**images[-1], "length": FRAMES}] if "length" in kinds else []
    for sizes in (*images, *videos):
        other = interpret(graph, sizes, budget=budget)
        if other.stopped is None and not is_left_out(graph, other):
            return other
    return run


def is_left_out(graph: Graph, run: Run) -> bool:
    """Return whether position values that meet data, or are returned, or what they meet, are too large to look into."""
    values = [operand.value for meeting in run.meetings for operand in meeting.operands if operand is not None]
    values += [run.values[name] for name in graph.outputs if name in run.values]
    return any(
        isinstance(value, Data) and (value.positional or math.prod(value.shape) > LARGEST_DATA) for value in values
    )


def with_outputs(graph: Graph, run: Run) -> Run:
    """Return a run in which numbers of positions that a graph returns meet data: those of whoever calls it.

    A graph may be the encoding alone, and leave the sum, or the scores, to the program around it.
    """
    returned = [Operand(name, run.values[name]) for name in dict.fromkeys(graph.outputs) if name in run.values]
    known = [operand for operand in map(opened, returned) if _is_told(operand.value)]
    meetings = tuple(_returned(operand.tensor, operand.value) for operand in known)
    values = {**run.values, **{operand.tensor: operand.value for operand in known}}
    nodes = (*run.nodes, *meetings)
    return replace(run, values=values, meetings=(*run.meetings, *meetings), nodes=nodes) if meetings else run


def _is_told(value: Value) -> bool:
    """Return whether numbers may be those of positions: floats, or indices of pairs of places."""
    if not isinstance(value, (Position, Constant)):
        return False
    shape = shape_of(value) or ()
    return math.prod(shape) > 1 and (is_float(value) or sum(size > 1 for size in shape) > 1)


def _returned(name: str, value: Value) -> Meeting:
    shape = shape_of(value) or ()
    data = Operand("", Data((1,) * (3 - len(shape)) + shape, np.dtype(np.float32)))
    if is_float(value):
        return Meeting(f"output {name}", "Add", "", (Operand(name, value), data), ("",))
    # indices choose among data
    return Meeting(f"output {name}", "GatherElements", "", (data, Operand(name, value)), ("",))


def _with_other_masks(graph: Graph, run: Run, budget: Budget) -> Run:
    """Return a run in which masks are of the other kind, where those of the usual kind leave every place out.

    A mask of ones keeps all tokens in most files, and leaves all out in others: places that are counted by it are then
    all 0, and show nothing.
    """
    still = {name for node in run.nodes if node.op_type in WAVES for name in _counted_by(node)}
    masks = {name for name in still if isinstance(value := run.values.get(name), Position) and _is_full(value.array)}
    if not masks:
        return run
    other = interpret(graph, feeds={name: np.zeros_like(run.values[name].array) for name in masks}, budget=budget)  # type: ignore[union-attr]
    moved = any(not _counted_by(node) for node in other.nodes if node.op_type in WAVES)
    return other if other.stopped is None and moved else run


def _counted_by(node: Meeting) -> frozenset[str]:
    """Return the inputs that angles follow from, where all angles are the same."""
    value = node.operands[0].value if node.operands and node.operands[0] is not None else None
    if not isinstance(value, Position) or not value.array.size or np.ptp(value.array.astype(np.float64)) > 0:
        return frozenset()
    return value.inputs


def _is_full(array: Array) -> bool:
    return array.ndim > 1 and array.size > 1 and bool((array == 1).all())


def is_spent(run: Run) -> bool:
    """Return whether a run stopped because of its budget, and not in a node."""
    return run.stopped is not None and (not run.nodes or run.nodes[-1].node != run.stopped[1])


def traced_lengths(graph: Graph, *, joined: bool = False) -> list[int]:
    """Return lengths that a graph may have been traced at: the sizes in shapes that it stores, or also joins."""
    names = {node.inputs[1] for node in graph.nodes if node.op_type in SHAPING and len(node.inputs) > 1}
    if joined:
        parts = [node.inputs for node in graph.nodes if node.op_type == "Concat" and node.outputs[0] in names]
        names = names.union(*parts)
    shapes = [graph.constants[name] for name in names if name in graph.constants]
    small = [shape for shape in shapes if len(shape.shape) == 1 and shape.shape[0] <= RANK and shape.dtype.kind == "i"]
    # numbers in a file that is not there are none
    sizes = {int(size) for shape in small if (numbers := small_numbers(shape)) is not None for size in numbers}
    return [size for size in sorted(sizes) if size in TRACED][:TRIED]


def _others(graph: Graph) -> Iterator[Mapping[str, int]]:
    """Yield other sizes, by kinds of axes."""
    kinds = set(axes_of(graph).values())
    if "length" in kinds:
        yield from ({"length": length} for length in (*LENGTHS, *traced_lengths(graph)))
    if "samples" in kinds:
        yield from ({"samples": samples} for samples in SAMPLES)
    if kinds.issuperset(IMAGE):
        yield from ({"height": height, "width": width} for height, width in list(_traced_sides(graph))[:TRIED])
        sides = list(dict.fromkeys((*_sides(graph), *SIDES)))
        yield from (dict.fromkeys(IMAGE, side) for side in sides[:TRIED])
        yield from ({"height": height, "width": width} for height, width in SMALL)


def _sides(graph: Graph) -> Iterator[int]:
    """Yield the sides of square images whose patches are as many as a table has rows."""
    patches = {stride[0] for node in graph.nodes if (stride := _strides(node.attributes.get("strides"))) is not None}
    tables = {value.shape[-2] for value in graph.constants.values() if len(value.shape) in (2, 3)}
    for patch in sorted(patches, reverse=True):
        for rows in sorted(tables, reverse=True):
            squares = (rows - prefix for prefix in range(PREFIXES) if rows - prefix > 1)
            yield from (math.isqrt(square) * patch for square in squares if math.isqrt(square) ** 2 == square)


def _traced_sides(graph: Graph) -> Iterator[tuple[int, int]]:
    """Yield sides of images that have as many patches as a graph may have been traced with."""
    patches = {stride[0] for node in graph.nodes if (stride := _strides(node.attributes.get("strides"))) is not None}
    for patch in sorted(patches, reverse=True):
        for places in traced_lengths(graph, joined=True):
            yield from ((height * patch, width * patch) for height, width in sides_of(places))


def _strides(value: object) -> tuple[int, int] | None:
    """Return the strides of a convolution that takes square patches apart; None for every other attribute."""
    numbers = tuple(value) if isinstance(value, (tuple, list)) else ()
    return numbers if len(numbers) == 2 and isinstance(numbers[0], int) and numbers[0] == numbers[1] > 1 else None
