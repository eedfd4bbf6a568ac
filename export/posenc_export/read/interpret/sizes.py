"""Sizes of dynamic axes: which kind each is, by its name and its input, and numbers that run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal, cast

from posenc_export.read.graph import Graph, Input
from posenc_export.read.interpret.roles import Role, roles_of, rows_axis

Axis = Literal[
    "batch", "length", "source", "past", "total", "samples", "channels", "height", "width", "three", "single"
]
"""`source` is the length of what an encoder read, `total` a length with its past, `single` an axis of one element."""
NAMED: tuple[tuple[str, Axis], ...] = (
    (r"^(?:b|n|bs|bsz|batch\w*|\w*batch(?:_?size)?)$", "batch"),
    (r"past|cache|mem(?:ory)?_|history|^kv", "past"),
    (r"total", "total"),
    (r"(?:^|_)enc(?:oder)?_|(?:^|_)enc\w*(?:seq|len)|source|src", "source"),
    (r"seq|len|token|frame|^[tsl]$|^time|^dynamic_axes_1$", "length"),
    (r"sample", "samples"),
    (r"chan", "channels"),
    (r"height|^h$|rows?$", "height"),
    (r"width|^w$|cols?$|columns?$", "width"),
)
"""What names of axes say; the first that fits holds."""
PLACES: Mapping[Role, tuple[tuple[Axis, ...], ...]] = {
    "tokens": (("length",), ("batch", "length"), ("batch", "length", "three")),
    "places": (("length",), ("batch", "length"), ("three", "batch", "length")),
    "types": (("batch",), ("batch", "length"), ("batch", "length", "three")),
    "mask": (("total",), ("batch", "total"), ("batch", "length", "total"), ("batch", "single", "length", "total")),
    "bias": (("total",), ("batch", "total"), ("batch", "length", "total"), ("batch", "single", "length", "total")),
    "past": (("batch",), ("batch", "past"), ("batch", "past", "three"), ("batch", "three", "past", "three")),
    "audio": (("samples",), ("batch", "samples")),
    "data": (("batch",), ("batch", "length"), ("batch", "length", "length"), ("batch", "channels", "height", "width")),
}
"""What the axes of an input are for where their names say nothing, by its rank."""
FIXED: Mapping[Axis, int] = {
    "batch": 1,
    "past": 0,
    "samples": 4001,
    "channels": 3,
    "height": 64,
    "width": 96,
    "three": 3,
    "single": 1,
}
LENGTHS = (13, 17, 19, 23, 29, 31, 37, 41, 43, 47)
"""Primes for lengths: unlike the sizes of weights."""


def axis_name(item: Input, axis: int) -> str:
    """Return the name of a dynamic axis: that in the file, or one made of the input's."""
    size = item.shape[axis]
    return size if isinstance(size, str) else f"{item.name}[{axis}]"


def default_sizes(graph: Graph, changed: Mapping[str, int] | None = None) -> dict[str, int]:
    """Return a size for each dynamic axis, by its name.

    Args:
        graph: as `read_graph` has it.
        changed: sizes to have instead; names of kinds stand for all axes of the kind, and totals follow from their
            parts unless they are named.
    """
    changed, kinds = changed or {}, axes_of(graph)
    length, source = _unlike(graph)
    by_kind: dict[str, int] = {**dict(FIXED.items()), "length": length, "source": source}
    # a caller may give a kind of axis, in place of names
    by_kind.update((name, size) for name, size in changed.items() if name in by_kind)
    parts_of_total = [_first(kinds, changed, kind, by_kind) for kind in ("length", "past")]
    by_kind["total"] = changed.get("total", sum(parts_of_total))
    sizes = {name: changed.get(name, by_kind[kind]) for name, kind in kinds.items()}
    for name in sizes:
        parts = _terms(name)
        if name not in changed and len(parts) > 1:
            sizes[name] = sum(int(part) if part.isdigit() else sizes.get(part, by_kind[_kind(part)]) for part in parts)
    return sizes


