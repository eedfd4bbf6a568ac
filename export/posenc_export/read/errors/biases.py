"""The errors of biases that grow with the distance: ALiBi's, near and far.

The scores of a million tokens fit into no memory, but a single query has one number a key and head. So the steps from
it to its keys are given anew, LENGTH of them a turn, and the nodes between the steps and the bias are computed again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from posenc.formulas.fitting import Form
from posenc_export.read.errors.by_position import Exact, Floats
from posenc_export.read.errors.far_rows import LENGTH, FarRows, counts_of, path_from, rows_from
from posenc_export.read.graph import Graph, Node
from posenc_export.read.interpret.budget import Budget
from posenc_export.read.values import Array, Position, Run

LAST_KEY = "last_key"
"""The form that counts steps from the last key, whose table has the farthest key first."""
BY_KEY = ("key", LAST_KEY)
"""Forms that the place of a key gives alone."""
SUMS = ("Sub", "Add")
"""Operators that make steps of places of queries and of keys."""
OFF = 0.05
"""The share of the largest number near the query that the first errors must not exceed: else it is another bias."""
FAR_ENOUGH = 64
"""Distances of a call that tells how numbers grow."""
STRAIGHT = 1e-6
"""By how much the power of a straight line may be off 1."""
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class BiasErrors:
    """The largest errors of a bias at distances, or at positions of keys, in ascending order.

    Args:
        positions: the distances.
        errors: of each.
        is_late: whether time ran out before the limit.
    """

    positions: Indices
    errors: Floats
    is_late: bool = False


@dataclass(frozen=True)
class _Turns:
    """How a bias is computed again.

    Args:
        rows: computes it, from places that are moved.
        back: -1 where later turns have smaller places, else 1.
        steps: the steps from the query to its keys in a turn, by its first place.
    """

    rows: FarRows
    back: int
    steps: Callable[[int], Indices]


def table_errors(table: Array, form: Form) -> BiasErrors | None:
    """Return the errors of a stored bias of each key (keys, heads); None where it is another one."""
    assert form.exact is not None
    steps = np.arange(len(table)) - (len(table) - 1 if form.name == LAST_KEY else 0)
    errors = _errors(np.moveaxis(table, 0, 1), steps, form.exact)
    places = np.argsort(np.abs(steps), kind="stable")
    return _checked(BiasErrors(np.abs(steps)[places], errors[places]), form.exact)


def call_errors(bias: Array, form: Form) -> BiasErrors | None:
    """Return the errors of the bias of one call (..., queries, keys); None where it is another one."""
    assert form.exact is not None
    numbers = bias.reshape(-1, *bias.shape[-2:])
    queries, keys = numbers.shape[1:]
    # the last query is at the last key
    first = keys - queries
    worst = np.zeros(keys)
    for query in range(queries):
        at = {"key": 0, LAST_KEY: keys - 1}.get(form.name, query + first)
        # a mask leaves out keys behind the query
        seen = np.arange(keys if queries == 1 else query + first + 1)
        steps = seen - at
        np.maximum.at(worst, np.abs(steps), _errors(numbers[:, query, : len(seen)], steps, form.exact))
    return _checked(BiasErrors(np.arange(keys), worst), form.exact)


def worst_of(parts: Sequence[BiasErrors | None]) -> BiasErrors | None:
    """Return the errors of several tensors as far as all of them go; None where those of one are not known."""
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    positions, errors = (np.concatenate([getattr(part, name) for part in known]) for name in ("positions", "errors"))
    last = min(int(part.positions[-1]) for part in known)
    order = np.argsort(positions, kind="stable")
    order = order[positions[order] <= last]
    return BiasErrors(positions[order], errors[order], any(part.is_late for part in known))


@dataclass(frozen=True)
class Bias:
    """A computed bias.

    Args:
        graph: that computes it.
        run: the interpretation of the graph at usual sizes.
        at_length: the same at LENGTH places.
        target: the tensor of the bias.
        form: what it was recognised as.
        budget: how much a turn may cost.
    """

    graph: Graph
    run: Run
    at_length: Run
    target: str
    form: Form
    budget: Budget


def far_bias_errors(bias: Bias, limit: int, deadline: float) -> BiasErrors | None:
    """Return the errors of a computed bias far out; None where its steps are not found, or it is another one.

    Args:
        bias: that is computed again.
        limit: how many distances are tried.
        deadline: when it ends, by `time.monotonic`.
    """
    exact, target = bias.form.exact, bias.target
    assert exact is not None
    turns = _by_keys(bias) or _by_steps(bias)
    if turns is None:
        return None
    positions: list[Indices] = []
    errors: list[Floats] = []
    is_late = False
    for first in range(0, limit, LENGTH):
        is_late = time.monotonic() >= deadline
        found = None if is_late else turns.rows.at(turns.back * first)
        if found is None or found[target].shape[-1] != LENGTH:
            break
        steps = turns.steps(first)
        off = _errors(found[target].reshape(-1, LENGTH), steps, exact)
        order = np.argsort(np.abs(steps), kind="stable")
        kept = np.abs(steps)[order] < limit
        positions.append(np.abs(steps)[order][kept])
        errors.append(off[order][kept])
    if not errors:
        return None
    return _checked(BiasErrors(np.concatenate(positions), np.concatenate(errors), is_late), exact)


def _errors(numbers: Array, steps: Indices, exact: Exact) -> Floats:
    """Return the largest error of the heads at each key.

    Args:
        numbers: (heads, keys); a batch may repeat the heads.
        steps: of each key.
        exact: (keys,) -> (keys, heads), in float64.
    """
    expected = exact(steps).T
    if len(numbers) % len(expected):
        return np.full(len(steps), np.inf)
    with np.errstate(invalid="ignore"):
        off = np.abs(numbers.astype(np.float64) - np.tile(expected, (len(numbers) // len(expected), 1)))
    return np.asarray(np.where(np.isnan(off), np.inf, off).max(axis=0), np.float64)


def _checked(found: BiasErrors, exact: Exact) -> BiasErrors | None:
    """Return errors unless the first ones are those of another bias than the one that was recognised."""
    first = slice(0, max(2, len(found.positions) // 64))
    largest = float(np.abs(exact(found.positions[first])).max())
    return None if np.median(found.errors[first]) > OFF * (1 + largest) else found


def _by_keys(bias: Bias) -> _Turns | None:
    """Return the turns of a bias that the place of a key gives alone."""
    value = bias.at_length.values.get(bias.target)
    is_last = bias.form.name == LAST_KEY
    if bias.form.name not in BY_KEY:
        return None
    if not isinstance(value, Position) or value.array.shape[-1:] != (LENGTH,):
        return None
    counts = counts_of(path_from(bias.graph, [bias.target]), bias.at_length, last=is_last)
    rows = rows_from(bias.graph, bias.at_length, [bias.target], counts, bias.budget)
    if rows is None:
        return None
    if is_last:
        return _Turns(rows, -1, partial(_places, -1, LENGTH - 1))
    return _Turns(rows, 1, partial(_places, 1, 0))


def _places(back: int, last: int, first: int) -> Indices:
    """Return the steps of a turn: from its first place on, or up to its last one."""
    return np.arange(LENGTH) + back * first - last


def _by_steps(bias: Bias) -> _Turns | None:
    """Return the turns of a bias that the steps from a query to keys give: a node makes them of the places of both."""
    if bias.form.name in BY_KEY:
        return None
    for node in path_from(bias.graph, [bias.target]):
        takes_two = node.op_type in SUMS and len(node.inputs) == 2
        pair = [side for name in node.inputs if takes_two and (side := _side(bias.run, name)) is not None]
        if len(pair) == 2 and {side.axis for side in pair} == {-1, -2}:
            return _turns_from(bias, node, pair)
    return None


@dataclass(frozen=True)
class _Side:
    """Places that are counted along one axis: those of queries, or of keys.

    Args:
        axis: from the end, -1 or -2.
        array: the places.
    """

    axis: int
    array: Array

    @property
    def step(self) -> int:
        """1 where places are counted up, -1 where they are counted down."""
        first, second = self.array.reshape(-1)[:2].astype(np.int64)
        return int(second - first)

    def filled(self, places: Indices) -> Array:
        """Return other places along the same axis."""
        shape = [1] * self.array.ndim
        shape[self.axis] = len(places)
        return np.asarray(places.reshape(shape), self.array.dtype)


def _side(run: Run, name: str) -> _Side | None:
    """Return a tensor that counts places along its last axis, or the one before, up or down; None for all else."""
    value = run.values.get(name)
    if not isinstance(value, Position) or value.array.dtype.kind not in "iuf":
        return None
    several = [axis - value.array.ndim for axis, size in enumerate(value.array.shape) if size > 1]
    if several not in ([-1], [-2]):
        return None
    steps = np.diff(value.array.reshape(-1).astype(np.float64))
    return _Side(several[0], value.array) if (np.abs(steps) == 1).all() and (steps == steps[0]).all() else None


def _turns_from(bias: Bias, node: Node, sides: Sequence[_Side]) -> _Turns | None:
    """Return the turns of a bias whose steps a node makes: of one query, the first, and keys ever farther back."""
    names = tuple(f"{name} of a turn" for name in node.inputs)
    keys = next(place for place, side in enumerate(sides) if side.axis == -1)
    query = int(sides[1 - keys].array.reshape(-1)[0])
    # a key at the query's own place makes a step of 0
    first = -query if node.op_type == "Add" else query
    places = [np.array([query]), np.array([query])]
    places[keys] = first - sides[keys].step * np.arange(LENGTH)
    arrays = [side.filled(numbers) for side, numbers in zip(sides, places, strict=True)]
    values = {**bias.run.values, **{name: Position(array) for name, array in zip(names, arrays, strict=True)}}
    path = (replace(node, inputs=names), *_behind(bias.graph, node, bias.target))
    graph = replace(bias.graph, nodes=path, constants={})
    rows = FarRows(graph, replace(bias.run, values=values), {names[keys]: 1}, (bias.target,), bias.budget)
    return _Turns(rows, -sides[keys].step, _behind_query)


def _behind_query(first: int) -> Indices:
    """Return the steps of a turn, from the query to keys ever farther back."""
    return -(first + np.arange(LENGTH))


def _behind(graph: Graph, node: Node, target: str) -> Iterator[Node]:
    """Yield the nodes behind a node that lead from it to a tensor, in order."""
    reached = set(node.outputs)
    for other in path_from(graph, [target]):
        if other.name != node.name and reached & set(other.inputs):
            reached.update(other.outputs)
            yield other


def growth(exact: Exact, last: int) -> tuple[float, float]:
    """Return the largest number of the first step, and the power of the distance by which numbers grow, at least 1."""
    first, far = (np.abs(exact(np.array([step], np.int64))).reshape(-1) for step in (1, last))
    known = first > 0
    if last < FAR_ENOUGH or not known.any():
        return float(first.max()), 1.0
    power = float(np.max(np.log(np.maximum(far[known] / first[known], 1))) / np.log(last))
    # a straight line is one however it is rounded
    return float(first.max()), power if power > 1 + STRAIGHT else 1.0
