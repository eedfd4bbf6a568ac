"""Where positions begin that a graph counts itself: at 0, elsewhere, or anew behind a past that is not counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from posenc_export.read.errors.by_position import errors_by_position
from posenc_export.read.findings import finding
from posenc_export.read.graph import Graph
from posenc_export.read.inspection import Finding
from posenc_export.read.interpret.budget import Budget
from posenc_export.read.interpret.run import interpret
from posenc_export.read.interpret.sizes import axes_of, default_sizes
from posenc_export.read.recognise.named import Named
from posenc_export.read.values import Position, Run

PAST = 7
"""Tokens of a past that is tried."""
FARTHEST = 16
"""The largest first position that is looked for."""
SAME = 1e-2
"""An error below which rows are those of other positions."""


def start_findings(graph: Graph, run: Run, named: Iterable[Named], budget: Budget) -> Iterator[Finding]:
    """Yield a finding for each encoding whose counted positions begin elsewhere than at 0, or leave a past out.

    Args:
        graph: the graph.
        run: its interpretation at usual sizes, without a past.
        named: its encodings.
        budget: how much another interpretation may cost.
    """
    counted = [entry for entry in named if entry.positions == "range" and entry.form.exact is not None]
    counted = [entry for entry in counted if entry.form.traits.has_rows]
    kinds = set(axes_of(graph).values())
    behind = (
        interpret(graph, default_sizes(graph, {"past": PAST}), budget=budget) if counted and "past" in kinds else None
    )
    for entry in counted:
        start = _start(graph, run, entry, 0)
        if start is None:
            continue
        # rows of padding come first in some tables: their count is an offset, and two of them are fairseq's
        if start == 1:
            words = f"{entry.form.family}: the first token of a call has position {start}, and not 0"
            yield finding("first-position", entry.nodes[0], words)
        later = None if behind is None or behind.stopped is not None else _start(graph, behind, entry, PAST)
        if later is not None and later == start:
            words = f"{entry.form.family}: behind a past of {PAST} tokens positions begin at {later} again"
            yield finding("first-position", entry.nodes[0], words, "error")


def _start(graph: Graph, run: Run, entry: Named, past: int) -> int | None:
    """Return the position of the first row that an encoding has in a call; None where its rows tell none."""
    assert entry.form.exact is not None  # the caller has looked
    arrays = [value.array for name in entry.tensors if isinstance(value := run.values.get(name), Position)]
    kinds, sizes = axes_of(graph), default_sizes(graph, {"past": past})
    lengths = {size for name, size in sizes.items() if kinds[name] == "length"} & {n for a in arrays for n in a.shape}
    if len(lengths) != 1:
        return None
    places = np.arange(lengths.pop())
    for start in range(FARTHEST + past):
        errors = errors_by_position(arrays, entry.form.exact, places + start, SAME)
        if errors is not None and errors.exceeds_from is None:
            return start
    return None
