"""Rules of constants that may be others, in one use: their words say why."""

from __future__ import annotations

import numpy as np

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


@of_use("half way between two whole numbers: the other one")
def half_way(facts: Facts, use: Use, before: Array, after: Array) -> bool:
    """x + 1.5 * 2^52 - 1.5 * 2^52 rounds to the nearest whole number; with one more, another one from half way."""
    whole = before.dtype == np.float64 and before.ndim == 0 and float(before) == WHOLE and float(after) == WHOLE + 1
    return whole and use.sort in {("Add", 1), ("Sub", 1)}


@of_use("an index counted from the end")
def index_from_the_end(facts: Facts, use: Use, before: Array, after: Array) -> bool:
    """Gather at 1 and at -1, of two."""
    if use.sort != ("Gather", 1):
        return False
    axis = next((a.i for a in use.node.attribute if a.name == "axis"), 0)
    size = facts.shapes.get(use.node.input[0], [0])[axis]
    return size > 0 and bool((before % size == after % size).all())


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
