"""Each attention accounted for: which of its queries, keys and values are turned, how often, by which angles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from posenc.ports import Floats
from posenc_export.read.interpret.meetings import PRODUCTS
from posenc_export.read.interpret.state import is_data
from posenc_export.read.layers import SOFTMAX, WHOLE
from posenc_export.read.recognise.flow import Flow
from posenc_export.read.recognise.named import VALUES_TURNED
from posenc_export.read.recognise.rotary.origins import DEEPEST, PLAIN, Places, Traced, Tracer, shape_of
from posenc_export.read.values import Meeting, Operand, Run

UNLIKE = 0.02
"""A difference of two cosines that no rounding makes."""
SIDES: dict[str, tuple[int, int, int]] = {
    **dict.fromkeys(("Attention", "MultiHeadAttention", "GroupQueryAttention", "PagedAttention"), (0, 1, 2)),
    **dict.fromkeys(("SparseAttention", "PackedMultiHeadAttention", "DecoderMaskedMultiHeadAttention"), (0, 1, 2)),
}
"""Where operators that are an attention take queries, keys and values."""


@dataclass(frozen=True)
class Side:
    """The queries, the keys or the values of an attention.

    Args:
        turns: the rotations that its elements come from.
        again: those whose elements were turned before.
        traced: where each element comes from; None where nobody knows.
        axis: that of tokens.
    """

    turns: tuple[int, ...]
    again: tuple[int, ...]
    traced: Traced | None
    axis: int


@dataclass(frozen=True)
class AttentionFault:
    """What is wrong with an attention, or not known: at which node, in words."""

    node: str
    words: str


@dataclass(frozen=True)
class Account:
    """An attention.

    Args:
        place: of its node.
        queries: rotations that queries come from, by the nodes there.
        keys: the same of keys.
        values: the same of values.
        faults: what is wrong, in words.
        unsure: what could not be followed, in words.
    """

    place: int
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    values: tuple[str, ...]
    faults: tuple[AttentionFault, ...] = ()
    unsure: tuple[AttentionFault, ...] = ()


def accounts_of(run: Run, attentions: Sequence[int]) -> tuple[Account, ...]:
    """Return what becomes of queries, keys and values of each attention.

    Args:
        run: an interpreted graph.
        attentions: places of its attentions, as `attentions_of` gives them.
    """
    flow = Flow(run)
    tracer = Tracer(flow)
    if not tracer.turns and not any(map(_turns_itself, run.nodes)):
        return ()
    return tuple(_account(tracer, place) for place in attentions)


def _account(tracer: Tracer, place: int) -> Account:
    node = tracer.flow.run.nodes[place]
    if node.op_type in WHOLE:
        return _whole(tracer, place, node)
    products = list(_score_products(tracer.flow, node))
    values = _values_of(tracer.flow, node)
    names: list[list[str]] = [[], [], []]
    faults: list[AttentionFault] = []
    unsure: list[AttentionFault] = []
    for product in products:
        left, right = product.operands[:2]
        if left is None or right is None:
            continue
        axes = _token_axes(product)
        query, key = _side(tracer, left, axes[0]), _side(tracer, right, axes[1])
        _judge(tracer, (query, key), faults, unsure)
        names[0] += _nodes(tracer, query)
        names[1] += _nodes(tracer, key)
    if values is not None:
        side = _side(tracer, values, _value_axis(tracer.flow, values))
        names[2] += _nodes(tracer, side)
        _judge_values(tracer, side, faults)
    return _accounted(place, names, faults, unsure)


def _token_axes(product: Meeting) -> tuple[int, int]:
    """Return the axes of tokens of two sides of a product, counted from the last."""
    terms = _terms(product)
    if terms is not None:
        first, second, result = terms
        # queries are no sum over tokens: each side has a letter that the result has, and the other side has not
        alone = [
            [letter for letter in own if letter in result and letter not in other]
            for own, other in ((first, second), (second, first))
        ]
        if len(alone[0]) == len(alone[1]) == 1:
            return first.index(alone[0][0]) - len(first), second.index(alone[1][0]) - len(second)
    left = -1 if product.attributes.get("transA") else -2
    return left, -2 if product.attributes.get("transB") else -1


def _value_axis(flow: Flow, values: Operand) -> int:
    """Return the axis of tokens of values, counted from the last: an Einsum sums over it."""
    for node in flow.takers.get(values.tensor, []):
        terms = _terms(node)
        names = [operand.tensor if operand is not None else "" for operand in node.operands[:2]]
        if terms is None or values.tensor not in names or names[0] == names[1]:
            continue
        own = terms[names.index(values.tensor)]
        summed = [letter for letter in own if letter not in terms[2]]
        if len(summed) == 1 and summed[0] in terms[1 - names.index(values.tensor)]:
            return own.index(summed[0]) - len(own)
    return -2


def _terms(node: Meeting) -> tuple[str, str, str] | None:
    """Return the letters of both sides of an Einsum and of its result; None for others, and for axes without one."""
    equation = node.attributes.get("equation")
    text = equation.decode() if isinstance(equation, bytes) else equation
    if node.op_type != "Einsum" or not isinstance(text, str) or "..." in text or "->" not in text:
        return None
    sides, result = text.replace(" ", "").split("->")
    parts = sides.split(",")
    return (parts[0], parts[1], result) if len(parts) == 2 else None


def _accounted(
    place: int, names: list[list[str]], faults: list[AttentionFault], unsure: list[AttentionFault]
) -> Account:
    sides = [tuple(dict.fromkeys(nodes)) for nodes in names]
    return Account(place, sides[0], sides[1], sides[2], tuple(dict.fromkeys(faults)), tuple(dict.fromkeys(unsure)))


def _whole(tracer: Tracer, place: int, node: Meeting) -> Account:
    """Return the account of an operator that is an attention, and that may turn queries and keys itself."""
    places = SIDES.get(node.op_type)
    is_joint = node.op_type == "Attention" and node.domain not in ("", "ai.onnx")
    if places is None or is_joint:
        return Account(place, (), (), ())
    operands = [node.operands[i] if i < len(node.operands) else None for i in places]
    names: list[list[str]] = [[], [], []]
    faults: list[AttentionFault] = []
    unsure: list[AttentionFault] = []
    sides = [None if o is None else _side(tracer, o, 2 if len(shape_of(o)) == 4 else 1) for o in operands]
    packed = operands[1] is None
    turns_itself = _turns_itself(node)
    query, key, value = sides
    if query is not None and key is not None and not packed:
        _judge(tracer, (query, key), faults, unsure)
    for side, found, words in zip(sides, names, ("queries", "keys", "values"), strict=True):
        if side is None or packed:
            continue
        found.extend(_nodes(tracer, side))
        if turns_itself and side.turns and words != "values":
            faults.append(
                AttentionFault(found[0], f"{words} are turned twice: there, and by the operator of the attention")
            )
    if value is not None:
        _judge_values(tracer, value, faults)
    if turns_itself:
        names[0].append(node.node)
        names[1].append(node.node)
    return _accounted(place, names, faults, unsure)


def _turns_itself(node: Meeting) -> bool:
    return node.op_type in WHOLE and bool(node.attributes.get("do_rotary"))


def _score_products(flow: Flow, softmax: Meeting) -> Iterator[Meeting]:
    """Yield the products of two tensors of data whose sums are the scores that a Softmax takes."""
    waiting = [o.tensor for o in softmax.operands[:1] if o is not None]
    seen = set(waiting)
    while waiting:
        node = flow.maker(waiting.pop())
        if node is None or node.op_type in WHOLE or node.op_type in SOFTMAX:
            continue
        if node.op_type in PRODUCTS:
            pair = node.operands[:2]
            if len(pair) == 2 and all(o is not None and is_data(o.value) and len(shape_of(o)) > 1 for o in pair):
                yield node
            continue
        if len(seen) > 4 * DEEPEST:
            return
        fresh = [o.tensor for o in node.operands if o is not None and is_data(o.value) and o.tensor not in seen]
        seen.update(fresh)
        waiting += fresh


def _values_of(flow: Flow, softmax: Meeting) -> Operand | None:
    """Return what the weights of an attention are multiplied with; None where that is not found."""
    waiting, seen = list(softmax.outputs[:1]), set(softmax.outputs)
    while waiting:
        tensor = waiting.pop(0)
        for node in flow.takers.get(tensor, []):
            if node.op_type in PRODUCTS:
                pair = [o for o in node.operands[:2] if o is not None]
                others = [o for o in pair if o.tensor != tensor and is_data(o.value)]
                return others[0] if len(pair) == 2 and others else None
            if len(seen) > 2 * DEEPEST or node.op_type in WHOLE or node.op_type in SOFTMAX:
                return None
            fresh = [name for name in node.outputs if name and name not in seen]
            seen.update(fresh)
            waiting += fresh
    return None


def _side(tracer: Tracer, operand: Operand, axis: int) -> Side:
    traced = tracer.trace(operand)
    if traced is None:
        return Side((), (), None, axis)
    turns = tuple(int(turn) for turn in np.unique(traced.turn) if turn >= 0)
    again = []
    for turn in turns:
        entry = tracer.turns[turn]
        value = tracer.flow.run.values.get(entry.source)
        before = None if value is None else tracer.trace(Operand(entry.source, value))
        if before is not None and before.turn.size and np.any(before.turn.ravel()[entry.places] >= 0):
            again.append(turn)
    return Side(turns, tuple(again), traced, axis)


def _nodes(tracer: Tracer, side: Side) -> list[str]:
    return [tracer.turns[turn].node for turn in side.turns]


def _judge_values(tracer: Tracer, side: Side, faults: list[AttentionFault]) -> None:
    if side.turns:
        faults.append(AttentionFault(tracer.turns[side.turns[0]].node, VALUES_TURNED))


def _judge(
    tracer: Tracer, sides: tuple[Side, Side], faults: list[AttentionFault], unsure: list[AttentionFault]
) -> None:
    """Find what is wrong with the two sides of a product of queries and keys."""
    for side, words in zip(sides, ("queries", "keys"), strict=True):
        for turn in side.again:
            faults.append(AttentionFault(tracer.turns[turn].node, f"{words} are turned twice"))
        for turn in side.turns:
            if tracer.turns[turn].fault:
                faults.append(AttentionFault(tracer.turns[turn].node, f"{words}: {tracer.turns[turn].fault}"))
        if side.traced is not None and side.turns and _is_still(tracer, side):
            node = tracer.turns[side.turns[0]].node
            alike = f"{words} are turned alike at every token: angles go along an axis that is not that of tokens"
            faults.append(AttentionFault(node, alike))
    query, key = (_by_feature(tracer, side) for side in sides)
    if faults or query is None or key is None or not (sides[0].turns or sides[1].turns):
        return
    fault, doubt = _unlike(tracer, sides, (query, key))
    faults += fault
    unsure += doubt


def _is_still(tracer: Tracer, side: Side) -> bool:
    """Return whether elements are turned by angles that differ, but not from token to token."""
    assert side.traced is not None
    if side.traced.turn.shape[side.axis] < 2 or not np.all(side.traced.place[side.traced.turn >= 0] >= 0):
        return False
    cosine, sine = tracer.numbers(side.traced)
    numbers = np.stack([cosine, sine])
    if np.isnan(numbers).all():
        return False
    axis = side.axis if side.axis < 0 else side.axis + 1
    along = _spread(numbers, axis)
    # angles of heads differ, or of anything else: without a difference nothing is turned, which is said elsewhere
    features = -1 if side.axis != -1 else -2
    others = [a for a in range(1, numbers.ndim) if a not in (axis % numbers.ndim, features % numbers.ndim)]
    return along < UNLIKE and any(_spread(numbers, a) > UNLIKE for a in others)


def _spread(numbers: Floats, axis: int) -> float:
    """Return by how much numbers differ along an axis, at most."""
    filled = np.where(np.isnan(numbers), -np.inf, numbers).max(axis=axis)
    least = np.where(np.isnan(numbers), np.inf, numbers).min(axis=axis)
    with np.errstate(invalid="ignore"):
        apart = filled - least
    return float(np.where(np.isfinite(apart), apart, 0).max(initial=0))


@dataclass(frozen=True)
class HeadTurns:
    """A head of queries or of keys.

    Args:
        turn: (tokens, features): the rotation that each element comes from, or what it is without one.
        cosine: by what it was turned; NaN where nobody knows.
        sine: the same.
    """

    turn: Places
    cosine: Floats
    sine: Floats


def _by_feature(tracer: Tracer, side: Side) -> HeadTurns | None:
    """Return the first head of a side, (tokens, features)."""
    if side.traced is None or side.traced.turn.ndim < 2 or not side.traced.turn.size:
        return None
    cosine, sine = tracer.numbers(side.traced)
    unknown = side.traced.place < 0
    arrays = [side.traced.turn, np.where(unknown, np.nan, cosine), np.where(unknown, np.nan, sine)]
    if side.axis > 0:
        # operators have heads before tokens, or side by side
        heads = [array.reshape(-1, *array.shape[-2:])[0] for array in arrays]
    else:
        if side.axis < -2:
            arrays = [np.moveaxis(array, side.axis, -2) for array in arrays]
        heads = [array.reshape(-1, *array.shape[-2:])[0] for array in arrays]
        heads = [array.T for array in heads] if side.axis == -1 else heads
    return HeadTurns(heads[0].astype(np.int64), heads[1], heads[2])


def _unlike(
    tracer: Tracer, sides: tuple[Side, Side], rows: tuple[HeadTurns, HeadTurns]
) -> tuple[list[AttentionFault], list[AttentionFault]]:
    """Return how queries and keys are turned differently, in words, and what is not known of that."""
    query, key = rows
    width = min(query.turn.shape[1], key.turn.shape[1])
    # heads side by side: those that keys have are compared
    states = [_states(part.turn[:, :width]) for part in rows]
    for first, second, words, others in ((0, 1, "queries", "keys"), (1, 0, "keys", "queries")):
        alone = (states[first] == "turned") & (states[second] == "plain")
        if alone.any():
            some = "" if (states[second] != "turned").all() else f" in {int(alone.sum())} of {width} features"
            return [
                AttentionFault(
                    tracer.turns[sides[first].turns[0]].node, f"{words} are turned, and {others} are not{some}"
                )
            ], []
        if ((states[first] == "turned") & (states[second] == "unsure")).any() and not sides[second].turns:
            node = tracer.turns[sides[first].turns[0]].node
            return [], [AttentionFault(node, f"{words} are turned, and whether {others} are is not judged")]
    if query.turn.shape[0] != key.turn.shape[0]:
        return [], []
    cosines, sines = ([getattr(part, name)[:, :width] for part in rows] for name in ("cosine", "sine"))
    apart = np.fmax(np.abs(cosines[0] - cosines[1]), np.abs(sines[0] - sines[1]))
    if np.isnan(apart).all() or float(np.nanmax(apart)) < UNLIKE:
        return [], []
    node = tracer.turns[sides[1].turns[0]].node
    return [AttentionFault(node, f"keys are turned by other angles than queries{_words(rows, width)}")], []


def _states(turn: Places) -> NDArray[np.str_]:
    """Return of each feature whether it is turned at any token, plain at all of them, or neither is known."""
    turned, plain = (turn >= 0).any(0), (turn == PLAIN).all(0)
    return np.where(turned, "turned", np.where(plain, "plain", "unsure"))


def _words(rows: tuple[HeadTurns, HeadTurns], width: int) -> str:
    """Return in words how far apart the positions of both sides are, where all angles say one number."""
    query, key = ((part.cosine + 1j * part.sine)[:, :width] for part in rows)
    for shift in (1, 2, -1, -2, 3, -3):
        ahead, behind = (key, query) if shift > 0 else (query, key)
        count = abs(shift)
        apart = np.abs(ahead[:-count] - behind[count:])
        if not np.isnan(apart).all() and float(np.nanmax(apart)) < UNLIKE:
            return f": keys are {count} position{'s' * (count > 1)} {'further on' if shift > 0 else 'behind'}"
    mirrored = np.abs(query - np.conj(key))
    if not np.isnan(mirrored).all() and float(np.nanmax(mirrored)) < UNLIKE:
        return ": in the other direction"
    return ""
