"""An extension as lines for people."""

from __future__ import annotations

from collections.abc import Iterator

from posenc_export.read.extend.result import CommonRun, Extended, Swap, Table, Wall

PHRASES = {
    "broadcasts": "run on with too few positions",
    "repeats": "run on and read rows again",
    "overruns": "run on and read what lies in memory behind its table",
}


def extension_lines(result: Extended) -> Iterator[str]:
    """Yield what the proof says, what was rewritten, and where positions end now."""
    yield _verdict(result)
    for table in result.tables:
        yield from _table(table)
    for swap in result.swaps:
        yield from _swap(swap)
    for buffer in result.grown:
        yield f"{buffer.name}: {buffer.size:,} -> {buffer.new_size:,} places"
    yield from _ends(result)
    for run in result.runs:
        yield _run(run)
    for note in result.notes:
        yield f"note: {note}"


def _verdict(result: Extended) -> str:
    if result.not_compared:
        return f"NOT PROVED: {result.out} is written, and no output of it was compared: {result.not_compared}"
    if all(run.passed for run in result.runs):
        return f"written: {result.out}"
    return f"FAILED: {result.out} is not written: its outputs differ from those of the file that was given"


def _table(table: Table) -> Iterator[str]:
    yield f"{table.name}: {table.rows:,} -> {table.new_rows:,} rows, {table.dtype}"
    yield f"  {table.form}"
    off = f"off by up to {table.old_error:.2g}, at row {table.old_error_at:,}"
    yield f"  old rows: {off}; moved by up to {table.moved:.2g}"
    yield f"  rows made anew against float64: at most {table.error:.2g}, {table.steps:.2f} steps of {table.dtype}"


def _swap(swap: Swap) -> Iterator[str]:
    yield f"{', '.join(swap.nodes)}: angle addition"
    yield f"  {swap.form}"
    yield f"  before: off by up to {swap.old_error:.2g}, at position {swap.old_error_at:,}"
    yield f"  all of {swap.tried:,} positions against float64: at most {swap.error:.2g}, at position {swap.error_at:,}"


def _ends(result: Extended) -> Iterator[str]:
    for wall in result.walls:
        yield f"next wall: {_wall(wall)}"
    if not result.walls and result.reached is not None:
        yield f"correct for every length up to {result.reached:,}"


def _wall(wall: Wall) -> str:
    if not wall.node:
        return wall.reason
    beyond = PHRASES.get(wall.beyond, "are refused")
    return f"correct up to {wall.last:,}; longer calls {beyond}: {wall.node}: {wall.reason}"


def _run(run: CommonRun) -> str:
    if run.passed and run.difference == 0:
        return f"at {run.sizes}: the same outputs as before ({run.how})"
    moved = f"outputs moved by at most {run.difference:.2g} (allowed: {run.allowed:.2g})"
    return f"at {run.sizes}: {moved}" if run.passed else f"FAIL: at {run.sizes}: {moved}: {run.how}"
