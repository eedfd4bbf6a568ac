"""Rules of nodes that may be as they were changed: their words say why."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, TensorProto

from helpers.mutants.graph_facts import Facts
from helpers.mutants.mutation import Mutation
from helpers.mutants.rules import LAST_TERM, of_node, only_counts


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


@of_node("a vector of all that there is")
def whole_vector(facts: Facts, node: NodeProto, mutation: Mutation) -> bool:
    """Reshape of a vector to [-1], taken out."""
    if node.op_type != "Reshape" or mutation.what != "taken out" or facts.rank(node.input[0]) != 1:
        return False
    shape = facts.stored.get(node.input[1])
    return shape is not None and shape.tolist() == [-1]


@of_node("an index in wider integers")
def wider_index(facts: Facts, node: NodeProto, mutation: Mutation) -> bool:
    """Cast from int64 to int32, taken out, of what a Clip bounds."""
    to_int32 = any(attribute.name == "to" and attribute.i == TensorProto.INT32 for attribute in node.attribute)
    return (
        node.op_type == "Cast" and to_int32 and mutation.what == "taken out" and "Clip" in facts.made_of(node.input[0])
    )


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


@of_node("a size that a 0 takes out of a shape")
def size_times_zero(facts: Facts, node: NodeProto, mutation: Mutation) -> bool:
    """Shape from the next axis on, times 0 and 1: one size is multiplied by both."""
    return node.op_type == "Shape" and mutation.before.startswith("start=") and _compares(facts, node.output[0])


def _compares(facts: Facts, name: str) -> bool:
    """Whether a stored 0 or 1 multiplies each size, for the shape of a Reshape."""
    uses = list(facts.uses(name))
    stored = [facts.stored.get(one) for use in uses if use.node.op_type == "Mul" for one in use.node.input]
    masks = [mask for mask in stored if mask is not None and set(mask.tolist()) == {0, 1}]
    return facts.ends(name) == {("Reshape", 1)} and len(masks) == len(uses) > 0


@of_node("a size that is compared, too, and is alike")
def all_sizes_compared(facts: Facts, node: NodeProto, mutation: Mutation) -> bool:
    """Reshape to sizes of another input without the 0 that leaves a size as it is."""
    sizes = [name for name in node.input if facts.maker(name) == "Shape"]
    changed = mutation.what == "taken out" or mutation.after == "Max"
    return changed and node.op_type == "Mul" and len(sizes) == 1 and _compares(facts, sizes[0])


@of_node("places of keys that are moved alike with those of queries, which are looked up in them")
def places_moved(facts: Facts, node: NodeProto, mutation: Mutation) -> bool:
    """A range and what brings each of it back by one: of keys and of queries among them differences alone are read."""
    cut = [use.node for use in facts.uses(node.output[0])]
    if mutation.what != "operator" or node.op_type != "Add" or [one.op_type for one in cut] != ["Slice"]:
        return False
    columns = [use.node for use in facts.uses(cut[0].output[0]) if use.node.op_type == "Unsqueeze"]
    return any(use.sort == ("Gather", 0) for one in columns for use in facts.uses(one.output[0]))


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


@of_node("a sign that no distance of a call changes")
def sign_of_none_after(facts: Facts, node: NodeProto, mutation: Mutation) -> bool:
    """Mul by a row of a table of signs taken out, where no key is after its query."""
    makers = [facts.makers[name] for name in node.input if name in facts.makers]
    tables = [facts.stored.get(maker.input[0]) for maker in makers if maker.op_type == "Gather"]
    signs = [table for table in tables if table is not None and bool((np.abs(table) == 1).all())]
    return node.op_type == "Mul" and mutation.what == "taken out" and len(signs) == 1


@of_node("sizes that changed place in a shape whose elements keep their order")
def sizes_in_a_shape(facts: Facts, node: NodeProto, mutation: Mutation) -> bool:
    """A view of which later axes alone are read, and which is reshaped back."""
    ends = {use.sort for use in facts.uses(node.output[0])}
    return node.op_type == "Concat" and mutation.what == "inputs exchanged" and ends == {("Reshape", 1)}


@of_node("a guard that what follows repeats")
def repeated_guard(facts: Facts, node: NodeProto, mutation: Mutation) -> bool:
    """Split of a slice to a length: Expand to that length, or an addition of as many rows, refuses another one.

    So does a Reshape to sizes of another input that comes behind a Reshape which compares them.
    """
    if mutation.what != "taken out":
        return False
    if node.op_type == "Reshape":
        following = {use.node.op_type for use in facts.uses(node.output[0])}
        return facts.maker(node.input[1]) == "Mul" and "Reshape" in following
    return node.op_type == "Split" and _reaches(facts, node.output[0], {"Expand", "Add"})


def _reaches(facts: Facts, name: str, ends: set[str]) -> bool:
    ops = {use.node.op_type: use.node.output[0] for use in facts.uses(name)}
    through = [out for op, out in ops.items() if op in ("Unsqueeze", "Split", "Squeeze")]
    return bool(ops) and (
        set(ops) <= ends or (len(through) == len(ops) and all(_reaches(facts, o, ends) for o in through))
    )


@of_node("how many blocks are made: what lies beyond the length is cut off")
def blocks(facts: Facts, node: NodeProto, mutation: Mutation) -> bool:
    """How far a Range goes whose rows a Split cuts at the length."""
    return mutation.kind == "operators" and only_counts(facts, node.output[0])


@of_node("what is taken off whole circles, of less than one")
def below_one(facts: Facts, node: NodeProto, mutation: Mutation) -> bool:
    """x - Floor(x) of fractions below 1 is x."""
    return node.op_type == "Sub" and mutation.what == "taken out" and facts.maker(node.input[1]) == "Floor"


@of_node("the last term of a polynomial in float64, below the last digit of float32")
def last_terms(facts: Facts, node: NodeProto, mutation: Mutation) -> bool:
    """1 - r^2 / 20 and 1 - r^2 / 12, of an r below 0.01, and the product of that with r^2 that becomes r^2."""
    if node.op_type == "Mul" and mutation.what == "taken out":
        factor = facts.makers.get(node.input[1])
        return factor is not None and _is_last_term(facts, factor)
    return _is_last_term(facts, node)


def _is_last_term(facts: Facts, node: NodeProto) -> bool:
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


@of_node("how many keys beyond the farthest bucket are left out and repeated by a Pad: of none, none")
def none_repeated(facts: Facts, node: NodeProto, mutation: Mutation) -> bool:
    """0 for how many rows a Slice leaves out, where a Pad in front repeats as many of what is computed of the others.

    A row in the place of each that is left out is computed then, and is the one that was repeated.
    """
    if (mutation.before, mutation.after) != ("Max", "Mul"):
        return False
    bounds = [facts.stored[name] for name in node.input if name in facts.stored]
    pads = [one for one in facts.model.graph.node if one.op_type == "Pad" and ("Pad", 1) in facts.ends(node.output[0])]
    modes = [a.s for pad in pads for a in pad.attribute if a.name == "mode"]
    ends = {("Slice", 1), ("Pad", 1)}
    return len(bounds) == 1 and not bounds[0].any() and modes == [b"edge"] and facts.ends(node.output[0]) == ends


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


@of_node("a remainder of what is below twice the divisor: an index counted from the end")
def remainder_from_the_end(facts: Facts, node: NodeProto, mutation: Mutation) -> bool:
    """n - 512 for n % 512, as an index of 512 rows: below 512 it is counted from the end, and so the same row."""
    divisor = facts.stored.get(node.input[1]) if (mutation.before, mutation.after) == ("Mod", "Sub") else None
    uses = list(facts.uses(node.output[0]))
    tables = [facts.stored.get(use.node.input[0]) for use in uses if use.sort == ("Gather", 1)]
    same = [divisor is not None and table is not None and len(table) == int(divisor) for table in tables]
    return bool(uses) and len(same) == len(uses) and all(same)
