"""A graph interpreted at sizes of a caller's choice: `interpret`."""

from __future__ import annotations

from collections.abc import Mapping

from posenc_export.read.graph import Graph
from posenc_export.read.interpret.budget import Budget, Stopped
from posenc_export.read.interpret.control import walk
from posenc_export.read.interpret.feeds import input_values
from posenc_export.read.interpret.roles import roles_of
from posenc_export.read.interpret.sizes import default_sizes
from posenc_export.read.interpret.state import State
from posenc_export.read.values import Array, Run, Value


def interpret(
    graph: Graph,
    sizes: Mapping[str, int] | None = None,
    feeds: Mapping[str, Array] | None = None,
    budget: Budget | None = None,
) -> Run:
    """Return what each tensor of a graph is at given sizes, and where position values meet data.

    Args:
        graph: as `read_graph` has it.
        sizes: of dynamic axes, by name, as `default_sizes` has them; those left out have its numbers.
        feeds: numbers of inputs, by name, in place of those that are made up.
        budget: how much it may cost.
    """
    roles = roles_of(graph)
    every = default_sizes(graph, sizes)
    budget = budget or Budget()
    values: dict[str, Value] = {**input_values(graph, roles, every, feeds or {}, budget.value_bytes)}
    tokens = {name for name, role in roles.items() if role == "tokens"}
    state = State(graph, budget, values, tokens)
    stopped = None
    try:
        walk(state, graph)
    except Stopped as stop:
        stopped = (stop.reason, stop.node)
    return Run(state.values, tuple(state.meetings), state.produced, tuple(state.nodes), stopped)
