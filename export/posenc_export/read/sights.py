"""Which keys the queries of an attention see: all of them, those up to their own place, or the last few of these.

Masks that follow from positions alone are computed by the interpreter. What is added to scores, or put in their place,
is followed back from each Softmax to the products that made the scores; operators that are an attention say it by their
attributes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from posenc_export.read.graph import Graph
from posenc_export.read.inspection import Sight
from posenc_export.read.interpret.budget import Budget
from posenc_export.read.interpret.meetings import PRODUCTS
from posenc_export.read.interpret.run import interpret
from posenc_export.read.interpret.sizes import axes_of
from posenc_export.read.interpret.state import is_data, shape_of, small_numbers
from posenc_export.read.layers import SOFTMAX, attentions_of
from posenc_export.read.recognise.flow import Flow
from posenc_export.read.recognise.masks import unblocked
from posenc_export.read.values import Constant, Data, Meeting, Operand, Position, Run

Seen = NDArray[np.bool_]
ADDING = ("Add", "Sum", "Sub", "BiasSoftmax")
"""Nodes that put a mask to scores."""
PASSED = frozenset(
    (
        *ADDING,
        *("Where", "Mul", "Div", "Neg", "Max", "Min", "Clip", "Tanh", "Dropout", "Concat"),
        *("Cast", "CastLike", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Transpose", "Expand"),
    )
)
"""Nodes between a product and a Softmax: none of them hides a key but by what is added, or put in its place."""
MOST = 96
"""Nodes between a product and a Softmax, at most."""
LATER = ("GroupQueryAttention", "SparseAttention", "PagedAttention", "DecoderMaskedMultiHeadAttention")
"""Operators whose queries see no later key."""
FLAGS = {"Attention": ("unidirectional", "is_causal"), "MultiHeadAttention": ("unidirectional",)}
"""Attributes by which operators leave later keys out."""
BIASES = {("", "Attention"): 3, ("com.microsoft", "Attention"): 5, ("com.microsoft", "MultiHeadAttention"): 5}
"""Where operators take what is added to scores, or says which are left in."""
WIDTH = "local_window_size"
COUNTED = frozenset(("Add", "Sub", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Trilu", "Min", "Max", "Clip"))
"""Nodes in which a distance is compared with the width of a window."""
WIDTHS = range(2, 1 << 17)
LONGEST = 1 << 11
"""The longest call without a cache in which windows are looked for: a mask has a number for each pair of its tokens."""
TRIED = 2
"""Lengths at which windows are looked for, at most."""
BYTES = 1 << 26
"""Bytes of a value in these calls."""


def sights_of(run: Run, attentions: Sequence[int]) -> tuple[Sight, ...]:
    """Return which keys the queries of each attention see, as an interpreted call shows it.

    Args:
        run: an interpreted graph.
        attentions: places of its attentions, as `attentions_of` gives them.
    """
    flow = Flow(run)
    return tuple(_sight(flow, number, run.nodes[place]) for number, place in enumerate(attentions))


def with_windows(
    graph: Graph, run: Run, sights: Sequence[Sight], windows: Sequence[int], budget: Budget
) -> tuple[Sight, ...]:
    """Return sights, those of earlier keys alone with what longer calls show: of how many keys they are.

    Args:
        graph: the graph.
        run: its interpretation at usual sizes.
        sights: as that shows them.
        windows: how many keys a config says that queries see.
        budget: how much a longer call may cost.
    """
    found = tuple(sights)
    if not any(sight.later is False and sight.window is None for sight in found):
        return found
    kinds = set(axes_of(graph).values())
    smaller = replace(budget, value_bytes=min(BYTES, budget.value_bytes))
    widths = sorted({*windows, *_widths(run)}, reverse=True)
    if "past" in kinds:
        calls = [{"past": width + 1, "length": 2} for width in widths]
    else:
        calls = [{"length": width + 2, "source": width + 2} for width in widths if width <= LONGEST]
    # the longest call shows the narrow windows, too
    for call in calls[:TRIED] if "length" in kinds else ():
        longer = interpret(graph, call, budget=smaller)
        places = attentions_of(longer)
        if longer.stopped is None and len(places) == len(found):
            there = sights_of(longer, places)
            found = tuple(_longer(before, after) for before, after in zip(found, there, strict=True))
            break
    return found


def _longer(before: Sight, after: Sight) -> Sight:
    """Return what two calls show of an attention, of which the second is longer."""
    if before.later is not False or before.window is not None or after.later is None or after.tried <= before.tried:
        return before
    return replace(before, window=after.window, tried=after.tried)


def _widths(run: Run) -> Iterator[int]:
    """Yield the numbers that positions are compared with: a window may be as wide."""
    for node in run.nodes:
        if node.op_type not in COUNTED:
            continue
        values = [operand.value for operand in node.operands if operand is not None]
        if not any(isinstance(value, Position) and value.array.size > 1 for value in values):
            continue
        for value in values:
            number = small_numbers(value) if isinstance(value, Constant) else None
            if number is not None and number.size == 1 and number.dtype.kind in "iuf":
                width = abs(float(number.reshape(-1)[0]))
                if np.isfinite(width) and width == int(width) and int(width) in WIDTHS:
                    yield int(width)


def _sight(flow: Flow, number: int, node: Meeting) -> Sight:
    if node.op_type not in SOFTMAX:
        return _of_operator(flow, number, node)
    scores = node.operands[0]
    shape = () if scores is None else shape_of(scores.value) or ()
    axis = node.attributes.get("axis", -1)
    unknown = Sight(number, node.node, None, None, 0)
    # in opsets below 13, an axis of 1 is that of keys where the others are flat
    if len(shape) < 3 or axis not in (-1, len(shape) - 1):
        return unknown
    search = _Search(flow, (shape[-2], shape[-1]))
    if node.op_type == "BiasSoftmax":
        search.put_to(node)
    assert scores is not None
    search.follow(scores.tensor)
    return _of_seen(number, node.node, search, _past(flow.run))


def _of_operator(flow: Flow, number: int, node: Meeting) -> Sight:
    """Return which keys an operator that is an attention lets queries see."""
    unknown = Sight(number, node.node, None, None, 0)
    domain = "" if node.domain == "ai.onnx" else node.domain
    width = node.attributes.get(WIDTH, -1)
    window = width if isinstance(width, int) and width > 0 else None
    if node.op_type in LATER:
        # the attribute says it of every call; -1, or none, is no window
        return Sight(number, node.node, False, window, WIDTHS.stop if node.op_type != "SparseAttention" else 0)
    flags = [name for name in FLAGS.get(node.op_type, ()) if node.attributes.get(name)]
    place = BIASES.get((domain, node.op_type))
    if place is None:
        return unknown
    bias = node.operands[place] if len(node.operands) > place else None
    if flags and bias is None:
        return Sight(number, node.node, False, None, WIDTHS.stop)
    if bias is None:
        return Sight(number, node.node, True, None, 0)
    if not isinstance(bias.value, Position) or bias.value.array.ndim < 2:
        return replace(unknown, later=False if flags else None)
    queries, keys = bias.value.array.shape[-2:]
    search = _Search(flow, (queries, keys))
    if bias.value.array.dtype == np.bool_:
        search.hide(np.logical_not(bias.value.array), bias.value)
    else:
        search.hide(np.isnan(unblocked(bias.value.array)), bias.value)
    sight = _of_seen(number, node.node, search, _past(flow.run))
    return replace(sight, later=False) if flags else sight


def _past(run: Run) -> int:
    """Return how many tokens the caches of a run have: the size of an axis that a cache alone has."""
    sizes = [shape[-2] for name, value in run.values.items() if (shape := _cache(run, name, value))]
    return max(set(sizes), key=sizes.count) if sizes else 0


def _cache(run: Run, name: str, value: object) -> tuple[int, ...]:
    """Return the shape of an input of four axes, as caches have it; nothing for other tensors."""
    if name in run.produced or not isinstance(value, Data) or len(value.shape) != 4:
        return ()
    return value.shape


@dataclass
class _Search:
    """What hides keys, found on the way back from a Softmax.

    Args:
        flow: of a run.
        size: how many queries and keys there are.
        hidden: (queries, keys): the keys that are hidden.
        doubt: whether something was met that may hide keys, too.
    """

    flow: Flow
    size: tuple[int, int]
    hidden: Seen = field(init=False)
    doubt: bool = False

    def __post_init__(self) -> None:
        self.hidden = np.zeros(self.size, np.bool_)

    def follow(self, tensor: str) -> None:
        """Go back from scores to the products that made them."""
        waiting, seen = [tensor], {tensor}
        while waiting:
            node = self.flow.maker(waiting.pop())
            if node is None or node.op_type not in PASSED | PRODUCTS or len(seen) > MOST:
                self.doubt = True
                return
            if node.op_type in PRODUCTS:
                continue
            if node.op_type in ADDING:
                self.put_to(node)
            elif node.op_type == "Where":
                self.put_in_place(node)
            fresh = [o.tensor for o in node.operands if o is not None and is_data(o.value) and o.tensor not in seen]
            seen.update(fresh)
            waiting += fresh

    def put_to(self, node: Meeting) -> None:
        """Note what a node adds to scores."""
        for place, operand in enumerate(node.operands):
            numbers = self._numbers(operand)
            if operand is not None and numbers is not None and numbers.dtype.kind not in "biu":
                sign = -1 if node.op_type == "Sub" and place == 1 else 1
                self.hide(np.isnan(unblocked(sign * numbers)), operand.value)

    def put_in_place(self, node: Meeting) -> None:
        """Note where a node puts the lowest number in the place of scores."""
        condition, *sides = node.operands
        numbers = None if condition is None else self._numbers(condition)
        low = [place for place, operand in enumerate(sides) if self._is_low(operand)]
        if condition is not None and numbers is not None and len(low) == 1:
            chosen = numbers.astype(np.bool_)
            self.hide(chosen if low[0] == 0 else ~chosen, condition.value)
        elif condition is not None and is_data(condition.value):
            self.doubt = True

    def _is_low(self, operand: Operand | None) -> bool:
        numbers = self._numbers(operand)
        return numbers is not None and numbers.size > 0 and bool(np.isnan(unblocked(numbers)).all())

    def _numbers(self, operand: Operand | None) -> NDArray[np.generic] | None:
        return None if operand is None or is_data(operand.value) else self.flow.numbers(operand)

    def hide(self, mask: Seen, value: object) -> None:
        """Note a mask, (.., queries, keys) or what is broadcast to that, of the first head of the first sequence."""
        if isinstance(value, Position) and any(self._is_of_pairs(name) for name in value.inputs):
            self.doubt = True
        rows = mask.reshape(-1, *mask.shape[-2:])[0] if mask.ndim > 2 else mask
        try:
            self.hidden |= np.broadcast_to(rows, self.size)
        except ValueError:
            self.doubt = True

    def _is_of_pairs(self, name: str) -> bool:
        """Return whether an input has a number for each query and key: the caller hides what it likes."""
        fed = self.flow.run.values.get(name)
        return isinstance(fed, Position) and fed.array.ndim > 2


def _of_seen(number: int, node: str, search: _Search, past: int) -> Sight:
    """Return which keys are seen, of an attention whose queries stand behind a past."""
    queries, keys = search.size
    # keys of another text have no order beside these queries
    if keys != queries + past or queries < 2:
        return Sight(number, node, None, None, 0)
    seen = ~search.hidden
    steps = np.arange(keys) - (np.arange(queries)[:, None] + past)
    later = seen[steps > 0]
    if not later.any():
        window = None if search.doubt else _width(seen, steps)
        return Sight(number, node, False, window, 0 if search.doubt else keys)
    # what was not followed may hide them
    return Sight(number, node, True if later.all() and not search.doubt else None, None, 0)


def _width(seen: Seen, steps: NDArray[np.int64]) -> int | None:
    """Return how many keys a query sees, its own among them; None where it sees all before it, or others."""
    hidden = -steps[~seen & (steps <= 0)]
    if not hidden.size:
        return None
    width = int(hidden.min())
    return width if bool((seen[steps <= 0] == (-steps[steps <= 0] < width)).all()) and width > 0 else None
