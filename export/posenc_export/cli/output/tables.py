"""Reports and timings as tables on a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import click

from posenc_export.common.errors import one_line
from posenc_export.proof.checks.catalogue import CATALOGUE
from posenc_export.proof.report.printed import lines_above, lines_below, shown_tables
from posenc_export.proof.report.rows import MARKS, MEANINGS, ReportTable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from posenc_export.bundle.manifest import Manifest
    from posenc_export.proof.benchmarks import BenchResult
    from posenc_export.proof.cuda.place import CudaPlacement
    from posenc_export.proof.cuda.prove import CudaProof
    from posenc_export.proof.judging.verdict import Basis, Verdict
    from posenc_export.proof.runtimes.availability import Availability

STYLES = {"pass": "green", "fail": "bold red", "skip": "yellow"}
GAP = 2
"""Spaces between columns."""


def shown(text: str) -> Text:
    """Return what a terminal shows of a text: the one place by which texts get into tables and lines."""
    from rich.text import Text

    return Text(one_line(text))


def print_report(
    console: Console, manifest: Manifest, verdicts: Sequence[Verdict], basis: Basis, verbose: bool = False
) -> None:
    """Print the outcome and what failed, the tables, then a line each for what else a user should know."""
    for line in lines_above(manifest, verdicts):
        say(console, line)
    for table in shown_tables(verdicts, verbose):
        console.print()
        _print_rows(console, table)
    console.print()
    for line in lines_below(manifest, verdicts, basis, verbose):
        say(console, line)
    if verbose and verdicts:
        print_legend(console, verdicts)


def say(console: Console, text: str, indent: str = "  ") -> None:
    """Print a text: on a terminal broken between words, whatever its width; else as the one line that it is."""
    line = shown(text)
    if console.is_terminal:
        line.plain = textwrap.fill(
            line.plain, console.width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
    # a pipe gets one line, which grep and logs keep whole
    console.print(line, soft_wrap=True)


def print_legend(console: Console, verdicts: Sequence[Verdict]) -> None:
    """Print what the columns hold, and what each check of a report asks."""
    for column, meaning in MEANINGS.items():
        say(console, f"  {column}: {meaning}", indent="    ")
    for name in dict.fromkeys(verdict.check for verdict in verdicts):
        entry = CATALOGUE[name]
        say(console, f"  {entry.code} {name}: {entry.asks}", indent="    ")


def _print_rows(console: Console, table: ReportTable) -> None:
    """Print a table of what passed, failed or did not run, which its second column says in a color."""
    _print_cells(console, table.columns, [row.cells for row in table.rows], [STYLES[row.status] for row in table.rows])


def _print_cells(
    console: Console,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    styles: Sequence[str] = (),
    numbers: Sequence[str] = (),
) -> None:
    """Print a table as wide as the console, or, where its words do not fit there, a line for each row.

    Args:
        styles: of the second cell of each row.
        numbers: columns that are flush right.
    """
    widths = fitted([columns, *rows], console.width)
    # narrow consoles: a cell that is cut hides what the report is for
    if widths is None:
        for row in rows:
            named = (f"{name} {cell}" for name, cell in zip(columns[2:], row[2:], strict=True) if cell)
            say(console, ": ".join(filter(None, (*row[:2], ", ".join(named)))))
        return
    drawn = _table(columns, widths, numbers)
    for i, row in enumerate(rows):
        texts = [shown(cell) for cell in row]
        texts[1].stylize(styles[i] if styles else "")
        drawn.add_row(*texts)
    console.print(drawn)


def fitted(rows: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """Return widths of columns, two spaces apart, with which no word of a table is broken; None where none fit.

    The first row has the names of columns: they are broken before cells are.
    """
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    words = [max(len(word) for cell in column for word in cell.split() or [""]) for column in columns]
    cells = [max(word, *map(len, column[1:])) for word, column in zip(words, columns, strict=True)]
    # The first column is never broken, so that its names can be searched for.
    for least in ([widths[0], *cells[1:]], [widths[0], *words[1:]]):
        for _ in range(max(sum(widths) + GAP * (len(widths) - 1) - width, 0)):
            room, index = max((widths[i] - least[i], i) for i in range(len(widths)))
            widths[index] -= min(room, 1)
    return widths if sum(widths) + GAP * (len(widths) - 1) <= width else None


def _table(columns: Sequence[str], widths: Sequence[int], numbers: Sequence[str]) -> Table:
    """Return an empty table, of columns of given widths; the first column is never broken."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for i, column in enumerate(columns):
        justify: Literal["right", "left"] = "right" if column in numbers else "left"
        table.add_column(column, overflow="fold", no_wrap=i == 0, width=widths[i], justify=justify)
    return table


