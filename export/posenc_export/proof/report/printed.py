"""A whole report as text and as HTML, as terminals, pipes and notebooks show it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from posenc_export.bundle.manifest import Manifest
from posenc_export.common.errors import one_line
from posenc_export.common.markdown import html, html_lines, plain
from posenc_export.proof.judging.verdict import Basis, Verdict
from posenc_export.proof.report.basis import loosest
from posenc_export.proof.report.report import (
    failures,
    first_line,
    headline,
    in_words,
    not_run,
    noted,
    placed,
    read_from,
    rows_held,
)
from posenc_export.proof.report.rows import ReportTable, tables


def lines_below(manifest: Manifest, verdicts: Sequence[Verdict], basis: Basis, verbose: bool) -> list[str]:
    """Return the lines of a report below its tables."""
    lines = [
        *failures(verdicts),
        headline(manifest, verdicts),
        *not_run(verdicts),
        *placed(verdicts),
        *noted(verdicts),
        *standing(manifest, verdicts, basis, verbose),
        *(f"note: {line}" for line in manifest.notes),
        *(f"not tried: {line}" for line in manifest.not_tried),
        *([read_from(manifest)] if manifest.origin else []),
    ]
    return [*lines, *in_words(shown_tables(verdicts, verbose), lines)]


def shown_tables(verdicts: Sequence[Verdict], verbose: bool) -> list[ReportTable]:
    """Return the tables of a report: with -v they name every check, otherwise only those that did not pass."""
    return tables(verdicts, counted=not verbose)


def standing(manifest: Manifest, verdicts: Sequence[Verdict], basis: Basis, verbose: bool) -> list[str]:
    """Return the lines on what a report is based on: a loose tolerance; with -v rows held, the manifest's SHA-256."""
    more = [*rows_held(verdicts), f"manifest.json: sha256 {basis.manifest_sha256}"] if verbose else []
    return [line for line in (loosest(basis, manifest, verdicts), *more) if line]


def as_text(manifest: Manifest, verdicts: Sequence[Verdict], basis: Basis) -> str:
    """Return a report as a terminal shows it, however long its lines are."""
    parts = [plain(table.columns, _cells(table)) for table in shown_tables(verdicts, verbose=False)]
    below = "\n".join(_shown(lines_below(manifest, verdicts, basis, verbose=False)))
    return "\n".join([*_shown(first_line(manifest)), "\n\n".join(parts), below] if parts else [below])


def as_html(manifest: Manifest, verdicts: Sequence[Verdict], basis: Basis) -> str:
    """Return a report as HTML, in which nothing that a bundle says is markup."""
    above = [html_lines(_shown(first_line(manifest)))] if first_line(manifest) else []
    parts = [html(table.columns, _cells(table)) for table in shown_tables(verdicts, verbose=False)]
    return "\n".join([*above, *parts, html_lines(_shown(lines_below(manifest, verdicts, basis, verbose=False)))])


def _cells(table: ReportTable) -> list[list[str]]:
    return [_shown(row.cells) for row in table.rows]


def _shown(texts: Iterable[str]) -> list[str]:
    """Return texts as a terminal shows them: a line each, with control characters escaped."""
    return [one_line(text) for text in texts]
