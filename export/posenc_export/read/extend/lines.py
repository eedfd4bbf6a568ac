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
    """Yield what was rewritten, where positions end now, and what the proof says."""
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
    if result.not_compared:
        yield f"NOT PROVED: {result.out} is written, and no output of it was compared: {result.not_compared}"
    elif all(run.passed for run in result.runs):
        yield f"written: {result.out}"
    else:
        yield f"FAILED: {result.out} is not written, since outputs are not those of before"


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
        left = "; no wall is left below" if result.max_len else ""
        yield f"right up to {result.reached:,} positions{left}"


def _wall(wall: Wall) -> str:
    if not wall.node:
        return wall.reason
    beyond = PHRASES.get(wall.beyond, "are refused")
    return f"right up to {wall.last:,}; longer calls {beyond}: {wall.node}: {wall.reason}"


def _run(run: CommonRun) -> str:
    verdict = "the same" if run.passed else "DIFFER from"
    words = run.how if run.difference == 0 else f"{run.difference:.2g}, allowed {run.allowed:.2g}: {run.how}"
    return (
        f"{run.sizes}: outputs are {verdict} as before ({words})"
        if run.passed
        else f"{run.sizes}: outputs {verdict} those of before ({words})"
    )
