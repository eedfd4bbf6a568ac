"""Verdicts as a terminal table, as report.json and as report.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc_export.bundle.folder import Manifest, write_json
from posenc_export.validation.run import Trial, Verdict, to_json, worst

if TYPE_CHECKING:
    from rich.console import Console

MARKS = {"pass": ("pass", "green"), "fail": ("FAIL", "bold red"), "skip": ("not run", "yellow")}
COLUMNS = ("what", "check", "verdict", "against eager", "against float64", "detail")


def cells(verdict: Verdict) -> tuple[str, ...]:
    """Return the cells of a row, in the order of COLUMNS."""
    eager, truth = worst(verdict.trials, "eager"), worst(verdict.trials, "float64")
    return verdict.subject, verdict.check, MARKS[verdict.status][0], figure(eager), figure(truth), verdict.detail


def figure(trial: Trial | None) -> str:
    """Return an error in words: how much, and at which position."""
    if trial is None:
        return ""
    if trial.max_abs == 0 and trial.passed:
        return "same bits" if trial.against == "eager" else "0"
    where = f" at {trial.position}" if trial.position is not None and trial.against == "float64" else ""
    # Next to zero an ulp is nothing: there the absolute error says more.
    ulps = f", {trial.max_ulp:.3g} ulp" if trial.against == "eager" and trial.max_ulp < 100 else ""
    if trial.max_abs > 1 and trial.peak > trial.max_abs:  # of values so large, the share says more
        return f"{trial.max_abs / trial.peak:.2g} of {trial.peak:.0e}{where}"
    return f"{trial.max_abs:.2g}{ulps}{where}"


def folded(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Put what passed on one thing into one row; what failed or did not run keeps a row of its own."""
    rows: list[Verdict] = []
    for verdict in verdicts:
        last = rows[-1] if rows else None
        if last and last.subject == verdict.subject and last.status == verdict.status == "pass":
            checks, trials = f"{last.check}, {verdict.check}", (*last.trials, *verdict.trials)
            rows[-1] = Verdict(verdict.subject, checks, "pass", last.detail if last.trials else "", trials)
        else:
            rows.append(verdict if verdict.trials or verdict.status != "pass" else replace(verdict, detail=""))
    return rows


def headline(manifest: Manifest, verdicts: Sequence[Verdict]) -> str:
    """Return one line that says how it came out."""
    count = {status: sum(v.status == status for v in verdicts) for status in MARKS}
    if not verdicts:
        return "not validated"
    rest = f", {count['skip']} not run here" if count["skip"] else ""
    if count["fail"]:
        return f"FAILED: {count['fail']} of {len(verdicts)} checks{rest}"
    return f"all {count['pass']} checks passed{rest}; truth: {manifest.truth}"


def print_report(console: Console, manifest: Manifest, verdicts: Sequence[Verdict]) -> None:
    """Print the table, what failed in lines of its own, and the headline."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in COLUMNS:
        table.add_column(column, overflow="fold", no_wrap=column in COLUMNS[:1])
    failures = [v for v in verdicts if v.status == "fail"]
    for verdict in folded(verdicts):
        told = replace(verdict, detail="see below") if verdict.status == "fail" else verdict
        texts = [Text(cell) for cell in cells(told)]
        texts[2].stylize(MARKS[verdict.status][1])
        table.add_row(*texts)
    if verdicts:
        console.print(table)
    for verdict in failures:
        console.print(Text(f"{verdict.subject} {verdict.check}: {verdict.detail}"), soft_wrap=True)
    console.print(Text(headline(manifest, verdicts)))
    if manifest.origin:
        console.print(Text(read_from(manifest)), soft_wrap=True)


def read_from(manifest: Manifest) -> str:
    """Return one line that says which parameters were read, and from where; long lists by their lengths."""
    values = {k: f"{len(v)} numbers" if isinstance(v, (tuple, list)) else v for k, v in manifest.params.items()}
    told = (f"{k} {values[k]} ({where})" for k, where in manifest.origin.items() if k in values)
    unused = f"; not used: {manifest.origin['not used']}" if "not used" in manifest.origin else ""
    return f"read from {manifest.origin['config']}: {', '.join(told)}{unused}"


def report_json(manifest: Manifest, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return the whole report as JSON values, every trial included."""
    failed = any(v.status == "fail" for v in verdicts)
    return {
        "scheme": manifest.scheme,
        "mode": manifest.mode,
        "passed": bool(verdicts) and not failed,
        "headline": headline(manifest, verdicts),
        "truth": manifest.truth,
        "verdicts": [to_json(v) for v in verdicts],
    }


def report_markdown(manifest: Manifest, verdicts: Sequence[Verdict]) -> str:
    """Return the report as Markdown."""
    rows = [COLUMNS, tuple("---" for _ in COLUMNS), *(cells(v) for v in folded(verdicts))]
    table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
    facts = {
        "parameters": ", ".join(f"{k}={v}" for k, v in manifest.params.items()) or "none",
        "positions": manifest.positions or "as the module takes them",
        "validated up to length": str(manifest.max_len),
        "dtype": manifest.dtype,
        "opset": str(manifest.opset),
        "rotary operator": manifest.rotary_op,
        "inputs": "; ".join(map(str, manifest.inputs)) or "none",
        "outputs": "; ".join(map(str, manifest.outputs)),
        "made with": ", ".join(f"{k} {v}" for k, v in manifest.versions.items()),
    }
    method = f" ({manifest.method})" if manifest.method else ""
    lines = [f"# {manifest.scheme}, {manifest.mode}{method}", "", headline(manifest, verdicts), ""]
    lines += [f"* {key}: {value}" for key, value in facts.items()]
    lines += [f"* {read_from(manifest)}"] if manifest.origin else []
    return "\n".join([*lines, "", table, ""])


def write_report(folder: Path, manifest: Manifest, verdicts: Sequence[Verdict]) -> None:
    """Write report.json and report.md into a bundle."""
    write_json(folder / "report.json", report_json(manifest, verdicts))
    (folder / "report.md").write_text(report_markdown(manifest, verdicts), encoding="utf-8")
