"""One call of a plan: lengths as the axes allow them, the other sizes by turns."""

from __future__ import annotations

from collections.abc import Mapping

from posenc.ports import Axis
from posenc_export.bundle.case import Case, Padding
from posenc_export.validation.planning.scope import Scope

SIZES: Mapping[str, tuple[int, ...]] = {"batch": (1, 3), "features": (6, 7, 16, 33), "heads": (2, 4)}
"""Sizes of the axes that are no lengths, by turns."""
GROUPED = (1, 2)
"""Heads of keys, where those of queries are others."""
PADDINGS: tuple[Padding, ...] = ("left", "right", "none")
TOKENS = 5
"""Tokens of a call that begins at a position far out."""
DRAWS = 3
"""Calls of one size, each with other numbers, where every size is fixed."""
FIXED = "fixed"
"""What those are called."""
FAR = 4096
"""Calls longer than this have one sequence."""


def case_of(scope: Scope, lengths: Mapping[str, int], turn: int, *, first: int = 0, refused: bool = False) -> Case:
    """Return a case with these lengths, as the axes allow them; the other sizes are taken by turns."""
    sizes = {
        axis.name: axis.allowed(lengths[axis.name], None if refused else max(lengths[axis.name], scope.max_length))
        for axis in scope.lengths
    }
    sizes = {
        axis.name: sizes.get(axis.name) or _size(scope, axis, max(sizes.values(), default=1), turn)
        for axis in scope.axes
    }
    grid = [axis for axis in scope.lengths if axis.kind == "grid"]
    if len(grid) > 1 and not refused:
        for more in range(1, len(grid)):
            short = grid[(turn + more) % len(grid)]
            few = 7 if more == 1 else 2  # places grow with every axis
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
    """Return a size of an axis that is no length; a second axis of heads has less of them, as grouped keys do."""
    alike = [other.name for other in scope.axes if other.kind == axis.kind]
    grouped = axis.kind == "heads" and alike.index(axis.name) > 0
    choices = GROUPED if grouped else SIZES[axis.kind]
    return axis.allowed(choices[0 if length > FAR else turn % len(choices)])
