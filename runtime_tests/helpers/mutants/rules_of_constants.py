"""Rules of constants that may be others, in one use: their words say why."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto

from helpers.mutants.graph_facts import Facts, Use
from helpers.mutants.rules import LAST_TERM, of_use, only_counts
from posenc.ports import Array

WHOLE = 1.5 * 2**52
"""What a float64 is added to, to be rounded."""
BEYOND = 2**31
"""An end of a slice beyond every length; below minus that, no index counts from the end of a table."""


@of_use("an axis counted from the other end")
def axes(facts: Facts, use: Use, before: Array, after: Array) -> bool:
    """Unsqueeze at -1 or at the last axis."""
    rank = facts.rank(use.node.input[0]) + (before.size if use.node.op_type == "Unsqueeze" else 0)
    at = use.sort in {("Unsqueeze", 1), ("Squeeze", 1), ("ReduceMax", 1), ("CumSum", 1)}
    return at and rank > 0 and bool((before % rank == after % rank).all())


@of_use("a vector of all that there is")
def whole_vector(facts: Facts, use: Use, before: Array, after: Array) -> bool:
    """Reshape of a number to [1] or [-1], of a vector to [0] or [-1]."""
    rank = facts.rank(use.node.input[0]) if use.sort == ("Reshape", 1) else -1
    same: tuple[list[int], ...] = ([-1], [1]) if rank == 0 else ([-1], [0]) if rank == 1 else ()
    return before.tolist() in same and after.tolist() in same


@of_use("an end beyond every length")
def slice_end(facts: Facts, use: Use, before: Array, after: Array) -> bool:
    """Slice up to 2^63 - 1, or one less."""
    return use.sort == ("Slice", 2) and min(before.min(), after.min()) > BEYOND


@of_use("an end beyond the axis")
def beyond_the_axis(facts: Facts, use: Use, before: Array, after: Array) -> bool:
    """Slice up to the size of its axis, or farther."""
    axes = facts.stored.get(use.node.input[3]) if use.sort == ("Slice", 2) and len(use.node.input) > 3 else None
    if axes is None or axes.size != 1 or before.size != 1:
        return False
    size = facts.shapes.get(use.node.input[0], [0])[int(axes.item())]
    return 0 < size <= min(int(before.item()), int(after.item()))


@of_use("a size that follows from the others")
def worked_out(facts: Facts, use: Use, before: Array, after: Array) -> bool:
    """Reshape of what is stored to a size, or to -1 in its place."""
    if use.sort != ("Reshape", 1) or use.node.input[0] not in facts.stored:
        return False
    return int((before != after).sum()) == 1 and after[before != after].item() == -1


@of_use("a bound that another look-up of the same positions has")
def refused_elsewhere(facts: Facts, use: Use, before: Array, after: Array) -> bool:
    """Clip to 0 of positions that are compared with 0, too, for a table that refuses those below."""
    if use.sort != ("Clip", 1) or (before.tolist(), after.tolist()) != (-1, 0):
        return False
    compared = [u.node for u in facts.uses(use.node.input[0]) if u.sort == ("Less", 0)]
    return any(
        node.input[1] in facts.stored and not facts.stored[node.input[1]].any() and "Where" in _leads_to(facts, node)
        for node in compared
    )


def _leads_to(facts: Facts, node: NodeProto) -> set[str]:
    """Return the operators that read what a comparison says, by way of Or as well."""
    readers = [use.node for use in facts.uses(node.output[0])]
    return {r.op_type for r in readers} | {s for r in readers if r.op_type == "Or" for s in _leads_to(facts, r)}


@of_use("an index out of range for another one")
def out_of_range(facts: Facts, use: Use, before: Array, after: Array) -> bool:
    """Where what is out of range is sent to an index that no table holds, and to a larger one, or one before any."""
    condition = facts.maker(use.node.input[0])
    held_by_none = (after >= before) | (after < -BEYOND)
    return use.sort == ("Where", 1) and condition in ("Less", "Or", "Not") and bool(held_by_none.all())


@of_use("an index for negative positions, where they are counted from a mask")
def never_negative(facts: Facts, use: Use, before: Array, after: Array) -> bool:
    """Where negative positions are sent to, and there are none: a CumSum of ones that a Clip bounds."""
    if use.sort != ("Where", 1) or facts.maker(use.node.input[0]) != "Less":
        return False
    compared = facts.makers[use.node.input[0]].input[0]
    return {"CumSum", "Clip"} <= facts.made_of(compared)


@of_use("an index for negative positions, where they are counted from 0")
def counted_from_zero(facts: Facts, use: Use, before: Array, after: Array) -> bool:
    """Where negative positions are sent to, and there are none: a Range from 0 on, of the sizes of a call alone."""
    if use.sort != ("Where", 1) or facts.maker(use.node.input[0]) != "Less":
        return False
    compared = facts.makers[use.node.input[0]].input[0]
    return "Range" in facts.made_of(compared) and not facts.reads_numbers(compared)


@of_use("an index out of range for another one, in the place of those")
def moved_out_of_range(facts: Facts, use: Use, before: Array, after: Array) -> bool:
    """Where an index is not its own rest, the end stands: a larger divisor, or a larger end, keeps wrong ones out."""
    if before.ndim or before.dtype.kind != "i" or int(after) < int(before):
        return False
    if use.sort == ("Mod", 1):
        return any(other.sort[0] == "Equal" for other in facts.uses(use.node.output[0]))
    if use.sort != ("Where", 2) or facts.maker(use.node.input[0]) != "Equal":
        return False
    rests = [name for name in facts.makers[use.node.input[0]].input if facts.maker(name) == "Mod"]
    divisors = [facts.stored.get(facts.makers[name].input[1]) for name in rests]
    return any(one is not None and one.size == 1 and int(one.item()) <= int(before) for one in divisors)


@of_use("half way between two whole numbers: the other one")
def half_way(facts: Facts, use: Use, before: Array, after: Array) -> bool:
    """x + 1.5 * 2^52 - 1.5 * 2^52 rounds to the nearest whole number; with one more, another one from half way."""
    whole = before.dtype == np.float64 and before.ndim == 0 and float(before) == WHOLE and float(after) == WHOLE + 1
    return whole and use.sort in {("Add", 1), ("Sub", 1)}


@of_use("a number to round at, on the other side of 0")
def rounded_below(facts: Facts, use: Use, before: Array, after: Array) -> bool:
    """x - 1.5 * 2^52 + 1.5 * 2^52 rounds as well: float64 has no fractions there either, and half way goes to even."""
    whole = before.dtype == np.float64 and before.ndim == 0 and float(before) == WHOLE and float(after) == -WHOLE
    return whole and use.sort in {("Add", 1), ("Sub", 1)}


@of_use("an index counted from the end")
def index_from_the_end(facts: Facts, use: Use, before: Array, after: Array) -> bool:
    """Gather at 1 and at -1, of two; a Slice that ends there."""
    if use.sort == ("Gather", 1):
        axis = next((a.i for a in use.node.attribute if a.name == "axis"), 0)
    elif use.sort in {("Slice", 1), ("Slice", 2)} and before.size == 1 and len(use.node.input) > 3:
        axis = int(facts.stored[use.node.input[3]].item())
    else:
        return False
    size = facts.shapes.get(use.node.input[0], [0])[axis]
    return size > 0 and bool((_from_the_front(before, size) == _from_the_front(after, size)).all())


def _from_the_front(indices: Array, size: int) -> Array:
    """Return indices counted from the front."""
    return np.where(indices < 0, indices + size, indices)


@of_use("a size that is compared, too, and is alike")
def compared_too(facts: Facts, use: Use, before: Array, after: Array) -> bool:
    """Reshape to sizes of another input: 0 leaves a size as it is, and 1 compares it."""
    if use.sort[0] != "Mul" or "Shape" not in {facts.maker(name) for name in use.node.input}:
        return False
    return facts.ends(use.node.output[0]) == {("Reshape", 1)} and set((after - before).tolist()) <= {0, 1}


@of_use("how many blocks are made: what lies beyond the length is cut off")
def count_of_blocks(facts: Facts, use: Use, before: Array, after: Array) -> bool:
    """How far a Range goes whose rows a Split cuts at the length."""
    return use.node.op_type in ("Add", "Div", "Max", "Min") and only_counts(facts, use.node.output[0])


@of_use("a limit farther by less than one")
def limit_of_units(facts: Facts, use: Use, before: Array, after: Array) -> bool:
    """Greater than the last unit, or than the one behind it: numbers are refused that are beyond by one or more."""
    return use.sort == ("Greater", 1) and bool((after == before + 1).all()) and before.ndim == 0


@of_use("the last term of a polynomial in float64, below the last digit of float32")
def last_term(facts: Facts, use: Use, before: Array, after: Array) -> bool:
    """What r^2 is divided by in r (1 - r^2 / 6 (1 - r^2 / 20)) and 1 - r^2 / 2 (1 - r^2 / 12)."""
    return use.sort == ("Div", 1) and before.dtype == np.float64 and float(before) >= LAST_TERM
