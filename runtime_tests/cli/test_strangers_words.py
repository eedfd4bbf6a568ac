"""Words of a stranger's bundle begin no line of output, steer no terminal, and are no command of a build server."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import posenc_export
from helpers.bundles import edit, put
from helpers.shared import Cli
from posenc_export.common.errors import Unavailable, one_line, printable
from posenc_export.proof.judging.verdict import Verdict

V1 = re.compile(r"##\[([\w-]+)[^\]]*\]")
V2 = re.compile(r"\s*::([\w-]+)[^:]*::")
ATTACKS = (
    "::stop-commands::pwned",
    "  \u00a0::stop-commands::pwned",
    "fine ##[stop-commands]pwned",
    "a\n::stop-commands::pwned",
    "a\r::stop-commands::pwned",
    "a\x0b::stop-commands::pwned",
    "a\u2028::stop-commands::pwned",
    "a%0A::stop-commands::pwned",
    "##vso[task.complete result=Succeeded;]done",
    "\x1b[2J\x1b]0;owned\x07\u202e\x9b",
)


def commands(output: str) -> list[str]:
    """Return the commands that GitHub's runner finds in what was printed, as its ActionCommand reads lines."""
    lines = re.split(r"\r\n|\r|\n", output)
    found = [V2.match(line) or V1.search(line) for line in lines]
    return [match[1] for match in found if match]


def test_the_runner_of_this_test_finds_commands() -> None:
    assert commands("x\n ::stop-commands::a\ny ##[add-mask]b\r::error title=c::d") == [
        "stop-commands",
        "add-mask",
        "error",
    ]


@pytest.mark.parametrize("text", ATTACKS)
def test_no_text_is_a_command(text: str) -> None:
    assert commands(printable(text)) == []
    assert not re.search(r"##\w*\[", printable(text))
    assert len(one_line(text).splitlines()) == 1
    assert not any(ord(character) < 32 for character in one_line(text))
    assert Unavailable(text).format_message().splitlines() == [one_line(text)]


@pytest.mark.parametrize("text", ["::", "a::b", "#[x]", "## [x]", "std::vector", "x: float32\n   ^"])
def test_harmless_texts_stay_as_they_are(text: str) -> None:
    assert printable(f"of {text}") == f"of {text}"


@pytest.fixture
def hostile(bundle: Path) -> Path:
    """A bundle that says such words wherever a manifest may hold any text."""

    def say(m: dict[str, Any]) -> None:
        m.update(notes=list(ATTACKS), not_tried=list(ATTACKS), reference=ATTACKS[0], scheme=ATTACKS[0])
        m.update(params={ATTACKS[0]: ATTACKS[2]}, versions={ATTACKS[0]: ATTACKS[3]}, opset_reason=ATTACKS[0])
        m.update(origin={"config": ATTACKS[0], ATTACKS[2]: ATTACKS[3]}, half_safe=ATTACKS[3], loads_on=ATTACKS[0])
        m["model"] = {"words": ATTACKS[0], "library": ATTACKS[2], "permutation": [], "crashed": False}
        m["model"].update(note=ATTACKS[3], difference="", unasked="")

    edit(bundle, say)
    return bundle


def words_begin(line: str) -> bool:
    """Return whether a line begins with a word of the bundle."""
    return any(line.lstrip().startswith((text, one_line(text).lstrip())) for text in ATTACKS)


def test_a_report_holds_no_command_but_ours(cli: Cli, hostile: Path) -> None:
    done = cli("validate", str(hostile), "--runtime", "ort-cpu", "--github", "-v")
    assert done.exit_code in (0, 1), done.output
    assert {*commands(done.output)} <= {"error", "warning", "notice"}
    assert commands(done.output).count("warning") == len(ATTACKS)
    assert not any(words_begin(line) for line in done.output.splitlines())
    assert {ord(c) for c in done.output if ord(c) < 32} == {10}
    assert f"note: {ATTACKS[0]}" in done.output.splitlines()


def test_json_holds_no_command_either(cli: Cli, hostile: Path) -> None:
    for command in ("validate", "compat"):
        words = ("--runtime", "ort-cpu") if command == "validate" else ()
        done = cli(command, str(hostile), *words, "--json")
        assert commands(done.stdout) == []
        data = json.loads(done.stdout)
        assert command == "compat" or data["notes"] == list(ATTACKS)


@pytest.mark.parametrize("name", ["::stop-commands::x", "onnx\x1b[2J", "a b", "##[x]", ""])
def test_a_format_is_a_name(cli: Cli, bundle: Path, name: str) -> None:
    edit(bundle, put(name, "artifacts", 0, "format"))
    done = cli("validate", str(bundle))
    assert (done.exit_code, done.output.count("\n")) == (2, 1)
    assert "artifacts[0].format must be a name of a format, got" in done.output
    assert commands(done.output) == []


def test_what_a_runtime_says_is_one_line(cli: Cli, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = [Verdict("ort-cpu", "agrees", "skip", text) for text in ATTACKS]
    said += [Verdict("onnx", "structure", "fail", text) for text in ATTACKS]
    result = replace(posenc_export.validate(bundle, runtimes=["ort-cpu"]), verdicts=tuple(said))
    monkeypatch.setattr(posenc_export, "validate", lambda *_, **__: result)
    done = cli("validate", str(bundle), "--github")
    assert {*commands(done.output)} == {"error", "notice"}
    assert not any(words_begin(line) for line in done.output.splitlines())
