"""Verdicts as rows of a table, as report.json and as report.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from posenc.ports import Mask
from posenc_export.bundle.folder import REPORTS, sha256
from posenc_export.bundle.manifest import Manifest
from posenc_export.bundle.seal import sealed_text
from posenc_export.errors import printable
from posenc_export.markdown import table
from posenc_export.runtimes import RUNTIMES
from posenc_export.validation.checks.catalogue import code_of
from posenc_export.validation.judging.verdict import (
    AGREES,
    MODEL,
    NO_REFERENCE,
    Basis,
    Comparison,
    Status,
    Verdict,
    failed,
    worst,
)
from posenc_export.validation.report.basis import loosest, reference_of
from posenc_export.validation.report.glossary import glossary

SCHEMA_VERSION = 1
"""Of report.json: docs/report.schema.json says what its fields are."""
MARKS = {"pass": "pass", "fail": "FAIL", "skip": "not run"}
FILE_COLUMNS = ("file", "verdict", "checks")
AGAINST_MODEL = "against the model"
RUN_COLUMNS = ("runtime", "verdict", "against eager", "against float64", AGAINST_MODEL, "cases", "other checks")
MEANINGS = {
    "verdict": "pass, or FAIL with the reason below the tables; what could not run is listed below them too",
    "against eager": "the largest difference from the PyTorch module, and how many steps of the dtype (ulp) it is",
    "against float64": "the largest difference from the reference, and the position where it is",
    AGAINST_MODEL: "the largest difference from the model's own code, at positions where its float32 angles are good",
    "cases": "calls that were compared: lengths, positions, batches",
}
"""What the columns of numbers hold."""


@dataclass(frozen=True)
class Row:
    """What came out alike on one file, or one runtime: its cells, in the order of its table's columns."""

    status: Status
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Rows:
    """A table of a report."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def tables(verdicts: Sequence[Verdict], counted: bool = False) -> list[Rows]:
    """Return the table of files and that of runtimes, but for one that is empty; what did not run is in neither.

    Args:
        verdicts: The rows of a report.
        counted: Whether checks that passed are counted; they are named otherwise.
    """
    of_files: list[Row] = []
    of_runs: list[Row] = []
    for (subject, status), group in _grouped(verdicts).items():
        checks = [verdict.check for verdict in group if verdict.check != AGREES]
        cell = _passed(len(checks)) if counted and status == "pass" else ", ".join(checks)
        if subject in RUNTIMES:
            of_runs.append(Row(status, (subject, MARKS[status], *_figures(group), cell)))
        else:
            of_files.append(Row(status, (subject, MARKS[status], cell)))
    has_model = any(verdict.check == MODEL and verdict.comparisons for verdict in verdicts)
    columns = RUN_COLUMNS if has_model else tuple(c for c in RUN_COLUMNS if c != AGAINST_MODEL)
    at = RUN_COLUMNS.index(AGAINST_MODEL)
    of_runs = of_runs if has_model else [Row(r.status, (*r.cells[:at], *r.cells[at + 1 :])) for r in of_runs]
    both = (Rows(FILE_COLUMNS, tuple(of_files)), Rows(columns, tuple(of_runs)))
    return [rows for rows in both if rows.rows]


def _passed(count: int) -> str:
    return f"{_count('check', count)} passed" if count else ""


def _grouped(verdicts: Sequence[Verdict]) -> dict[tuple[str, Status], list[Verdict]]:
    groups: dict[tuple[str, Status], list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.status != "skip":
            groups.setdefault((verdict.subject, verdict.status), []).append(verdict)
    return groups


def _figures(group: Sequence[Verdict]) -> tuple[str, ...]:
    """Return the largest errors on a runtime, and how many cases were compared."""
    comparisons = [comparison for verdict in group for comparison in verdict.comparisons]
    cases = len({comparison.case for comparison in comparisons})
    errors = (figure(worst(comparisons, against)) for against in ("eager", "reference", "model"))
    return (*errors, str(cases or ""))


def failures(verdicts: Sequence[Verdict]) -> list[str]:
    """Return a line for each failure, with the code of its check; last, how to learn what the codes mean."""
    wrong = [verdict for verdict in verdicts if verdict.status == "fail"]
    codes = ", ".join(dict.fromkeys(f"posenc explain {code_of(verdict.check)}" for verdict in wrong))
    lines = [f"{code_of(verdict.check)} {verdict.subject} {verdict.check}: {verdict.detail}" for verdict in wrong]
    return [*lines, f"what that means, and what to do: {codes}"] if wrong else []


def figure(comparison: Comparison | None) -> str:
    """Return an error in words: how much, and at which position."""
    if comparison is None:
        return ""
    if comparison.max_abs == 0 and comparison.passed:
        return "same bits" if comparison.against == "eager" else "0"
    where = f" at {comparison.position}" if comparison.position is not None and comparison.against != "eager" else ""
    # Next to zero an ulp is nothing: there the absolute error says more.
    ulps = f", {comparison.max_ulp:.3g} ulp" if comparison.against == "eager" and comparison.max_ulp < 100 else ""
    if comparison.max_abs > 1 and comparison.peak > comparison.max_abs:  # of values so large, the share says more
        return f"{100 * comparison.max_abs / comparison.peak:.2g}% of {comparison.peak:.2g}{where}"
    return f"{comparison.max_abs:.2g}{ulps}{where}"


def not_run(verdicts: Sequence[Verdict]) -> list[str]:
    """Return a line for each reason why something did not run, with what it is that did not."""
    reasons: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.status == "skip":
            what = verdict.subject if verdict.check == AGREES else f"{verdict.subject} {verdict.check}"
            reasons.setdefault(verdict.detail, []).append(what)
    return [f"not run: {', '.join(whats)}: {reason}" for reason, whats in reasons.items()]


def noted(verdicts: Sequence[Verdict]) -> list[str]:
    """Return a line for each thing that is no failure and yet to be known."""
    return [f"{verdict.subject} {verdict.check}: {verdict.note}" for verdict in verdicts if verdict.note]


def in_words(rows: Sequence[Rows], lines: Sequence[str]) -> list[str]:
    """Return a line on the words of some tables, and of the lines below them, that a reader may not know."""
    return glossary((cell for table in rows for row in table.rows for cell in row.cells), lines)


def first_line(manifest: Manifest) -> list[str]:
    """Return the line that says which model was asked of a config that was read, or why none was; else none."""
    return [] if manifest.model is None else [manifest.model.line]


def rows_held(verdicts: Sequence[Verdict]) -> list[str]:
    """Return a line for each file on how many rows of what it stores were held, and how far out it was tried."""
    of_tables = (v for v in verdicts if v.check == "tables" and v.status == "pass" and v.detail)
    return [f"{verdict.subject} tables: {verdict.detail}" for verdict in of_tables]


def headline(manifest: Manifest, verdicts: Sequence[Verdict]) -> str:
    """Return one line that says how it came out, and how much was proved."""
    if not verdicts:
        return "not validated"
    agreed = _count("runtime", sum(v.check == AGREES and v.status == "pass" for v in verdicts))
    wrong = sum(v.status == "fail" for v in verdicts)
    parts = [f"FAILED: {wrong} of {_count('check', _ran(verdicts))}"] if wrong else []
    parts += [f"agrees on {agreed}" + ("" if wrong else f", all {_count('check', _ran(verdicts))} passed")]
    reference = reference_of(manifest, verdicts)
    named = reference if reference.startswith(NO_REFERENCE) else f"reference: {reference}"
    return "; ".join([*parts, *_left_out(verdicts), named])


def _ran(verdicts: Sequence[Verdict]) -> int:
    return sum(v.status != "skip" for v in verdicts)


def _left_out(verdicts: Sequence[Verdict]) -> list[str]:
    """Return, in words, how much did not run; nothing where all did."""
    skipped = [v.check == AGREES for v in verdicts if v.status == "skip"]
    counts = {"runtime": sum(skipped), "check": len(skipped) - sum(skipped)}
    words = " and ".join(_count(what, number) for what, number in counts.items() if number)
    return [f"{words} not run here"] if words else []


def _count(what: str, number: int) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"


def read_from(manifest: Manifest) -> str:
    """Return one line that says which parameters were read, and from where; long lists by their lengths."""
    starts = [port.carries.offset for port in manifest.inputs if isinstance(port.carries, Mask)]
    fields = {"positions": manifest.positions, "position_offset": starts[0] if starts else 0, "mode": manifest.mode}
    params = {**manifest.params, **fields, "max_len": manifest.max_len}
    values = {k: f"{len(v)} numbers" if isinstance(v, (tuple, list)) else v for k, v in params.items()}
    read = (f"{k} {values[k]} ({where})" for k, where in manifest.origin.items() if k in values)
    unused = f"; not used: {manifest.origin['not used']}" if "not used" in manifest.origin else ""
    return f"read from {manifest.origin['config']}: {', '.join(read)}{unused}"


def report_json(manifest: Manifest, verdicts: Sequence[Verdict], basis: Basis) -> dict[str, object]:
    """Return the whole report as JSON values, every comparison included."""
    model = {} if manifest.model is None else {"model": manifest.model.line}
    return {
        "schema_version": SCHEMA_VERSION,
        "scheme": manifest.scheme,
        "mode": manifest.mode,
        "passed": bool(verdicts) and not failed(verdicts),
        "headline": headline(manifest, verdicts),
        "manifest_sha256": basis.manifest_sha256,
        "tolerance": loosest(basis, manifest, verdicts) or "derived",
        "reference": reference_of(manifest, verdicts),
        **model,
        "notes": list(manifest.notes),
        "not_tried": list(manifest.not_tried),
        "verdicts": [verdict_json(verdict) for verdict in verdicts],
    }


def verdict_json(verdict: Verdict) -> dict[str, object]:
    """Return JSON values; a NaN or infinite error becomes null, as JSON has no word for it."""
    fields = {**asdict(verdict), "code": code_of(verdict.check)}
    for comparison in fields["comparisons"]:
        for key in ("max_abs", "max_ulp", "peak"):
            comparison[key] = comparison[key] if np.isfinite(comparison[key]) else None
    return fields


def report_markdown(manifest: Manifest, verdicts: Sequence[Verdict], basis: Basis) -> str:
    """Return the report as Markdown."""
    shown = tables(verdicts)
    rows = [table(one.columns, [row.cells for row in one.rows]) for one in shown]
    facts = {
        "parameters": ", ".join(f"{k}={v}" for k, v in manifest.params.items()) or "none",
        "positions": manifest.positions or "as the module takes them",
        "validated up to length": str(manifest.max_len),
        "dtype": manifest.dtype,
        "opset": f"{manifest.opset} ({manifest.opset_reason}), IR version {manifest.ir_version}: {manifest.loads_on}",
        "rotary operator": manifest.rotary_op,
        "inputs": "; ".join(map(str, manifest.inputs)) or "none",
        "outputs": "; ".join(map(str, manifest.outputs)),
        "manifest.json": f"sha256 {basis.manifest_sha256}",
        "made with": ", ".join(f"{k} {v}" for k, v in manifest.versions.items()),
    }
    method = f" ({manifest.method})" if manifest.method else ""
    facts |= {"assumed": "; ".join(manifest.notes)} if manifest.notes else {}
    facts |= {"not tried": "; ".join(manifest.not_tried)} if manifest.not_tried else {}
    above = [text for line in first_line(manifest) for text in (line, "")]
    lines = [f"# {manifest.scheme}, {manifest.mode}{method}", "", *above, headline(manifest, verdicts), ""]
    lines += [f"* {key}: {value}" for key, value in facts.items()]
    lines += [f"* {line}" for line in (loosest(basis, manifest, verdicts),) if line]
    lines += [f"* {line}" for line in (*rows_held(verdicts), *noted(verdicts))]
    lines += [f"* {read_from(manifest)}"] if manifest.origin else []
    below = [f"* {line}" for line in (*failures(verdicts), *not_run(verdicts), *in_words(shown, lines))]
    parts = ["\n".join(_one_line(lines)), *rows, "\n".join(_one_line(below))]
    return "\n\n".join(printable(part) for part in parts if part) + "\n"


def _one_line(lines: Sequence[str]) -> list[str]:
    """Return lines whose line ends are spaces: a note of two lines would pass for one of the tool's own."""
    return [line.replace("\n", " ") for line in lines]


def write_report(folder: Path, manifest: Manifest, verdicts: Sequence[Verdict], basis: Basis) -> None:
    """Write report.md and report.json into a bundle, the second with the digests of both."""
    as_json, as_markdown = (folder / name for name in REPORTS)
    as_markdown.write_text(report_markdown(manifest, verdicts, basis), encoding="utf-8")
    data = {**report_json(manifest, verdicts, basis), "markdown_sha256": sha256(as_markdown)}
    as_json.write_text(sealed_text(data), encoding="utf-8")
