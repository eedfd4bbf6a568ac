"""Verdicts as annotations of GitHub's workflow runs: `::error title=PE104 agrees::ort-cpu: ...`, a line each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from posenc_export.common.errors import unsteered
from posenc_export.proof.checks.catalogue import code_of
from posenc_export.proof.report.report import not_run

if TYPE_CHECKING:
    from posenc_export.bundle.manifest import Manifest
    from posenc_export.proof.judging.verdict import Verdict
    from posenc_export.read import Finding

DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
"""Characters that a message must escape, as GitHub's runner reads them back; % comes first."""
PROPERTY = {**DATA, ":": "%3A", ",": "%2C"}
"""Characters that a title must escape: a colon or a comma would end it."""


def annotated(manifest: Manifest, verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield an error for each failure, a warning for what was not tried, a notice for what did not run."""
    for verdict in verdicts:
        if verdict.status == "fail":
            yield _command("error", f"{code_of(verdict.check)} {verdict.check}", f"{verdict.place}: {verdict.detail}")
    for line in manifest.not_tried:
        yield _command("warning", "not tried", line)
    for line in not_run(verdicts):
        yield _command("notice", "not run", line.removeprefix("not run: "))


def print_findings(findings: Sequence[Finding], to_stderr: bool) -> None:
    """Print the findings of an inspection, each by how grave it is; to stderr where stdout is JSON."""
    for entry in findings:
        where = f"{entry.where}: " if entry.where else ""
        kind = "notice" if entry.severity == "note" else entry.severity
        click.echo(_command(kind, f"{entry.code} {entry.name}", f"{where}{entry.detail}"), err=to_stderr)


def print_annotations(values: Mapping[str, object], manifest: Manifest, verdicts: Sequence[Verdict]) -> None:
    """Print annotations where --github asks for them; to stderr where stdout is JSON: GitHub reads both."""
    for line in annotated(manifest, verdicts) if values["github"] else ():
        click.echo(line, err=bool(values["as_json"]))


def _command(kind: str, title: str, message: str) -> str:
    return f"::{kind} title={_escaped(title, PROPERTY)}::{_escaped(message, DATA)}"


def _escaped(text: str, escapes: Mapping[str, str]) -> str:
    """Return a text as GitHub's runner reads it back, without what would steer a terminal."""
    # a carriage return would hide the text before it
    lines = unsteered(text.replace("\r\n", "\n").replace("\r", "\n"))
    return "".join(escapes.get(character, character) for character in lines)
