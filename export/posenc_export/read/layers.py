"""Layers of a graph, counted by its attentions: names of nodes need not say them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

from posenc_export.read.interpret.state import is_data
from posenc_export.read.values import Meeting, Position, Run, Unknown

WHOLE = frozenset(
    (
        "Attention",
        "MultiHeadAttention",
        "GroupQueryAttention",
        "PagedAttention",
        "SparseAttention",
        "PackedAttention",
        "PackedMultiHeadAttention",
        "DecoderAttention",
        "DecoderMaskedMultiHeadAttention",
        "DecoderMaskedSelfAttention",
        "QAttention",
        "LongformerAttention",
    )
)
"""Operators that are an attention."""
SOFTMAX = frozenset(("Softmax", "BiasSoftmax", "QLinearSoftmax"))
"""Operators that end the scores of one."""
MULTIPLYING = frozenset(("MatMul", "Gemm", "Einsum", "FusedMatMul", "FusedGemm", "MatMulNBits", "MatMulInteger"))
"""Products: scores are those of queries and keys, two tensors of data."""
BEHIND = 64
"""How many tensors are gone back from a Softmax to the product that makes what it takes."""
SCORES = 3
"""Axes that scores have at least: those of a router of experts, and of a classifier, have fewer."""


def attentions_of(run: Run) -> tuple[int, ...]:
    """Return the places of the attentions among the nodes of a run."""
    return tuple(
        place for place, node in enumerate(run.nodes) if _is_attention(node) and not _is_of_a_weight(run, node)
    )


def _is_of_a_weight(run: Run, softmax: Meeting) -> bool:
    """Return whether what a Softmax takes is no product of two tensors of data: a router's is one with a weight."""
    if softmax.op_type not in SOFTMAX:
        return False
    waiting = [operand.tensor for operand in softmax.operands[:1] if operand is not None]
    seen, weighed = set(waiting), False
    while waiting and len(seen) < BEHIND:
        place = run.produced.get(waiting.pop())
        if place is None:
            continue
        node = run.nodes[place]
        data = [operand for operand in node.operands if operand is not None and is_data(operand.value)]
        if node.op_type in MULTIPLYING:
            if len(data) > 1:
                return False
            weighed = weighed or bool(data)
            continue
        fresh = [operand.tensor for operand in data if operand.tensor not in seen]
        seen.update(fresh)
        waiting += fresh
    return weighed and not waiting


def attentions_after(run: Run, attentions: Sequence[int]) -> list[tuple[int, ...]]:
    """Return of each node the numbers of the attentions that it is, or that take what it makes.

    What a node makes of data is of the first of them: later layers take it beside their own. What weights make of
    positions alone may be of several, whose weights an optimizer has packed, and stand anywhere before them.
    """
    numbers = {place: number for number, place in enumerate(attentions)}
    # from the end: of each tensor, a bit for each attention that takes it, or something made of it
    taken: dict[str, int] = {}
    reached: list[tuple[int, ...]] = [()] * len(run.nodes)
    for place in reversed(range(len(run.nodes))):
        node = run.nodes[place]
        later = reduce(or_, (taken.get(name, 0) for name in node.outputs), 0)
        bits = 1 << numbers[place] if place in numbers else later
        meets_data = any(operand is not None and is_data(operand.value) for operand in node.operands)
        own = bits & -bits if meets_data else bits  # the lowest bit, or all
        reached[place] = tuple(number for number in range(own.bit_length()) if own >> number & 1)
        for operand in node.operands:
            if operand is not None:
                taken[operand.tensor] = taken.get(operand.tensor, 0) | bits
    return reached


def layers_of(
    places: Iterable[int], attentions: Sequence[int], after: Sequence[tuple[int, ...]] = ()
) -> tuple[int, ...]:
    """Return the numbers of the attentions that nodes are, or that take what they make; each once, in order.

    Args:
        places: of the nodes.
        attentions: places of the attentions.
        after: what `attentions_after` gives; for nodes without a number there, the next attention in the order counts.
    """
    known = [(place, after[place] if place < len(after) else ()) for place in places]
    # branches of a graph are taken by no name
    numbers = {number for place, taking in known for number in taking or (bisect_left(attentions, place),)}
    return tuple(sorted(number for number in numbers if number < len(attentions)))


def _is_attention(node: Meeting) -> bool:
    if node.op_type in WHOLE:
        return True
    if node.op_type not in SOFTMAX or not node.operands or node.operands[0] is None:
        return False
    value = node.operands[0].value
    if isinstance(value, Unknown):
        return False
    return len(value.array.shape if isinstance(value, Position) else value.shape) >= SCORES
