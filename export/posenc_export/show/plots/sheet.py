"""The heat maps of a call: the axes of its outputs that are drawn, chosen by kind, and their labels.

queries x keys, or a grid              a map for each of some heads, or of some features
positions, a grid of three axes, ...   a map of places x features, or x heads; several outputs side by side
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from posenc.encoding import NoTables
from posenc.ports import Axis, Floats, Integers, Port, Positions, carrying
from posenc_export.show.plots.encodings import DrawnCall, has_distances

MAPS = 8
"""The largest number of maps: of heads, or of features."""
FLAT = 2
"""Places along two axes fill the two sides of a map."""
LAYOUTS = {
    "interleaved": "dimension: even ones are sines, odd ones cosines",
    "halves": "dimension: 0 to {} are sines, {} to {} cosines",
}


@dataclass(frozen=True)
class Panel:
    """One heat map: values (rows, columns), and its title."""

    values: Floats
    title: str = ""


@dataclass(frozen=True)
class Sheet:
    """Heat maps of the same shape, side by side.

    down, across: labels of the sides. ends: the numbers of the first row and of the last. amount: the size in words.

    Args:
        splits: columns at which another output begins.
        square: whether rows and columns are of one kind.
    """

    panels: tuple[Panel, ...]
    down: str
    across: str
    ends: tuple[float, float]
    amount: str
    splits: tuple[int, ...] = ()
    square: bool = False


def sheet_of(call: DrawnCall) -> Sheet:
    """Return the heat maps of a call."""
    places = places_of(call.outputs[0][0])
    return _maps(call, places) if len(places) == FLAT else _rows(call, places)


def places_of(port: Port) -> tuple[int, ...]:
    """Return the axes of lengths and grids; without them the axis of the batch, along which numbers run."""
    return tuple(port.lengths) or tuple(i for i, axis in enumerate(port.axes) if axis.kind == "batch")[:1]


# ---- maps of two axes of places --------------------------------------------------------------------------------------


def _maps(call: DrawnCall, places: tuple[int, ...]) -> Sheet:
    outputs = [(port, array) for port, array in call.outputs if places_of(port) == places]
    panels = tuple(panel for port, array in outputs for panel in _panels(port, array, MAPS // len(outputs) or 1))
    port, _ = outputs[0]
    down, across = (_side(port.axes[i], word) for i, word in zip(places, ("query", "key"), strict=True))
    rows, columns = panels[0].values.shape
    return Sheet(panels, down, across, (0, rows - 1), f"{down} {rows} x {across} {columns}", square=True)


def _side(axis: Axis, word: str) -> str:
    """Return the label of a side: the name of a grid's axis, else "query" or "key"."""
    return axis.name or "place" if axis.kind == "grid" else word


def _panels(port: Port, array: Floats, max_maps: int) -> Iterator[Panel]:
    """Yield the maps of an output: of some heads, or else of some features, if these differ."""
    firsts = {i: 0 for i in range(array.ndim) if i not in places_of(port)}
    along = _differs_along(port, array)
    if along is None:
        yield Panel(_picked(array, firsts))
        return
    word = "head" if port.axes[along].kind == "heads" else "feature"
    for i in spaced(array.shape[along], max_maps):
        yield Panel(_picked(array, {**firsts, along: int(i)}), f"{word} {i}")


def _differs_along(port: Port, array: Floats) -> int | None:
    """Return the axis of heads, or else of features, along which an output differs; None where there is none."""
    kinds = ("heads", "features")
    axes = sorted((i for i, a in enumerate(port.axes) if a.kind in kinds), key=lambda i: kinds.index(port.axes[i].kind))
    return next((i for i in axes if array.shape[i] > 1 and (array != array.take([0], i)).any()), None)


def _picked(array: Floats, at: dict[int, int]) -> Floats:
    """Return an array at the indices `at`, by axis; the other axes stay."""
    return array[tuple(at.get(i, slice(None)) for i in range(array.ndim))]


def spaced(count: int, max_count: int) -> Integers:
    """Return at most max_count indices below count, from the first to the last."""
    return np.unique(np.linspace(0, count - 1, min(count, max_count)).astype(np.int64))


# ---- rows of features ------------------------------------------------------------------------------------------------


def _rows(call: DrawnCall, places: tuple[int, ...]) -> Sheet:
    outputs = [(port, array) for port, array in call.outputs if places_of(port) == places]
    tables = [_table(port, array) for port, array in outputs]
    # outputs side by side: (places, columns of all outputs)
    values = np.concatenate(tables, -1)
    splits = tuple(int(n) for n in np.cumsum([table.shape[1] for table in tables])[:-1])
    numbers = call.argument
    ends = (0.0, len(values) - 1.0) if numbers is None else (float(numbers[1][0]), float(numbers[1][-1]))
    across = _columns(call, outputs, [table.shape[1] for table in tables])
    down = _down(call, places)
    word = "values" if numbers else "positions" if down.startswith("position") else "rows"
    return Sheet((Panel(values),), down, across, ends, f"{len(values):,} {word}", splits)


def _table(port: Port, array: Floats) -> Floats:
    """Return (places, features), or (places, heads) where there are no features."""
    axes = [*places_of(port), *_across(port)]
    picked = _picked(array, {i: 0 for i in range(array.ndim) if i not in axes})
    # (places, ..., features) -> (rows, columns)
    ordered = picked.transpose([sorted(axes).index(i) for i in axes])
    return ordered.reshape(-1, *ordered.shape[-1:] if _across(port) else (1,))


def _across(port: Port) -> list[int]:
    """Return the last axis of features, or else of heads, in a list; an empty one where there is neither."""
    of_kind = ([i for i, axis in enumerate(port.axes) if axis.kind == kind][-1:] for kind in ("features", "heads"))
    return next((axes for axes in of_kind if axes), [])


def _down(call: DrawnCall, places: tuple[int, ...]) -> str:
    """Return the label of the left side: the numbers that are fed, positions (a token may have several), or places."""
    if call.argument is not None:
        port = call.argument[0]
        several = any(axis.kind == "features" and axis.size != 1 for axis in port.axes)
        return f"{port.name}: every coordinate" if several else port.name
    for port in carrying(call.encoding.inputs, Positions):
        count = port.axes[0].size
        return "position" if count is None else f"position p, on each of {count} axes: ({', '.join('p' * count)})"
    if has_distances(call.outputs[0][0], call.encoding):
        return "row, one for each distance"
    axes = [call.outputs[0][0].axes[i] for i in places]
    names = [axis.name for axis in axes if axis.name]
    return "position" if len(names) < len(axes) else " by ".join(names)


def _columns(call: DrawnCall, outputs: list[tuple[Port, Floats]], widths: list[int]) -> str:
    """Return the label of the lower side: the columns of each output, or which columns are sines."""
    port, _ = outputs[0]
    kinds = [port.axes[i].kind for i in _across(port)]
    word = "head" if kinds == ["heads"] else "dimension"
    if len(outputs) > 1:
        firsts = np.cumsum([0, *widths])
        named = zip(outputs, firsts, firsts[1:], strict=False)
        return f"{word} of " + ", then of ".join(f"{port.name} ({a} to {b - 1})" for (port, _), a, b in named)
    return _layout(call, widths[0]) or word


def _layout(call: DrawnCall, width: int) -> str:
    """Return in words which columns are sines, where the tables of the encoding say so."""
    try:
        tables = call.encoding.tables()
    except NoTables:
        return ""
    # a row of odd width has one more sine
    half = (width + 1) // 2
    return LAYOUTS.get(tables.layout or "", "").format(half - 1, half, width - 1) if tables.width == width else ""
