"""Calls of the files before and after: their inputs, and the new file with its tables shaken."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from posenc_export.read.extend.held import Array, half_steps, held
from posenc_export.read.extend.work import Work
from posenc_export.read.interpret.roles import roles_of
from posenc_export.read.interpret.run import interpret
from posenc_export.read.interpret.sizes import default_sizes
from posenc_export.read.values import Data, Position

LENGTHS = (5, 31)
"""Lengths of calls that both files take; the second is shorter where the file ends earlier."""
CALLED = 4096
"""Calls beyond the old end that are longer are not run: attention grows with their square."""
SHAKEN = ".shaken"
"""Ends the name of the new file with shaken tables."""


def write_feeds(work: Work) -> None:
    """Write the inputs of calls that both files take, and of the first one that the old file does not."""
    end, folder = work.searched.end, Path(work.request.scratch)
    last = min(end.last if end else LENGTHS[1], LENGTHS[1])
    for length in {min(LENGTHS[0], last), last}:
        _write(folder / f"feeds-{length}.npz", _feeds(work, length))
    if end is not None and work.request.max_len > end.last and end.last < CALLED:
        _write(folder / f"beyond-{end.last + 1}.npz", _feeds(work, end.last + 1))


def _write(place: Path, feeds: dict[str, Array]) -> None:
    np.savez(place, allow_pickle=False, **feeds)


def _feeds(work: Work, length: int) -> dict[str, Array]:
    """Return numbers for every input at a length: positions and tokens as they were read, data at random."""
    sizes = default_sizes(work.graph, {**_of_heads(work), "length": length, "total": length})
    run, draw = interpret(work.graph, sizes), np.random.default_rng(0)
    feeds: dict[str, Array] = {}
    for entry in work.graph.inputs:
        value = run.values[entry.name]
        if isinstance(value, Position):
            feeds[entry.name] = value.array
        elif isinstance(value, Data):
            feeds[entry.name] = draw.standard_normal(value.shape).astype(value.dtype)
    return feeds


def _of_heads(work: Work) -> dict[str, int]:
    """Return the sizes of axes of caches that are the features of a head, which some exporters leave dynamic."""
    roles, last = roles_of(work.graph), {entry.name: entry.shape[-1:] for entry in work.graph.inputs}
    names = {size for name, sizes in last.items() for size in sizes if roles[name] == "past" and len(sizes)}
    widths = [named.form.parameters.get("head_dim") for named in work.meant]
    width = next((width for width in widths if isinstance(width, int)), None)
    return {} if width is None else {name: width for name in names if isinstance(name, str)}


def shake(work: Work) -> None:
    """Write the new file with each number of its tables moved by as much as the old rows were, up or down.

    What that does to outputs says what the rewriting may do to them.
    """
    draw, by = np.random.default_rng(0), {table.name: table.moved for table in work.tables}
    if work.swaps:
        off = max(swap.old_error_near + swap.error for swap in work.swaps)
        names = [
            tensor.name for tensor in work.model.proto.graph.initializer if tensor.name.endswith(("low_sin", "low_cos"))
        ]
        by.update({name: off for name in names if name.startswith("exact")})
    for name, moved in by.items():
        array = work.model.array(name)
        if moved:
            numbers = array.astype(np.float64)
            # at least to the next number, or nothing would move
            step = np.maximum(moved, 2 * half_steps(numbers, array.dtype))
            work.model.replace(name, held(numbers + step * draw.choice([-1.0, 1.0], array.shape), array.dtype))
    name = f"{work.place.name}{SHAKEN}"
    work.model.save(work.place.with_name(name), f"{work.request.tables}{SHAKEN}")
