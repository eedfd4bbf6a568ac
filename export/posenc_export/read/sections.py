"""Rotary pairs of tokens with several positions, as time, height and width: which pair turns by which of them.

All positions of a token are the same where a graph is read first. Here each of them is a few further on than the one
before it, and the columns of cosines and sines move by as much: each says which position it goes by.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from posenc.formulas.fitting import Form, Parameter
from posenc.formulas.mrope import sections_of
from posenc.formulas.rope import of_heads
from posenc_export.read.coordinates import AXIS, of_sections
from posenc_export.read.graph import Graph, Input
from posenc_export.read.interpret.budget import Budget
from posenc_export.read.interpret.feeds import counted
from posenc_export.read.interpret.roles import roles_of, rows_axis
from posenc_export.read.interpret.run import interpret
from posenc_export.read.recognise.named import Named
from posenc_export.read.values import Position, Run

Floats = NDArray[np.float64]
OFF = 0.02
"""How far a column may be from the one that it goes by."""
SCALED = ("default", "mrope")


def sectioned(graph: Graph, run: Run, named: list[Named], budget: Budget) -> list[Named]:
    """Return encodings, those of several positions a token with the sections of each.

    Args:
        graph: the graph.
        run: its interpretation at usual sizes, where all positions of a token are alike.
        named: the encodings there.
        budget: how much another interpretation may cost.
    """
    roles = roles_of(graph)
    several = {item.name: item for item in graph.inputs if roles[item.name] == "places" and rows_axis(item) is not None}
    several = {name: item for name, item in several.items() if isinstance(run.values.get(name), Position)}
    if not several or not any(entry.form.traits.is_turned for entry in named):
        return named
    apart = {name: _apart(item, _shape(run, name)) for name, item in several.items()}
    if not all(apart.values()):
        return named
    sizes = {str(size): length for item in graph.inputs for size, length in _sizes(item, run)}
    feeds = {name: counted(item, _shape(run, name), 0, apart[name]) for name, item in several.items()}
    # where a cache is before them, positions begin behind it
    feeds = {name: numbers + int(_first(run, name)) for name, numbers in feeds.items()}
    moved = interpret(graph, sizes, feeds, budget)
    found = []
    for entry in named:
        item = several.get(entry.positions)
        if entry.form.traits.is_turned and item is not None:
            shape = _shape(run, item.name)
            axis = rows_axis(item)
            rows = _rows(run, moved, entry, apart[item.name], shape[axis or 0])
            found.append(entry if rows is None else replace(entry, form=_form(entry.form, rows)))
        else:
            found.append(entry)
    return found


def _shape(run: Run, name: str) -> tuple[int, ...]:
    value = run.values[name]
    assert isinstance(value, Position)
    return value.array.shape


def _first(run: Run, name: str) -> int:
    value = run.values[name]
    assert isinstance(value, Position)
    return int(value.array.min())


def _sizes(item: Input, run: Run) -> Iterator[tuple[str, int]]:
    value = run.values.get(item.name)
    shape = value.array.shape if isinstance(value, Position) else getattr(value, "shape", ())
    yield from ((size, length) for size, length in zip(item.shape, shape, strict=False) if isinstance(size, str))


def _apart(item: Input, shape: tuple[int, ...]) -> int:
    """Return by how much the positions of a token can differ, so that the first ones of all are seen; 0 for too few."""
    rows = rows_axis(item)
    assert rows is not None
    tokens = shape[len(shape) - (2 if rows == len(shape) - 1 else 1)]
    return (tokens - 1) // shape[rows]


def _rows(run: Run, moved: Run, entry: Named, apart: int, count: int) -> tuple[int, ...] | None:
    """Return of each pair the number of the position that it turns by; None where columns say none."""
    tables = [(_table(run, name), _table(moved, name)) for name in entry.tensors[:2]]
    width = entry.form.parameters.get("rotary_dim")
    if len(tables) < 2 or not isinstance(width, int):
        return None
    off = np.zeros((count, 0))
    for before, after in tables:
        if before is None or after is None or before.shape != after.shape or len(before) <= apart * (count - 1):
            return None
        seen = len(before) - apart * (count - 1)
        apart_by = [np.abs(after[:seen] - before[apart * row : apart * row + seen]).max(0) for row in range(count)]
        off = np.stack(apart_by) + (off if off.size else 0)
    if off.min(0).max() > OFF:
        return None
    rows = off.argmin(0)
    pairs = width // 2
    if len(rows) == 2 * pairs:
        first, second = (rows[0::2], rows[1::2])
        if entry.form.parameters.get("layout") != "interleaved":
            first, second = rows[:pairs], rows[pairs:]
        if not np.array_equal(first, second):
            return None
        rows = first
    return tuple(int(row) for row in rows) if len(rows) == pairs else None


def _table(run: Run, name: str) -> Floats | None:
    """Return cosines or sines as (tokens, columns)."""
    value = run.values.get(name)
    if not isinstance(value, Position):
        return None
    array = np.squeeze(value.array.astype(np.float64))
    return array if array.ndim == 2 and np.isfinite(array).all() else None


def _form(form: Form, rows: tuple[int, ...]) -> Form:
    """Return a form with its sections, or the scheme of its places; as it is where whole heads turn by one position."""
    if len(set(rows)) == 1:
        if form.parameters.get("head_dim") == form.parameters.get("rotary_dim"):
            return form
        # other features of the head turn by other coordinates, in sums of their own
        return replace(form, parameters={**form.parameters, AXIS: rows[0]}, scheme="", typed={})
    of_places = of_sections(form, rows)
    if of_places is not None:
        return of_places
    placed = {name: value for name, value in form.parameters.items() if name != "rope_type"}
    parameters: dict[str, Parameter] = {**placed, **sections_of(rows)}
    if form.name not in SCALED:
        parameters["rope_type"] = form.name
    name = "mrope" if form.name != "unknown frequencies" else form.name
    if name == form.name:
        parameters.pop("rope_type")
    return of_heads(replace(form, name=name, parameters=parameters), {})
