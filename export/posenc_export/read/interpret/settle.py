"""Sizes at which a graph goes through: the usual ones, or others that models are made for."""

from __future__ import annotations

from collections.abc import Mapping

from posenc_export.read.graph import Graph
from posenc_export.read.interpret.budget import Budget
from posenc_export.read.interpret.run import interpret
from posenc_export.read.interpret.sizes import axes_of, default_sizes
from posenc_export.read.values import Run

TRIES: tuple[dict[str, int], ...] = (
    {},
    {"height": 224, "width": 224},
    {"height": 64, "width": 64},
    {"past": 7},
    {"past": 7, "length": 1},
    {"batch": 2},
    {"length": 5},
    {"length": 3},
    {"length": 1},
    {"length": 64},
    {"length": 201},
    {"samples": 401},
    {"samples": 16000},
    {"samples": 512},
    {"height": 512, "width": 512},
)
"""Sizes by kind of axis, the usual ones first."""


def settle(
    graph: Graph, changed: Mapping[str, int] | None = None, budget: Budget | None = None
) -> tuple[dict[str, int], Run]:
    """Return the first sizes at which a graph goes through, and the run; those that came furthest if it never does.

    Args:
        graph: as `read_graph` has it.
        changed: sizes that are not to be tried otherwise, by the name of an axis or of a kind.
        budget: how much each run may cost.
    """
    kinds, furthest = set(axes_of(graph).values()), None
    for sizes_tried in TRIES:
        # sizes of kinds that the graph lacks would only repeat a run
        if not set(sizes_tried) <= kinds:
            continue
        sizes = default_sizes(graph, {**sizes_tried, **(changed or {})})
        run = interpret(graph, sizes, budget=budget)
        if run.stopped is None:
            return sizes, run
        if furthest is None or len(run.nodes) > len(furthest[1].nodes):
            furthest = sizes, run
    assert furthest is not None  # the first of the tries asks for no kind
    return furthest
