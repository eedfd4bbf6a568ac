"""Reports and timings as tables on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from posenc_export.errors import printable
from posenc_export.validation.basis import loosest
from posenc_export.validation.report import COLUMNS, cells, folded, headline, not_run, read_from

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from posenc_export.benchmarks import BenchResult
    from posenc_export.bundle.manifest import Manifest
    from posenc_export.cuda.prove import Proof
    from posenc_export.validation.verdict import Basis, Verdict

STYLES = {"pass": "green", "fail": "bold red", "skip": "yellow"}


def shown(text: str) -> Text:
    """Return what a terminal shows of a text: the one place by which texts get into tables and lines."""
    from rich.text import Text

    return Text(printable(text).replace("\n", "\\n"))  # a note of two lines would pass for one of the tool's own


def print_report(
    console: Console, manifest: Manifest, verdicts: Sequence[Verdict], basis: Basis, verbose: bool = False
) -> None:
    """Print the table, what failed in lines of its own, and the headline."""
    table = _table(COLUMNS)
    for verdict in folded([verdict for verdict in verdicts if verdict.status != "skip"]):
        brief = replace(verdict, detail="see below") if verdict.status == "fail" else verdict
        texts = [shown(cell) for cell in cells(brief)]
        texts[2].stylize(STYLES[verdict.status])
        table.add_row(*texts)
    if verdicts:
        console.print(table)
    for verdict in verdicts:
        if verdict.status == "fail":
            console.print(shown(f"{verdict.subject} {verdict.check}: {verdict.detail}"), soft_wrap=True)
    console.print(shown(headline(manifest, verdicts)))
    for line in not_run(verdicts):
        console.print(shown(line), soft_wrap=True)
    for line in standing(manifest, verdicts, basis, verbose):
        console.print(shown(line), soft_wrap=True)
    for line in manifest.notes:
        console.print(shown(line), soft_wrap=True)
    for line in manifest.not_tried:
        console.print(shown(f"not tried: {line}"), soft_wrap=True)
    if manifest.origin:
        console.print(shown(read_from(manifest)), soft_wrap=True)


def standing(manifest: Manifest, verdicts: Sequence[Verdict], basis: Basis, verbose: bool) -> list[str]:
    """Return the lines on what the report stands on: a loose tolerance; with -v the manifest's SHA-256."""
    sha = f"manifest.json: sha256 {basis.manifest_sha256}" if verbose else ""
    return [line for line in (loosest(basis, manifest, verdicts), sha) if line]


def _table(columns: Sequence[str]) -> Table:
    """Return an empty table whose first column is never broken."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in columns[:1])
    return table


def print_comparisons(verdicts: Sequence[Verdict]) -> None:
    """Print every comparison, a line each."""
    for verdict in verdicts:
        for c in verdict.comparisons:
            click.echo(printable(f"  {verdict.subject}  {c.case}  {c.output}  {c.against}  {c.max_abs:.3g}"))


def print_proofs(console: Console, facts: Mapping[str, str], proofs: Sequence[Proof]) -> None:
    """Print the machine in one line, and one row for each scheme and runtime."""
    from posenc_export.cuda.table import COLUMNS as PROVED
    from posenc_export.cuda.table import rows

    console.print(shown(", ".join(f"{name} {value}" for name, value in facts.items())), soft_wrap=True)
    table = _table(PROVED)
    for row in rows(proofs):
        table.add_row(*map(shown, row))
    console.print(table)


def print_bench(console: Console, result: BenchResult) -> None:
    """Print one row a contender and length, and what was not timed."""
    from rich.table import Table
    from rich.text import Text

    from posenc_export.benchmarks.report import COLUMNS as TIMES
    from posenc_export.benchmarks.report import rows, title

    table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left")
    table.title = shown(title(result))
    for column in TIMES:
        table.add_column(column, justify="left" if column == "what" else "right")
    for row in rows(result):
        table.add_row(*map(shown, row))
    console.print(table)
    for line in result.not_run:
        console.print(Text(line), soft_wrap=True)
