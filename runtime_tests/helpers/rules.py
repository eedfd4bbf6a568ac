"""By which rules a mutant may be wrong in nothing: why, in words; that it gives the same bits is asked besides."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
from onnx import NodeProto

from graph_facts import Facts, Use
from mutations import Mutation
from posenc.ports import Array

BEYOND = 2**31
"""An end of a slice beyond every length."""
LAST_TERM = 12.0
"""What the last term of a polynomial is divided by, at least."""
COUNT_ENDS = {("Range", 1), ("Split", 1), ("Slice", 2), ("Expand", 1)}
OfUse = Callable[[Facts, Use, Array, Array], bool]
"""Whether a constant may be another in one use: before, after."""
OfNode = Callable[[Facts, NodeProto, Mutation], bool]
"""Whether a node may be as it was changed."""
OF_USES: dict[str, OfUse] = {}
OF_NODES: dict[str, OfNode] = {}


def of_use(words: str) -> Callable[[OfUse], OfUse]:
    """Register a rule of constants under the words that say why nothing is wrong."""

    def register(function: OfUse) -> OfUse:
        OF_USES[words] = function
        return function

    return register


def of_node(words: str) -> Callable[[OfNode], OfNode]:
    """Register a rule of nodes under the words that say why nothing is wrong."""

    def register(function: OfNode) -> OfNode:
        OF_NODES[words] = function
        return function

    return register


def rule_of(facts: Facts, mutation: Mutation) -> str:
    """Return the words of the rule that a mutation falls under, or nothing; of a constant, in every use."""
    if mutation.what.startswith("constant"):
        return _of_constant(facts, mutation)
    node = facts.makers.get(mutation.name)
    if node is None:
        return ""
    return next((words for words, holds in OF_NODES.items() if holds(facts, node, mutation)), "")


def _of_constant(facts: Facts, mutation: Mutation) -> str:
    words = []
    stored = facts.stored[mutation.name]
    before, after = (np.array(json.loads(text), stored.dtype) for text in (mutation.before, mutation.after))
    for use in facts.uses(mutation.name):
        rule = next((words for words, holds in OF_USES.items() if holds(facts, use, before, after)), "")
        if not rule:
            return ""
        words.append(rule)
    return "; ".join(dict.fromkeys(words))


# ---- constants -------------------------------------------------------------------------------------------------------


@of_use("an axis counted from the other end")
def axes(facts: Facts, use: Use, before: Array, after: Array) -> bool:
    """Unsqueeze at -1 or at the last axis."""
    rank = facts.rank(use.node.output[0] if use.node.op_type == "Unsqueeze" else use.node.input[0])
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
    """Where negative positions are sent to an index that no table holds, and to a larger one."""
    condition = facts.maker(use.node.input[0])
    return use.sort == ("Where", 1) and condition in ("Less", "Or") and bool((after >= before).all())


@of_use("an index for negative positions, where they are counted from a mask")
def never_negative(facts: Facts, use: Use, before: Array, after: Array) -> bool:
    """Where negative positions are sent to, and there are none: a CumSum of ones that a Clip bounds."""
    if use.sort != ("Where", 1) or facts.maker(use.node.input[0]) != "Less":
        return False
    compared = facts.makers[use.node.input[0]].input[0]
    return {"CumSum", "Clip"} <= facts.made_of(compared)


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
    return use.node.op_type in ("Add", "Div", "Max", "Min") and _only_counts(facts, use.node.output[0])


def _only_counts(facts: Facts, name: str) -> bool:
    ends = facts.ends(name)
    return ("Range", 1) in ends and ends <= COUNT_ENDS


@of_use("a limit farther by less than one")
def limit_of_units(facts: Facts, use: Use, before: Array, after: Array) -> bool:
    """Greater than the last unit, or than the one behind it: numbers are refused that are beyond by one or more."""
    return use.sort == ("Greater", 1) and bool((after == before + 1).all()) and before.ndim == 0


@of_use("the last term of a polynomial in float64, below the last digit of float32")
def last_term(facts: Facts, use: Use, before: Array, after: Array) -> bool:
    """What r^2 is divided by in r (1 - r^2 / 6 (1 - r^2 / 20)) and 1 - r^2 / 2 (1 - r^2 / 12)."""
    return use.sort == ("Div", 1) and before.dtype == np.float64 and float(before) >= LAST_TERM


# ---- nodes -----------------------------------------------------------------------------------------------------------


@of_node("allowzero, where no axis is empty")
def allowzero(facts: Facts, node: NodeProto, mutation: Mutation) -> bool:
    """A size of 0 is itself, or that of the input: it differs where an axis is empty."""
    return mutation.what == "attribute" and mutation.before.startswith("allowzero=")


@of_node("fmod of what is not negative")
def fmod(facts: Facts, node: NodeProto, mutation: Mutation) -> bool:
    """The sign of a remainder goes by the dividend, or by the divisor."""
    return mutation.what == "attribute" and mutation.before.startswith("fmod=")


@of_node("an axis counted from the other end")
def axis(facts: Facts, node: NodeProto, mutation: Mutation) -> bool:
    """Concat along 0 or -1 of vectors."""
    if mutation.what != "attribute" or not mutation.before.startswith("axis="):
        return False
    before, after = (int(text.partition("=")[2]) for text in (mutation.before, mutation.after))
    rank = facts.rank(node.input[0])
    return rank > 0 and before % rank == after % rank


@of_node("a cut into one part")
def one_part(facts: Facts, node: NodeProto, mutation: Mutation) -> bool:
    """Split with one output gives its input, along whichever axis."""
    return node.op_type == "Split" and len(node.output) == 1 and len(node.input) == 1


@of_node("an end of Shape beyond the rank")
def shape_end(facts: Facts, node: NodeProto, mutation: Mutation) -> bool:
    """Shape up to the last axis, or farther."""
    if mutation.what != "attribute" or not mutation.before.startswith("end="):
        return False
    ends = [int(text.partition("=")[2]) for text in (mutation.before, mutation.after)]
    return 0 < facts.rank(node.input[0]) <= min(ends)


@of_node("the sign of what Abs takes")
def sign_for_abs(facts: Facts, node: NodeProto, mutation: Mutation) -> bool:
    """A difference the other way round, of which only Abs is read."""
    return node.op_type == "Sub" and mutation.what == "inputs exchanged" and _read_by_abs(facts, node.output[0])


def _read_by_abs(facts: Facts, name: str) -> bool:
    uses = list(facts.uses(name))
    return bool(uses) and all(
        use.node.op_type == "Abs" or (use.node.op_type == "Unsqueeze" and _read_by_abs(facts, use.node.output[0]))
        for use in uses
    )


@of_node("Abs of what is not negative")
def abs_of_counts(facts: Facts, node: NodeProto, mutation: Mutation) -> bool:
    """Abs taken out where all distances are counted from 0."""
    return node.op_type == "Abs" and mutation.what == "taken out"


@of_node("a quotient by 1 or -1 for a product")
def by_signs(facts: Facts, node: NodeProto, mutation: Mutation) -> bool:
    """Mul and Div by a row of a table of signs."""
    maker = facts.makers.get(node.input[1]) if node.op_type == "Mul" else None
    table = facts.stored.get(maker.input[0]) if maker is not None and maker.op_type == "Gather" else None
    return mutation.after == "Div" and table is not None and bool((np.abs(table) == 1).all())


@of_node("sizes that changed place in a shape whose elements keep their order")
def sizes_in_a_shape(facts: Facts, node: NodeProto, mutation: Mutation) -> bool:
    """A view of which later axes alone are read, and which is reshaped back."""
    ends = {use.sort for use in facts.uses(node.output[0])}
    return node.op_type == "Concat" and mutation.what == "inputs exchanged" and ends == {("Reshape", 1)}


@of_node("a guard that what follows repeats")
def repeated_guard(facts: Facts, node: NodeProto, mutation: Mutation) -> bool:
    """Split of a slice to a length: Expand to that length, or an addition of as many rows, refuses another one."""
    return (
        node.op_type == "Split" and mutation.what == "taken out" and _reaches(facts, node.output[0], {"Expand", "Add"})
    )


def _reaches(facts: Facts, name: str, ends: set[str]) -> bool:
    ops = {use.node.op_type: use.node.output[0] for use in facts.uses(name)}
    through = [out for op, out in ops.items() if op in ("Unsqueeze", "Split", "Squeeze")]
    return bool(ops) and (
        set(ops) <= ends or (len(through) == len(ops) and all(_reaches(facts, o, ends) for o in through))
    )


@of_node("how many blocks are made: what lies beyond the length is cut off")
def blocks(facts: Facts, node: NodeProto, mutation: Mutation) -> bool:
    """How far a Range goes whose rows a Split cuts at the length."""
    return mutation.kind == "operators" and _only_counts(facts, node.output[0])


@of_node("what is taken off whole circles, of less than one")
def below_one(facts: Facts, node: NodeProto, mutation: Mutation) -> bool:
    """x - Floor(x) of fractions below 1 is x."""
    return node.op_type == "Sub" and mutation.what == "taken out" and facts.maker(node.input[1]) == "Floor"


@of_node("the last term of a polynomial in float64, below the last digit of float32")
def last_terms(facts: Facts, node: NodeProto, mutation: Mutation) -> bool:
    """1 - r^2 / 20 and 1 - r^2 / 12, of an r below 0.01."""
    divided = facts.makers.get(node.input[1]) if node.op_type == "Sub" else None
    by = facts.stored.get(divided.input[1]) if divided is not None and divided.op_type == "Div" else None
    return by is not None and by.dtype == np.float64 and by.ndim == 0 and float(by) >= LAST_TERM


@of_node("a bound that nothing reaches")
def no_bound(facts: Facts, node: NodeProto, mutation: Mutation) -> bool:
    """Clip, Max or Min taken out where nothing is beyond."""
    return node.op_type in ("Clip", "Max", "Min") and mutation.what == "taken out"


@of_node("conditions that are never both true, or always alike")
def conditions(facts: Facts, node: NodeProto, mutation: Mutation) -> bool:
    """Or and Xor of what excludes each other, And and Or of what is alike."""
    return node.op_type in ("And", "Or", "Xor") and mutation.what == "operator"


@of_node("a sign at 0, where both are 0")
def sign_of_zero(facts: Facts, node: NodeProto, mutation: Mutation) -> bool:
    """x < 0 and x <= 0, which choose between a number and its negative."""
    if (mutation.before, mutation.after) not in {("Less", "LessOrEqual"), ("Greater", "GreaterOrEqual")}:
        return False
    uses = list(facts.uses(node.output[0]))
    return bool(uses) and all(use.sort == ("Where", 0) and _negated(facts, use.node) for use in uses)


def _negated(facts: Facts, where: NodeProto) -> bool:
    one, other = (facts.makers.get(name) for name in where.input[1:])
    return (one is not None and one.op_type == "Neg" and one.input[0] == where.input[2]) or (
        other is not None and other.op_type == "Neg" and other.input[0] == where.input[1]
    )
