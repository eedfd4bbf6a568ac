"""Positions that a mask is said to count: read once more with tokens left out at the left, where counts move."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from posenc_export.read.graph import Graph
from posenc_export.read.interpret.budget import Budget
from posenc_export.read.interpret.run import interpret
from posenc_export.read.recognise.named import Named
from posenc_export.read.values import Array, Position, Run

LEFT_OUT = 3
"""Tokens at the left that the mask leaves out."""


def masked(graph: Graph, run: Run, named: list[Named], budget: Budget) -> list[Named]:
    """Return encodings, those whose positions a mask does not count with positions from "range".

    A graph may multiply its positions by a mask, and count all tokens nevertheless.

    Args:
        graph: the graph.
        run: its interpretation at usual sizes, where masks leave nothing out.
        named: the encodings there.
        budget: how much another interpretation may cost.
    """
    names = {entry.positions.removeprefix("mask ") for entry in named if _may_be_counted(entry)}
    feeds = {name: _left_padded(value.array) for name in names if isinstance(value := run.values.get(name), Position)}
    feeds = {name: mask for name, mask in feeds.items() if mask is not None}
    if not feeds:
        return named
    sizes = {
        size: length
        for item in graph.inputs
        for size, length in zip(item.shape, _shape(run, item.name), strict=False)
        if isinstance(size, str)
    }
    padded = interpret(graph, sizes, {name: mask for name, mask in feeds.items() if mask is not None}, budget)
    return [
        replace(entry, positions="range")
        if _may_be_counted(entry) and any(_stays(run, padded, name) for name in entry.tensors)
        else entry
        for entry in named
    ]


def _may_be_counted(entry: Named) -> bool:
    return entry.form.traits.is_absolute and entry.positions.startswith("mask ")


def _shape(run: Run, name: str) -> tuple[int, ...]:
    value = run.values.get(name)
    return value.array.shape if isinstance(value, Position) else getattr(value, "shape", ())


def _left_padded(mask: Array) -> Array | None:
    """Return a mask that leaves out tokens at the left; None for what is no mask of ones, or has too few tokens."""
    if mask.ndim != 2 or mask.shape[1] < 3 * LEFT_OUT or not (mask == 1).all():
        return None
    padded = mask.copy()
    padded[:, :LEFT_OUT] = 0
    return padded


def _stays(run: Run, padded: Run, name: str) -> bool:
    """Return whether the rows of tokens that are left in are those of before, as if none were left out."""
    values = run.values.get(name), padded.values.get(name)
    if not all(isinstance(value, Position) for value in values):
        return False
    before, after = (np.asarray(value.array) for value in values if isinstance(value, Position))
    if before.shape != after.shape or before.ndim < 2:
        return False
    rows, moved = before.reshape(-1, *before.shape[-2:])[0], after.reshape(-1, *after.shape[-2:])[0]
    return np.array_equal(rows[LEFT_OUT:], moved[LEFT_OUT:]) and not np.array_equal(rows[LEFT_OUT:], rows[:-LEFT_OUT])
