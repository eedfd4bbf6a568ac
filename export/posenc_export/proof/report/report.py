"""Verdicts as rows of a table, as report.json and as report.md."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from posenc.ports import counted_from
from posenc_export.bundle.carries import are_looked_up
from posenc_export.bundle.folder import REPORTS, sha256
from posenc_export.bundle.manifest import Manifest
from posenc_export.bundle.seal import sealed_text
from posenc_export.common.errors import printable
from posenc_export.common.markdown import count_of, table
from posenc_export.proof.checks.catalogue import code_of
from posenc_export.proof.judging.verdict import (
    AGREES,
    NO_REFERENCE,
    PLACED,
    Basis,
    Verdict,
    failed,
)
from posenc_export.proof.report.basis import loosest, reference_of
from posenc_export.proof.report.glossary import glossary
from posenc_export.proof.report.rows import ReportTable, tables
from posenc_export.proof.runtimes import RUNTIMES

SCHEMA_VERSION = 1
"""The version of report.json, whose fields docs/reference/report.schema.json describes."""
MEASURES = ("tables", PLACED)
"""Checks whose measurement stands in a report."""
UNCHECKED = (
    "ONNX Runtime refuses it on the CPU, and gives zeros on CUDA without an error: --check-positions makes them NaN"
)
CHECKED = "ONNX Runtime refuses it on the CPU, and gives NaN on CUDA: --check-positions"
HOW_TO_GET = "posenc runtimes says how to get each, -v why"
"""What to do about runtimes that nobody named and that did not run."""
SHORT = 4
"""Numbers of the longest list that is shown."""


def failures(verdicts: Sequence[Verdict]) -> list[str]:
    """Return a line for each failure, with the code of its check, and a line on how to look the codes up."""
    wrong = [verdict for verdict in verdicts if verdict.status == "fail"]
    codes = ", ".join(dict.fromkeys(f"posenc explain {code_of(verdict.check)}" for verdict in wrong))
    lines = [f"{code_of(verdict.check)} {verdict.place} {verdict.check}: {verdict.detail}" for verdict in wrong]
    return [*lines, f"what that means, and what to do: {codes}"] if wrong else []


def not_run(verdicts: Sequence[Verdict], named: Collection[str] | None = None) -> list[str]:
    """Return a line for each reason why checks or runtimes did not run, with their names.

    Args:
        verdicts: The rows of a report.
        named: The runtimes that the user named, where others that are not here are only counted.
    """
    skipped = [verdict for verdict in verdicts if verdict.status == "skip"]
    # where nothing ran at all, each reason is what the user has to know
    has_run = any(v.check == AGREES and v.status != "skip" for v in verdicts)
    counted = [v for v in skipped if has_run and named is not None and v.subject not in named and _is_absent(v)]
    reasons: dict[str, list[str]] = {}
    for verdict in skipped:
        if verdict not in counted:
            name = verdict.place if verdict.check == AGREES else f"{verdict.place} {verdict.check}"
            reasons.setdefault(verdict.detail, []).append(name)
    lines = [f"not run: {', '.join(names)}: {reason}" for reason, names in reasons.items()]
    others = count_of("other runtime", len({verdict.subject for verdict in counted}))
    return [*lines, f"not run: {others}: {HOW_TO_GET}"] if counted else lines


def _is_absent(verdict: Verdict) -> bool:
    """Return whether a runtime did not run since it is not here, or takes longer: nothing that this run brought up."""
    is_runtime = verdict.check == AGREES and verdict.subject in RUNTIMES
    return is_runtime and verdict.detail == RUNTIMES[verdict.subject].left_out()


def noted(verdicts: Sequence[Verdict]) -> list[str]:
    """Return a line for each note: what a user should know although nothing failed."""
    return [f"{verdict.place} {verdict.check}: {verdict.note}" for verdict in verdicts if verdict.note]


def in_words(rows: Sequence[ReportTable], lines: Sequence[str]) -> list[str]:
    """Return a line that explains words of the tables and of the lines below them."""
    return glossary((cell for table in rows for row in table.rows for cell in row.cells), lines)


def first_line(manifest: Manifest) -> list[str]:
    """Return the line on which model was asked about a config, or why none was; no line without a config."""
    return [] if manifest.model is None else [manifest.model.line]


def placed(verdicts: Sequence[Verdict]) -> list[str]:
    """Return a line for each runtime that runs nothing: where its nodes would run, and that none did."""
    told = (v for v in verdicts if v.check == PLACED and v.status == "pass" and not RUNTIMES[v.subject].runs)
    return [f"{verdict.place} {verdict.check}: {verdict.detail}" for verdict in told]


def rows_held(verdicts: Sequence[Verdict]) -> list[str]:
    """Return a line for each file on how many of its stored rows were held, and on where a runtime ran its nodes."""
    passed = (v for v in verdicts if v.check in MEASURES and v.status == "pass" and v.detail)
    lines = [f"{verdict.place} {verdict.check}: {verdict.detail}" for verdict in passed]
    return [line for line in lines if line not in placed(verdicts)]


def headline(manifest: Manifest, verdicts: Sequence[Verdict]) -> str:
    """Return one line with the outcome, and with how much was proved."""
    if not verdicts:
        return "not validated"
    agreeing = {v.subject for v in verdicts if v.check == AGREES and v.status == "pass"}
    agreed = f"agrees on {count_of('runtime', len(agreeing))}"
    wrong = sum(v.status == "fail" for v in verdicts)
    ran = count_of("check", sum(v.status != "skip" for v in verdicts))
    if wrong:
        parts = [f"FAILED: {wrong} of {ran}; {agreed}"]
    elif agreeing:
        parts = [f"passed: {agreed}, all {ran}"]
    else:  # files that no runtime ran have not passed, though nothing failed
        parts = [f"{agreed}, all {ran} passed"]
    reference = reference_of(manifest, verdicts)
    compared = reference if reference.startswith(NO_REFERENCE) else f"compared with {reference}"
    return "; ".join([*parts, *_unrun_checks(verdicts), compared])


def _unrun_checks(verdicts: Sequence[Verdict]) -> list[str]:
    """Return, in words, how many checks did not run; runtimes that did not have a line of their own."""
    count = sum(v.status == "skip" and v.check != AGREES for v in verdicts)
    return [f"{count_of('check', count)} not run"] if count else []


def read_from(manifest: Manifest) -> str:
    """Return one line on which parameters were read, and from where; of long lists it says the length."""
    offset = counted_from(manifest.inputs) or 0
    fields = {"positions": manifest.positions, "position_offset": offset, "mode": manifest.mode}
    params = {**manifest.params, **fields, "max_len": manifest.max_len}
    # by the place in the config: "", a section as rope_scaling, or a key of another name
    places: dict[str, list[str]] = {"": []}
    for name, where in manifest.origin.items():
        if name in params:
            section, _, key = where.rpartition(".")
            shown = f"{name} {_shown(params[name])}"
            is_key = key == name and " " not in where
            places.setdefault(section if is_key else "", []).append(shown if is_key else f"{shown} ({where})")
    read = ", ".join(places.pop(""))
    parts = [*([read] if read else []), *(f"of {section}: {', '.join(some)}" for section, some in places.items())]
    unused = f"; not used: {manifest.origin['not used']}" if "not used" in manifest.origin else ""
    unread = f"; not read: {manifest.origin['not read']}" if "not read" in manifest.origin else ""
    still = manifest.origin.get("without rotation")
    unrotated = f"; {still} do{'' if ',' in still else 'es'} not rotate" if still else ""
    return f"read from {manifest.origin['config']}: {'; '.join(parts)}{unused}{unread}{unrotated}"


def _shown(value: object) -> object:
    """Return a value as one word: a list of a few numbers, one for each axis, as -p takes it; how long others are."""
    if not isinstance(value, (tuple, list)):
        return value
    return ",".join(map(str, value)) if len(value) <= SHORT else f"{len(value)} numbers"


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
    """Return a row as JSON values; a NaN or infinite error becomes null, as JSON has no such numbers."""
    fields = {**asdict(verdict), "code": code_of(verdict.check)}
    if not verdict.part:
        del fields["part"]
    bins = [peak for curve in fields["curves"] for peak in curve["bins"]]
    for numbers in (*fields["comparisons"], *bins):
        for key in {"max_abs", "max_ulp", "peak", "error", "allowed"} & numbers.keys():
            numbers[key] = numbers[key] if np.isfinite(numbers[key]) else None
    return fields


@dataclass(frozen=True)
class ReportParts:
    """A whole report in words: report.md and report.html are made of it.

    Args:
        title: What was exported.
        headline: The outcome in one line.
        asked: A line on which model was asked, or none.
        failures: A line for each failure, and what to do.
        tables: The rows of files and of runtimes.
        facts: What was exported, and of what: by name.
        standing: Lines on what the report is based on.
        below: The last lines: what did not run, and what words mean.
    """

    title: str
    headline: str
    asked: tuple[str, ...]
    failures: tuple[str, ...]
    tables: tuple[ReportTable, ...]
    facts: Mapping[str, str]
    standing: tuple[str, ...]
    below: tuple[str, ...]


def parts_of(manifest: Manifest, verdicts: Sequence[Verdict], basis: Basis) -> ReportParts:
    """Return a report in words."""
    shown = tables(verdicts)
    stored = f", {int(manifest.table_rows):,} rows stored" if manifest.table_rows.isdecimal() else ""
    method = f" ({manifest.method}{stored})" if manifest.method else ""
    title = f"{manifest.scheme}, {'whole model' if manifest.is_whole else manifest.mode}{method}"
    head = headline(manifest, verdicts)
    asked, wrong = first_line(manifest), failures(verdicts)
    facts = facts_of(manifest, basis)
    standing = [line for line in (loosest(basis, manifest, verdicts),) if line]
    standing += [
        *rows_held(verdicts),
        *placed(verdicts),
        *noted(verdicts),
        *([read_from(manifest)] if manifest.origin else []),
    ]
    explained = [title, head, *asked, *(f"{key}: {value}" for key, value in facts.items()), *standing]
    below = (*not_run(verdicts), *in_words(shown, explained))
    return ReportParts(title, head, tuple(asked), tuple(wrong), tuple(shown), facts, tuple(standing), below)


def facts_of(manifest: Manifest, basis: Basis) -> dict[str, str]:
    """Return what was exported, and of what, by name."""
    facts = {
        "parameters": ", ".join(f"{k}={v}" for k, v in manifest.params.items()) or "none",
        "positions": manifest.positions or "as the module takes them",
        "validated up to length": f"{manifest.max_len:,}",
        "dtype": manifest.dtype,
        "opset": f"{manifest.opset} ({manifest.opset_reason}), IR version {manifest.ir_version}: {manifest.loads_on}",
        "rotary operator": manifest.rotary_op,
        "attention operator": manifest.attention_op,
        "inputs": "; ".join(map(str, manifest.inputs)) or "none",
        "outputs": "; ".join(map(str, manifest.outputs)),
        "manifest.json": f"sha256 {basis.manifest_sha256}",
        "made with": ", ".join(f"{k} {v}" for k, v in manifest.versions.items()),
    }
    if manifest.quantize:
        facts["weights of linear layers"] = f"{manifest.quantize}, accuracy level {manifest.accuracy_level}"
    if manifest.artifact("onnx") and are_looked_up(manifest.inputs):
        facts["a position out of range"] = CHECKED if manifest.check_positions else UNCHECKED
    facts |= {"assumed": "; ".join(manifest.notes)} if manifest.notes else {}
    return facts | ({"not tried": "; ".join(manifest.not_tried)} if manifest.not_tried else {})


def report_markdown(manifest: Manifest, verdicts: Sequence[Verdict], basis: Basis) -> str:
    """Return the report as Markdown, in the order of a terminal: the verdict, what failed, the tables, then facts."""
    parts = parts_of(manifest, verdicts, basis)
    rows = [table(part.columns, [row.cells for row in part.rows]) for part in parts.tables]
    facts = [f"{key}: {value}" for key, value in parts.facts.items()]
    begun = [f"# {parts.title}", parts.headline, *parts.asked]
    texts = [*_one_line(begun), _bullets(parts.failures), *rows, _bullets([*facts, *parts.standing, *parts.below])]
    return "\n\n".join(printable(text) for text in texts if text) + "\n"


def _bullets(lines: Iterable[str]) -> str:
    """Return lines as a list."""
    return "\n".join(f"* {line}" for line in _one_line(lines))


def _one_line(lines: Iterable[str]) -> list[str]:
    """Return lines with spaces for line ends: the second line of a note could pass for a line of this tool."""
    return [line.replace("\n", " ") for line in lines]


def write_report(
    folder: Path, manifest: Manifest, verdicts: Sequence[Verdict], basis: Basis, page: str | None = None
) -> None:
    """Write report.md, report.html where there is a page, and report.json, the last with the digests of all."""
    as_json, as_markdown, as_html = (folder / name for name in REPORTS)
    as_markdown.write_text(report_markdown(manifest, verdicts, basis), encoding="utf-8")
    data = {**report_json(manifest, verdicts, basis), "markdown_sha256": sha256(as_markdown)}
    if page is not None:
        as_html.write_text(page, encoding="utf-8", newline="\n")
        data["html_sha256"] = sha256(as_html)
    as_json.write_text(sealed_text(data), encoding="utf-8")
