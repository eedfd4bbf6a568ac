"""Verdicts as rows of a table, as report.json and as report.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from posenc_export.bundle.folder import REPORTS, write_json
from posenc_export.bundle.manifest import Manifest
from posenc_export.errors import printable
from posenc_export.markdown import table
from posenc_export.validation.basis import loosest
from posenc_export.validation.verdict import Basis, Comparison, Verdict, failed, worst

MARKS = {"pass": "pass", "fail": "FAIL", "skip": "not run"}
COLUMNS = ("what", "check", "verdict", "against eager", "against float64", "detail")


def cells(verdict: Verdict) -> tuple[str, ...]:
    """Return the cells of a row, in the order of COLUMNS."""
    eager, reference = worst(verdict.comparisons, "eager"), worst(verdict.comparisons, "reference")
    return verdict.subject, verdict.check, MARKS[verdict.status], figure(eager), figure(reference), verdict.detail


def figure(comparison: Comparison | None) -> str:
    """Return an error in words: how much, and at which position."""
    if comparison is None:
        return ""
    if comparison.max_abs == 0 and comparison.passed:
        return "same bits" if comparison.against == "eager" else "0"
    where = (
        f" at {comparison.position}" if comparison.position is not None and comparison.against == "reference" else ""
    )
    # Next to zero an ulp is nothing: there the absolute error says more.
    ulps = f", {comparison.max_ulp:.3g} ulp" if comparison.against == "eager" and comparison.max_ulp < 100 else ""
    if comparison.max_abs > 1 and comparison.peak > comparison.max_abs:  # of values so large, the share says more
        return f"{comparison.max_abs / comparison.peak:.2g} of {comparison.peak:.0e}{where}"
    return f"{comparison.max_abs:.2g}{ulps}{where}"


def folded(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Put what passed on one thing into one row; what failed or did not run keeps a row of its own."""
    rows: list[Verdict] = []
    for verdict in verdicts:
        last = rows[-1] if rows else None
        if last and last.subject == verdict.subject and last.status == verdict.status == "pass":
            checks, comparisons = f"{last.check}, {verdict.check}", (*last.comparisons, *verdict.comparisons)
            rows[-1] = Verdict(verdict.subject, checks, "pass", last.detail if last.comparisons else "", comparisons)
        else:
            rows.append(verdict if verdict.comparisons or verdict.status != "pass" else replace(verdict, detail=""))
    return rows


def not_run(verdicts: Sequence[Verdict]) -> list[str]:
    """Return a line for each reason why something did not run, with what it is that did not."""
    reasons: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.status == "skip":
            what = verdict.subject if verdict.check == "agrees" else f"{verdict.subject} {verdict.check}"
            reasons.setdefault(verdict.detail, []).append(what)
    return [f"not run: {', '.join(whats)}: {reason}" for reason, whats in reasons.items()]


def headline(manifest: Manifest, verdicts: Sequence[Verdict]) -> str:
    """Return one line that says how it came out."""
    count = {status: sum(v.status == status for v in verdicts) for status in MARKS}
    if not verdicts:
        return "not validated"
    rest = f", {count['skip']} not run here" if count["skip"] else ""
    if count["fail"]:
        return f"FAILED: {count['fail']} of {len(verdicts)} checks{rest}"
    return f"all {count['pass']} checks passed{rest}; reference: {manifest.reference}"


def read_from(manifest: Manifest) -> str:
    """Return one line that says which parameters were read, and from where; long lists by their lengths."""
    values = {k: f"{len(v)} numbers" if isinstance(v, (tuple, list)) else v for k, v in manifest.params.items()}
    read = (f"{k} {values[k]} ({where})" for k, where in manifest.origin.items() if k in values)
    unused = f"; not used: {manifest.origin['not used']}" if "not used" in manifest.origin else ""
    return f"read from {manifest.origin['config']}: {', '.join(read)}{unused}"


def report_json(manifest: Manifest, verdicts: Sequence[Verdict], basis: Basis) -> dict[str, object]:
    """Return the whole report as JSON values, every comparison included."""
    return {
        "scheme": manifest.scheme,
        "mode": manifest.mode,
        "passed": bool(verdicts) and not failed(verdicts),
        "headline": headline(manifest, verdicts),
        "manifest_sha256": basis.manifest_sha256,
        "tolerance": loosest(basis, manifest, verdicts) or "derived",
        "reference": manifest.reference,
        "notes": list(manifest.notes),
        "not_tried": list(manifest.not_tried),
        "verdicts": [v.to_json() for v in verdicts],
    }


def report_markdown(manifest: Manifest, verdicts: Sequence[Verdict], basis: Basis) -> str:
    """Return the report as Markdown."""
    rows = table(COLUMNS, map(cells, folded(verdicts)))
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
    lines = [f"# {manifest.scheme}, {manifest.mode}{method}", "", headline(manifest, verdicts), ""]
    lines += [f"* {key}: {value}" for key, value in facts.items()]
    lines += [f"* {line}" for line in (loosest(basis, manifest, verdicts),) if line]
    lines += [f"* {read_from(manifest)}"] if manifest.origin else []
    return "\n".join(map(printable, [*(line.replace("\n", " ") for line in lines), "", rows, ""]))


def write_report(folder: Path, manifest: Manifest, verdicts: Sequence[Verdict], basis: Basis) -> None:
    """Write report.json and report.md into a bundle."""
    as_json, as_markdown = (folder / name for name in REPORTS)
    write_json(as_json, report_json(manifest, verdicts, basis))
    as_markdown.write_text(report_markdown(manifest, verdicts, basis), encoding="utf-8")