def lengths(graph: Graph) -> tuple[str, ...]:
    """Return the names of the axes that are the length, and no sum with a past."""
    return tuple(name for name, kind in axes_of(graph).items() if kind == "length" and len(_terms(name)) == 1)


def axes_of(graph: Graph) -> dict[str, Axis]:
    """Return the kind of each dynamic axis, by its name; what an earlier input says of a name holds."""
    roles, kinds = roles_of(graph), dict[str, Axis]()
    cached = any(role == "past" for role in roles.values())
    # tokens and positions know which axis is the length: others share its name
    for item in sorted(graph.inputs, key=lambda item: roles[item.name] not in ("tokens", "places")):
        for axis, size in enumerate(item.shape):
            if not isinstance(size, int):
                kind = _of_axis(item, axis, roles[item.name])
                kinds.setdefault(axis_name(item, axis), "length" if kind == "total" and not cached else kind)
    return {name: cast(Axis, graph.kinds.get(name, kind)) for name, kind in kinds.items()}


def tokens_first(graph: Graph) -> dict[str, Axis]:
    """Return the kinds of two axes of data whose names say nothing, with the length before the batch; else nothing."""
    roles = roles_of(graph)
    for item in graph.inputs:
        first = [size for size in item.shape[:2] if isinstance(size, str) and not _named(size) and size.lower() != "n"]
        if roles[item.name] == "data" and len(item.shape) == 3 and len(set(first)) == 2:
            return {first[0]: "length", first[1]: "batch"}
    return {}


def _of_axis(item: Input, axis: int, role: Role) -> Axis:
    """Return the kind of an axis: its name says it, or the place that it has in its input."""
    size, rank = item.shape[axis], len(item.shape)
    # people call the number of tokens n, too, behind the axis of a batch
    if axis > 0 and isinstance(size, str) and size.lower() == "n":
        return "length"
    if isinstance(size, str) and (len(_terms(size)) > 1 or _named(size)):
        return "total" if len(_terms(size)) > 1 else _kind(size)
    # an image whose colours come last has three axes
    if role == "data" and rank == 3 and axis == 1 and isinstance(item.shape[2], int) and item.shape[2] == 3:
        return "height"
    if role == "places" and (rows := rows_axis(item)) is not None:
        return "length" if axis == max(other for other in range(rank) if other != rows) else "batch"
    places = PLACES.get(role, ())
    if 0 < rank <= len(places):
        return places[rank - 1][axis]
    return "batch" if axis == 0 else "length"


def _named(size: str) -> bool:
    return any(re.search(pattern, size.lower()) for pattern, _ in NAMED)


def _kind(size: str) -> Axis:
    return next((kind for pattern, kind in NAMED if re.search(pattern, size.lower())), "length")


def _terms(name: str) -> list[str]:
    """Return the terms of a sum, as exporters name axes: 'past_sequence_length + sequence_length'."""
    parts = [part.strip() for part in name.split("+")]
    return parts if all(re.fullmatch(r"\w+", part) for part in parts) else [name]


def _first(kinds: Mapping[str, Axis], changed: Mapping[str, int], kind: str, by_kind: Mapping[str, int]) -> int:
    """Return the size of a kind: that of an axis of the kind which a caller changed, else the kind's own."""
    return next((changed[name] for name, own in kinds.items() if own == kind and name in changed), by_kind[kind])


def _unlike(graph: Graph) -> tuple[int, int]:
    """Return two primes that are the size of nothing in the file."""
    used = set(_static(graph))
    free = [size for size in LENGTHS if size not in used]
    return (free[0], free[1]) if len(free) > 1 else LENGTHS[:2]


def _static(graph: Graph) -> Iterator[int]:
    yield from (size for value in graph.constants.values() for size in value.shape)
    yield from (size for item in graph.inputs for size in item.shape if isinstance(size, int))