def print_runtimes(console: Console, found: Sequence[Availability]) -> None:
    """Print how many runtimes run here, then a row for each: its format, and what those lack that do not."""
    count = sum(one.found for one in found)
    say(console, f"{count} of {len(found)} runtimes run here; what takes longer runs with --prove or --runtime NAME")
    width = max(len(one.name) for one in found)
    formats = max(len(one.format) for one in found)
    for one in found:
        here = "found" if one.found else "missing"
        lacks = f": {one.lacks}" if one.lacks else ""
        say(console, f"{one.name:<{width}}  {one.format:<{formats}}  {here}{lacks}", indent="    ")


def print_comparisons(verdicts: Sequence[Verdict]) -> None:
    """Print every comparison, a line each."""
    for verdict in verdicts:
        for c in verdict.comparisons:
            click.echo(one_line(f"  {verdict.place}  {c.case}  {c.output}  {c.against}  {c.max_abs:.3g}"))


def print_proofs(console: Console, facts: Mapping[str, str], proofs: Sequence[CudaProof]) -> None:
    """Print the machine, a row for each runtime below its scheme, and the details of some rows as lines."""
    from posenc_export.proof.cuda.table import COLUMNS as PROVED
    from posenc_export.proof.cuda.table import rows

    say(console, ", ".join(f"{name} {value}" for name, value in facts.items()))
    proof_rows = rows(proofs)
    schemes = [scheme for scheme, *_ in proof_rows]
    proof_rows.sort(key=lambda row: schemes.index(row[0]))
    cells, styles = _under_schemes(proof_rows)
    _print_cells(console, (PROVED[0], *PROVED[2:-1]), cells, styles)
    for line in _details(proof_rows):
        say(console, line)


def print_placements(console: Console, facts: Mapping[str, str], placements: Sequence[CudaPlacement]) -> None:
    """Print the machine, and a row for each form of each scheme: where its nodes would run on CUDA."""
    from posenc_export.proof.cuda.table import PLACED_COLUMNS, placed_rows

    say(console, ", ".join(f"{name} {value}" for name, value in facts.items()))
    _print_cells(console, PLACED_COLUMNS, placed_rows(placements), numbers=PLACED_COLUMNS[2:6])


def _details(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a line for each thing that there is to say: of what proves, and of which schemes."""
    schemes: dict[tuple[str, str], list[str]] = {}
    for scheme, by, *_, detail in rows:
        schemes.setdefault((by, detail), []).append(scheme)
    return [f"{by}, {', '.join(named)}: {detail}" for (by, detail), named in schemes.items() if detail]


def _under_schemes(rows: Sequence[Sequence[str]]) -> tuple[list[tuple[str, ...]], list[str]]:
    """Return rows that begin with the name of what proves, under a row for their scheme, and the style of each."""
    cells: list[tuple[str, ...]] = []
    styles: list[str] = []
    status_of = {mark: status for status, mark in MARKS.items()}
    for i, (scheme, by, verdict, *more, _) in enumerate(rows):
        if i == 0 or rows[i - 1][0] != scheme:
            cells.append((scheme, *("" for _ in range(1 + len(more)))))
            styles.append("")
        cells.append((f"  {by}", verdict, *more))
        styles.append(STYLES[status_of[verdict]])
    return cells, styles


def print_bench(console: Console, result: BenchResult) -> None:
    """Print one row a contender and length, and what was not timed."""
    from posenc_export.proof.benchmarks.report import COLUMNS as TIMES
    from posenc_export.proof.benchmarks.report import NUMBERS, in_words, rows, title

    say(console, title(result))
    _print_cells(console, TIMES, rows(result), numbers=NUMBERS)
    for line in (*result.not_run, in_words(result)):
        say(console, line)
