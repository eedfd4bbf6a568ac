"""Sizes to trace with, and how many elements the arrays of a call have."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from posenc.ports import Axis, Port, axes_of
from posenc_export.common.errors import BadInput

WISHES = {"batch": 3, "features": 10, "heads": 5}
"""The sizes to trace with that are tried first; 11 for lengths."""


def trace_sizes(ports: Sequence[Port], taken: set[int], end: int) -> dict[str, int]:
    """Choose sizes to trace with: at least 2, pairwise distinct, unlike any fixed size and any sum of axes.

    Args:
        ports: The inputs.
        taken: Sizes that must not be chosen.
        end: The largest length.
    """
    taken = taken | {axis.size for port in ports for axis in port.axes if axis.size is not None}
    sizes: dict[str, int] = {}
    end = end // most_terms(ports)
    for axis in axes_of(ports):
        wish = WISHES.get(axis.kind, 11)
        largest = end if axis.is_length else 10**9
        sizes[axis.name] = _free_size(axis, wish, largest, {*taken, *sizes.values(), *_sums(ports, sizes)})
    return sizes


def _free_size(axis: Axis, wish: int, largest: int, taken: set[int]) -> int:
    largest = min(largest, axis.most or largest)
    candidates = [axis.allowed(n, largest) for n in (*range(wish, wish + 64 * axis.multiple), *range(2, wish))]
    fits = [n for n in candidates if 2 <= n <= largest]
    free = [n for n in fits if n not in taken]
    several = [n for n in free if n >= 2 * axis.multiple]  # torch.export would fix a size of one multiple
    return (several or free or fits or [axis.allowed(min(wish, max(largest, 1)))])[0]


def _sums(ports: Sequence[Port], sizes: Mapping[str, int]) -> set[int]:
    axes = [axis for port in ports for axis in port.dynamic.values()]
    return {axis.size_in(sizes) for axis in axes if set(axis.names) <= sizes.keys()}


def long_sizes(ports: tuple[Port, ...], trace: Mapping[str, int], max_len: int) -> dict[str, int]:
    """Return sizes to trace with whose lengths are distinct and near the largest; none where inputs would be huge."""
    end, sizes = max_len // most_terms(ports), dict(trace)
    for i, axis in enumerate(axis for axis in axes_of(ports) if axis.is_length):
        largest = min(end, axis.most or end)
        sizes[axis.name] = axis.allowed(max(2, largest - i * axis.multiple), largest)
    return sizes if elements(ports, sizes) <= HUGE else {}


HUGE = 2**24
"""The largest input to trace with, in elements."""


def other_sizes(ports: tuple[Port, ...], sizes: Mapping[str, int], max_len: int) -> dict[str, int]:
    """Return other sizes than the traced ones, by unlike differences; raise BadInput where an axis has only one."""
    changed = {}
    for i, axis in enumerate(axes_of(ports)):
        size, largest = sizes[axis.name], min(max_len, axis.most or max_len) if axis.is_length else None
        steps = (size + n * axis.multiple for n in (i + 2, 1, -1, -2))
        candidates = [axis.allowed(n, largest) for n in steps if n > 0]
        changed[axis.name] = next((n for n in candidates if n != size), size)
        if changed[axis.name] == size:
            raise BadInput(f"axis {axis.name!r} has no size but {size} up to {max_len}: raise --max-len, or fix it")
    return changed


FEWER, OTHERS = "lower --max-len if it has no more positions", "if it takes others, say which in -i"
"""What to do where a module fails at some sizes."""
FEW = 16
"""A module that fails at a length up to this one needs more tokens; one that fails beyond it may have no more rows."""


def advice(ports: Sequence[Port], sizes: Mapping[str, int]) -> str:
    """Return what to do where a module itself fails at some sizes, or nothing where all lengths are fixed."""
    axes = [axis for axis in axes_of(ports) if axis.is_length]
    words = [f"'{axis.name} % 14' or '{axis.name} >= 28'" for axis in axes if axis.kind == "grid"]
    words = words or [f"'{axis.name}:length >= 4' or '{axis.name} % 8'" for axis in axes]
    if not words:
        return ""
    fewer = "" if max(sizes[axis.name] for axis in axes) <= FEW else f"{FEWER}, or "
    return f"; {fewer}{OTHERS}, as {words[0]}"


def for_whole(text: str) -> str:
    """Return an error's text without advice on -i, which whole models do not take."""
    head, others, _ = text.partition(OTHERS)
    return head.removesuffix(", or ").removesuffix("; ") if others else re.sub(r"; leave .* in -i: .*", "", text)


def most_terms(ports: Sequence[Port]) -> int:
    """Return how many axes the longest sum among axes has; a product of lengths does not count as one."""
    sums = (sum(term in axis.names for term in axis.terms) for port in ports for axis in port.axes)
    return max((1, *sums))


def elements(ports: Sequence[Port], sizes: Mapping[str, int]) -> int:
    """Return the elements of the largest array of a call."""
    # Python integers: a product of sizes may exceed 64 bits
    known = [p for p in ports if all(set(axis.names) <= sizes.keys() for axis in p.dynamic.values())]
    return max((int(np.prod([int(n) for n in port.shape(sizes)], dtype=object)) for port in known), default=0)
