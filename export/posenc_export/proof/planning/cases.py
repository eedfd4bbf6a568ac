"""One case of a plan: its lengths as the axes allow them, its other sizes by turns."""

from __future__ import annotations

from collections.abc import Mapping

from posenc.ports import Axis
from posenc_export.bundle.case import Case, Padding
from posenc_export.proof.planning.scope import Scope

SIZES: Mapping[str, tuple[int, ...]] = {"batch": (1, 3), "features": (6, 7, 16, 33), "heads": (2, 4)}
"""Sizes of all other axes than lengths, by turns."""
GROUPED = (1, 2)
"""Numbers of key heads, where queries have heads of their own."""
PADDINGS: tuple[Padding, ...] = ("left", "right", "none")
TOKENS = 5
"""Tokens of a call that begins far out."""
DRAWS = 3
"""Calls where every size is fixed: they differ in their numbers alone."""
FIXED = "fixed"
"""The name of such a case."""
LONG = 4096
"""Calls with more tokens have the smallest batch and number of heads."""


def case_of(scope: Scope, lengths: Mapping[str, int], turn: int, *, first: int = 0, refused: bool = False) -> Case:
    """Return a case of a call.

    Args:
        scope: What the plan is made for.
        lengths: The length of each axis of lengths; each is changed to the nearest one that its axis allows.
        turn: The number of the case among similar ones, which selects the other sizes, the padding and the draw.
        first: Where its positions begin.
        refused: Whether the call must be refused.
    """
    sizes = {
        axis.name: axis.allowed(lengths[axis.name], None if refused else max(lengths[axis.name], scope.max_length))
        for axis in scope.lengths
    }
    longest = max(sizes.values(), default=1)
    sizes = {
        axis.name: sizes[axis.name] if axis.name in sizes else _size(scope, axis, longest, turn) for axis in scope.axes
    }
    grid = [axis for axis in scope.lengths if axis.kind == "grid"]
    if len(grid) > 1 and not refused:  # one long side: places are the product of all sides
        for more in range(1, len(grid)):
            short = grid[(turn + more) % len(grid)]
            few = 7 if more == 1 else 2
            sizes[short.name] = min(short.allowed(1 + turn % few), sizes[short.name])
    first = first if scope.offset is None else scope.offset
    tag = "-".join(f"{name}{n}" for name, n in sizes.items()) or (f"{FIXED}-draw{turn + 1}" if turn else FIXED)
    padding: Padding = "left"
    if scope.masks:
        padding = "none" if refused else PADDINGS[turn % len(PADDINGS)]
        tag += f"-padded-{padding}"
    name = tag + (f"-at{first}" if first else "") + ("-refused" if refused else "")
    axes = [axis for port in scope.encoding.inputs for axis in port.dynamic.values() if axis.is_length]
    length = max((axis.size_in(sizes) for axis in axes), default=scope.fixed_tokens)
    return Case(name, sizes, first, max(0, first) + length - 1, refused, padding, draw=turn)


def _size(scope: Scope, axis: Axis, length: int, turn: int) -> int:
    """Return a size of an axis that is not a length; a second axis of heads, of grouped keys, has fewer."""
    of_kind = [candidate.name for candidate in scope.axes if candidate.kind == axis.kind]
    grouped = axis.kind == "heads" and of_kind.index(axis.name) > 0
    choices = GROUPED if grouped else SIZES[axis.kind]
    return axis.allowed(choices[0 if length > LONG else turn % len(choices)])
