"""Calls of a graph beside the first one: longer ones, and such that are given positions far out, each made once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from posenc_export.read.errors.far_rows import LENGTH
from posenc_export.read.graph import Graph
from posenc_export.read.interpret.budget import Budget
from posenc_export.read.interpret.roles import Role, roles_of
from posenc_export.read.interpret.run import interpret
from posenc_export.read.interpret.sizes import default_sizes
from posenc_export.read.values import Array, Position, Run

FAR = 2**17
"""Positions at which rows are computed: those below this number, unless more are asked for."""
FED = 509
"""How many positions are given to such a file: a prime, unlike sizes of tensors."""
COUNTED = 2039
"""The length at which a file is read that counts positions itself."""
STEPS = 997
"""Steps of time that are given to a file that takes them: models of diffusion are trained with 1000."""
MASKS = 1 << 24
"""Bytes of a value that is still computed at these lengths: masks of all pairs of tokens are not."""
LARGEST = 1 << 27
"""Bytes of a value in a whole call that is read to see whether a wrong position is one."""
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Calls:
    """Interpretations of a graph, each made when it is asked for.

    Args:
        graph: the graph.
        run: its interpretation at usual sizes.
        budget: how much another interpretation may cost.
    """

    graph: Graph
    run: Run
    budget: Budget

    def in_a_whole_call(self, length: int, targets: Sequence[str]) -> dict[str, Array] | None:
        """Return the rows of a call of a length that is read as it is; None where it is too long to be read."""
        sizes = default_sizes(self.graph, {"length": length})
        run = interpret(self.graph, sizes, {}, replace(self.budget, value_bytes=LARGEST))
        rows = {name: value.array for name in targets if isinstance(value := run.values.get(name), Position)}
        return rows if len(rows) == len(targets) else None

    @cached_property
    def at_length(self) -> Run:
        """The graph at the length of a turn of rows far out."""
        return self.interpreted(default_sizes(self.graph, {"length": LENGTH}), {})

    def positions(self, source: str) -> tuple[Indices, Run]:
        """Return the positions that the graph is read at, by where they come from, and its interpretation there."""
        role = roles_of(self.graph).get(source)
        if role == "step":
            return np.arange(STEPS), self.stepped
        return (np.arange(COUNTED), self.counted) if role is None else (self.far_positions, self.far_out)

    @property
    def far_positions(self) -> Indices:
        """Return positions from 0 to the largest, denser at the beginning."""
        steps = np.geomspace(1, FAR, FED) - 1
        # as many as there are steps: equal ones move on
        return np.maximum.accumulate(np.maximum(steps.astype(np.int64), np.arange(FED)))

    @cached_property
    def far_out(self) -> Run:
        """The graph at positions far out."""
        return self.fed("places", self.far_positions, {"length": FED})

    @cached_property
    def stepped(self) -> Run:
        """The graph at steps of time, one a sample."""
        return self.fed("step", np.arange(STEPS), {"batch": STEPS})

    @cached_property
    def counted(self) -> Run:
        """The graph at a length of its own count of positions."""
        return self.interpreted(default_sizes(self.graph, {"length": COUNTED}), {})

    def interpreted(self, sizes: Mapping[str, int], feeds: Mapping[str, Array]) -> Run:
        """Return the graph at sizes of axes, with inputs that are given."""
        return interpret(self.graph, sizes, feeds, replace(self.budget, value_bytes=MASKS))

    def fed(self, role: Role, numbers: Array, sizes: Mapping[str, int]) -> Run:
        """Return the graph at numbers that are given to each input of a role, along its last axis."""
        feeds: dict[str, Array] = {}
        for name, known in roles_of(self.graph).items():
            value = self.run.values.get(name)
            if known == role and isinstance(value, Position) and value.array.ndim:
                shape = (*value.array.shape[:-1], len(numbers))
                feeds[name] = np.broadcast_to(numbers, shape).astype(value.array.dtype)
        return self.interpreted(default_sizes(self.graph, sizes), feeds)
