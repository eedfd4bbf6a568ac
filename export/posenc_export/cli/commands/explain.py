"""`posenc explain`: what a check or a finding asks, what it means, and what to do then."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict

import click

from posenc_export.cli.declared import JSON, switch
from posenc_export.cli.options import SETTINGS, guarded
from posenc_export.cli.output.helping import Command, epilog
from posenc_export.common.errors import BadInput, bad_input
from posenc_export.common.explanations import Explanation
from posenc_export.proof.checks.catalogue import explanation, explanations, markdown
from posenc_export.read import FINDINGS, finding_words

WIDEST = 100
"""The widest text, in columns, that is easy to read."""


def complete_check(context: click.Context, parameter: click.Parameter, text: str) -> list[str]:
    """Complete a code or the name of a check, or of a finding."""
    words = [word for entry in entries_of_all() for word in (entry.code, entry.name)]
    return [word for word in words if word.lower().startswith(text.lower())]


@click.command(
    cls=Command,
    context_settings=SETTINGS,
    short_help="Say what a check of a report, or a finding, means, and what to do.",
    epilog=epilog(
        ["posenc explain", "posenc explain PE103", "posenc explain static-axis", "posenc explain PE202"],
        {0: "the words are printed"},
    ),
)
@click.argument("check", required=False, metavar="[CODE|NAME]", shell_complete=complete_check)
@JSON
@switch("--markdown as_markdown", "Print docs/reference/checks.md.")
@guarded
def explain(check: str | None, as_json: bool, as_markdown: bool) -> None:
    """Say what a check asks, what its failure means and what to do, by its CODE or NAME; without one, list all.

    Codes from PE201 on are findings of `posenc inspect`.
    """
    if as_json and as_markdown:
        raise BadInput("--json and --markdown are two ways to print one list: give one of them")
    if as_markdown:
        click.echo(markdown(finding_words()), nl=False)
        return
    with bad_input():
        entries = entries_of_all() if check is None else [explanation(check, entries_of_all())]
    if as_json:
        click.echo(json.dumps([asdict(entry) for entry in entries], indent=1))
    else:
        click.echo(listed(entries) if check is None else whole(entries[0]), nl=False)


def entries_of_all() -> list[Explanation]:
    """Return the words of every check and of every finding, by their codes."""
    return [*explanations(), *finding_words()]


def listed(entries: list[Explanation]) -> str:
    """Return each entry with its code, its name and its question."""
    formatter = _formatter()
    formatter.write_dl([(f"{entry.code}  {entry.name}", entry.asks) for entry in entries])
    return formatter.getvalue()


def whole(entry: Explanation) -> str:
    """Return the whole explanation of a check, or of a finding."""
    meaning = "it means" if entry.name in FINDINGS else "a failure means"
    formatter = _formatter()
    formatter.write(f"{entry.code} {entry.name}\n")
    with formatter.indentation():
        formatter.write_dl(
            [
                ("asks", entry.asks),
                (meaning, f"{entry.failure}."),
                ("what to do", entry.remedy),
                ("for example", f"{entry.example}."),
            ]
        )
    return formatter.getvalue()


def _formatter() -> click.HelpFormatter:
    return click.HelpFormatter(width=min(shutil.get_terminal_size().columns, WIDEST))
