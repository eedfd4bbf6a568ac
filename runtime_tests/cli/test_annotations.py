"""Annotations for GitHub's workflow runs, read back as GitHub's runner reads them."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from helpers.shared import Cli
from posenc_export.bundle.folder import Bundle
from posenc_export.cli.output.annotations import annotated
from posenc_export.proof.judging.verdict import Verdict

SMALL = ["-p", "d_model=8", "--max-len", "40", "-f", "onnx", "--runtime", "ort-cpu"]
COMMAND = re.compile(r"::(\w+) ([^:]*)::(.*)")


def read(line: str) -> tuple[str, dict[str, str], str]:
    """A command as the runner takes it apart: what it is, its properties (up to the next comma), its message."""
    found = COMMAND.fullmatch(line)
    assert found, line
    kind, properties, message = found.groups()
    named = dict(one.split("=", 1) for one in properties.split(","))
    for code, character in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        named = {key: value.replace(code, character) for key, value in named.items()}
        message = message.replace(code, character) if code not in ("%3A", "%2C") else message
    return kind, named, message


def test_each_failure_is_an_error_and_what_did_not_run_a_notice(small_bundle: Path) -> None:
    manifest = replace(Bundle.open(small_bundle).manifest, not_tried=("batch1-seq99: takes 99 tokens",))
    verdicts = [
        Verdict("onnx", "integrity", "pass"),
        Verdict("ort-cpu", "agrees", "fail", "y, 100% off: 0.5\nand more"),
        Verdict("onnx", "static-axis", "fail", "axis 'seq' of x is 11"),
        *(Verdict(name, "agrees", "skip", "no driver: 100%") for name in ("ort-cuda", "ort-cpp-cuda")),
    ]
    lines = list(annotated(manifest, verdicts))
    assert lines[0] == "::error title=PE104 agrees::ort-cpu: y, 100%25 off: 0.5%0Aand more"
    assert [read(line) for line in lines] == [
        ("error", {"title": "PE104 agrees"}, "ort-cpu: y, 100% off: 0.5\nand more"),
        ("error", {"title": "PE103 static-axis"}, "onnx: axis 'seq' of x is 11"),
        ("warning", {"title": "not tried"}, "batch1-seq99: takes 99 tokens"),
        ("notice", {"title": "not run"}, "ort-cuda, ort-cpp-cuda: no driver: 100%"),
    ]


@pytest.mark.parametrize("text", ["a,b:c", "::error::x", "50%", "%0A", "one\ntwo", "one\r\ntwo", "title=a,file=b::c"])
def test_no_text_ends_a_title_or_begins_another_command(text: str) -> None:
    from posenc_export.cli.output.annotations import _command

    line = _command("error", text, text)
    assert len(line.splitlines()) == 1
    expected = text.replace("\r\n", "\n")
    assert read(line) == ("error", {"title": expected}, expected)


def test_what_steers_a_terminal_is_escaped(small_bundle: Path) -> None:
    manifest = Bundle.open(small_bundle).manifest
    (line, *_) = annotated(manifest, [Verdict("onnx", "structure", "fail", "\x1b[2Jnames")])
    assert line == r"::error title=PE102 structure::onnx: \x1b[2Jnames"


def test_github_adds_annotations_to_a_report(cli: Cli, small_bundle: Path) -> None:
    result = cli("validate", str(small_bundle), "--github", "-q", "--runtime", "ort-cpu")
    lines = result.output.splitlines()
    assert "notice" in {read(line)[0] for line in lines}  # TorchScript, of a bundle that is not trusted
    assert not any(line.startswith("::") for line in cli("validate", str(small_bundle)).output.splitlines())
    failing = cli("export", *SMALL, "--atol", "0", "--github")
    assert failing.exit_code == 1
    (error,) = (line for line in failing.output.splitlines() if line.startswith("::error"))
    assert read(error)[1] == {"title": "PE104 agrees"}


def test_beside_json_annotations_go_to_stderr(cli: Cli) -> None:
    result = cli("export", *SMALL, "--atol", "0", "--github", "--json")
    assert json.loads(result.stdout)["passed"] is False
    assert "::error title=PE104 agrees::" in result.stderr
