"""An extension as lines for people."""

from __future__ import annotations

from collections.abc import Iterator

from posenc_export.common.rounding import ceiling
from posenc_export.read.extend.result import CommonRun, Extended, Swap, Table, Wall

PHRASES = {
    "broadcasts": "run on with too few positions",
    "repeats": "run on and read rows again",
    "overruns": "run on and read what lies in memory behind its table",
}


def extension_lines(result: Extended, whole: bool = False) -> Iterator[str]:
    """Yield whether it passed, and where positions end now; then what was rewritten, and what was compared.

    Args:
        result: what an extension came to.
        whole: whether it is said what calls were allowed, and what angle addition gains near the first positions.
    """
    yield _verdict(result)
    for wall in result.walls:
        yield f"next wall: {_wall(wall)}"
    for table in result.tables:
        yield from _table(table)
    for swap in result.swaps:
        yield from _swap(swap, whole)
    for buffer in result.grown:
        yield f"{buffer.name}: {buffer.size:,} -> {buffer.new_size:,} places"
    for run in result.runs:
        yield _run(run, whole)
    for note in result.notes:
        yield f"note: {note}"


def _verdict(result: Extended) -> str:
    if result.not_compared:
        return f"NOT PROVED: {result.out} is written, and no output of it was compared: {result.not_compared}"
    if not all(run.passed for run in result.runs):
        return f"FAILED: {result.out} is not written: its outputs differ from those of the file that was given"
    if result.walls:
        ended = f"positions end before {result.max_len:,}" if result.max_len else "does not take every call"
        return f"FAILED: {result.out} is written, and {ended}"
    right = "" if result.reached is None else f", correct for every length up to {result.reached:,}"
    return f"passed: {result.out} is written{right}"


def _table(table: Table) -> Iterator[str]:
    yield f"{table.name}: {table.rows:,} -> {table.new_rows:,} rows, {table.dtype}"
    yield f"  {table.form}"
    off = f"off by up to {ceiling(table.old_error)}, at row {table.old_error_at:,}"
    yield f"  old rows: {off}; moved by up to {ceiling(table.moved)}"
    yield f"  rows made anew against float64: at most {ceiling(table.error)}, {table.steps:.2f} steps of {table.dtype}"


def _swap(swap: Swap, whole: bool) -> Iterator[str]:
    yield f"{', '.join(swap.nodes)}: angle addition"
    yield f"  {swap.form}"
    yield f"  before: off by up to {ceiling(swap.old_error)}, at position {swap.old_error_at:,}"
    new = f"at most {ceiling(swap.error)}, at position {swap.error_at:,}"
    yield f"  all of {swap.tried:,} positions against float64: {new}"
    if whole:
        yield f"  before, at the positions of the calls below: off by up to {ceiling(swap.old_error_near)}"
        yield f"  where it meets data in the new graph, far out: at most {ceiling(swap.in_graph)}"


def _wall(wall: Wall) -> str:
    if not wall.node:
        return wall.reason
    beyond = PHRASES.get(wall.beyond, "are refused")
    return f"correct up to {wall.last:,}; longer calls {beyond}: {wall.node}: {wall.reason}"


def _run(run: CommonRun, whole: bool) -> str:
    if run.passed and run.difference == 0:
        return f"at {run.sizes}: the same outputs as before ({run.how})"
    moved = f"outputs moved by at most {ceiling(run.difference)} (allowed: {run.allowed:.2g})"
    if run.passed:
        return f"at {run.sizes}: {moved}" + (f": {run.how}" if whole else "")
    return f"FAIL: at {run.sizes}: {moved}: {run.how}"
