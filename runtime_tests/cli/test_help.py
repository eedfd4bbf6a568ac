"""Pages of --help: at 80 columns, with headings, examples that can be typed, and what each exit status means."""

import platform
import re
import shlex
from importlib import metadata

import click
import pytest

import posenc
from helpers.shared import ROOT, Cli
from helpers.statuses import statuses_of
from posenc_export.cli import main
from posenc_export.cli.output.helping import ALWAYS, STATUSES, epilog
from posenc_export.proof.runtimes import RUNTIMES

COMMANDS = list(main.commands)


def page(cli: Cli, monkeypatch: pytest.MonkeyPatch, *words: str, columns: int = 80) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    return cli(*words, "--help").output


def test_the_version_names_what_a_bug_report_needs(cli: Cli) -> None:
    lines = cli("--version").output.splitlines()
    assert lines[0] == f"posenc-export {posenc.__version__}"
    assert lines[1].startswith(f"Python {platform.python_version()}, ")
    assert f"torch {metadata.version('torch')}" in lines
    assert any(line.startswith("onnxruntime") for line in lines)


def test_every_page_says_what_exit_statuses_mean(cli: Cli) -> None:
    assert [name for name in COMMANDS if not {0, *ALWAYS} <= statuses_of(name)] == []
    assert statuses_of("") == set(STATUSES)
    assert "Exit status:" in cli("--help").output


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_no_line_is_longer_than_80_columns(cli: Cli, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    text = page(cli, monkeypatch, *command)
    assert max(map(len, text.splitlines())) <= 80
    assert "..." not in text.partition("\n")[2]  # no summary is cut short


def test_options_stand_under_headings_and_arguments_do_not(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    text = page(cli, monkeypatch, "export")
    assert re.findall(r"^(\w[\w ]*):$", text, flags=re.MULTILINE) == [
        *("Whole models", "The encoding", "Files", "Validation", "What is printed", "Other")
    ]
    sections = dict(re.findall(r"^(\w[\w ]*):\n((?:  .*\n)+)", text, flags=re.MULTILINE))
    assert re.findall(r"^  (\S+)", sections["Other"], flags=re.MULTILINE) == ["--version", "-h,"]
    assert "  -o, --output DIR" in sections["Files"]
    assert "  --runtime RUNTIME" in sections["Validation"]
    # a line may end behind the hyphen of a name
    validation = re.sub(r"-\n +", "-", sections["Validation"])
    assert set(RUNTIMES) <= set(re.split(r"[\s,.:]+", validation))


def examples(command: click.Command) -> list[str]:
    found = re.search(r"Examples:\n((?:  .*\n?)+)", command.epilog or "")
    assert found, command.name
    return found.group(1).splitlines()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_can_be_typed(cli: Cli, name: str) -> None:
    assert cli(name, "--help").exit_code == 0
    for line in examples(main.commands[name]):
        posenc, command, *words = shlex.split(line)
        assert (posenc, command) == ("posenc", name)
        context = main.commands[name].make_context(name, words)
        assert context.args == []


def test_the_examples_of_the_group_name_its_commands() -> None:
    for line in examples(main):
        assert shlex.split(line)[1] in COMMANDS


def test_every_exit_status_is_explained_as_in_the_documents(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = re.findall(r"^    (\d+) +(\S.*)$", page(cli, monkeypatch, "export"), flags=re.MULTILINE)
    assert {int(status): words for status, words in shown} == STATUSES
    text = (ROOT / "docs" / "how-to" / "ci.md").read_text(encoding="utf-8").partition("## Exports")[2]
    assert {int(status) for status in re.findall(r"^\| (\d+) \|", text, flags=re.MULTILINE)} == set(STATUSES)


def test_an_epilog_has_the_statuses_of_every_command_and_its_own() -> None:
    always = "\n".join(f"  {status:<3} {words}" for status, words in ALWAYS.items())
    assert epilog(["posenc x"], {}) == f"\b\nExamples:\n  posenc x\n\n\b\nExit status:\n{always}"
    assert "\n  0   done\n  2   other words\n  5   " in epilog(["posenc x"], {0: "done", 2: "other words"})


def test_a_help_names_only_options_that_its_command_has(cli: Cli) -> None:
    for name, command in main.commands.items():
        known = {word for parameter in command.params for word in (*parameter.opts, *parameter.secondary_opts)}
        named = set(re.findall(r"with (--[\w-]+),", " ".join(cli(name, "--help").output.split())))
        assert named <= known, name
