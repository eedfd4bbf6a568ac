"""Every check of a report is explained: by one table, with codes that stay; `posenc explain` prints it."""

import ast
import json
from dataclasses import astuple

import pytest

from helpers.shared import ROOT, Cli
from posenc_export.common.explanations import Explanation, Words
from posenc_export.proof.checks import CHECKS
from posenc_export.proof.checks.catalogue import (
    CATALOGUE,
    explained,
    explanation,
    explanations,
    markdown,
)
from posenc_export.proof.judging.verdict import AGREES, MODEL
from posenc_export.read.findings import finding_words

CODES = {
    "PE101": "integrity",
    "PE102": "structure",
    "PE103": "static-axis",
    "PE104": "agrees",
    "PE105": "refusal",
    "PE106": "lost-input",
    "PE107": "purity",
    "PE108": "determinism",
    "PE109": "provider",
    "PE110": "placement",
    "PE111": "io-binding",
    "PE112": "half-safe",
    "PE114": "model",
}
"""What scripts look for: a code of a release is here, and never changed nor given again."""


def test_codes_are_what_they_have_always_been() -> None:
    codes = {entry.code: entry.name for entry in explanations()}
    assert {code: codes.get(code) for code in CODES} == CODES
    assert list(codes) == sorted(codes)


OF_OTHERS = {"said['check']", "step.key[2]", "self.check", "key[2]"}
"""Checks that a process in which a bundle is validated has named: those are compared with the catalogue."""


def named(source: str) -> set[str]:
    """The checks that verdicts of a source are made with; of registered checks it says `.name`."""
    made = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Call) and ast.unparse(n.func) == "Verdict"]
    checks = [n.args[1] for n in made]
    constants = {"AGREES": AGREES, "MODEL": MODEL}
    known = [constants.get(ast.unparse(n), n.value if isinstance(n, ast.Constant) else "") for n in checks]
    others = [ast.unparse(n) for n, word in zip(checks, known, strict=True) if not word]
    assert {text for text in others if not text.endswith(".name")} <= OF_OTHERS
    return {str(word) for word in known if word}


def test_every_check_that_can_be_in_a_verdict_is_explained_and_no_other() -> None:
    proof = ROOT / "export" / "posenc_export" / "proof"
    sources = [
        file for file in proof.rglob("*.py") if "cuda" not in file.relative_to(proof).parts
    ]  # whose rows are its own
    words = {word for source in sources for word in named(source.read_text(encoding="utf-8"))}
    assert words == {"agrees", "integrity", "model", "refusal"}
    assert {*words, *CHECKS} == set(CATALOGUE)


@pytest.mark.parametrize("entry", explanations(), ids=lambda entry: entry.name)
def test_each_text_says_something(entry: Explanation) -> None:
    code, asks, failure, remedy, example, _ = astuple(entry)
    assert asks.endswith("?"), code
    assert remedy.endswith("."), code
    assert not failure.endswith("."), code  # it is a cell of a table, and a sentence elsewhere
    assert all(len(text) > 20 and "\n" not in text for text in (asks, failure, remedy, example)), code


def test_a_code_and_a_name_are_given_once() -> None:
    for code, name in (("PE101", "new"), ("PE999", "agrees")):
        with pytest.raises(ValueError, match=r"is taken|is registered twice"):
            explained(name, Words(code, asks="", failure="", remedy="", example=""))


def test_the_page_has_the_table_of_the_code() -> None:
    text = (ROOT / "docs" / "reference" / "checks.md").read_text(encoding="utf-8")
    assert text == markdown(finding_words()), "run `posenc explain --markdown > docs/reference/checks.md`"


def test_explain_lists_all_and_says_all_of_one(cli: Cli) -> None:
    listed = cli("explain").output
    assert all(f"{code}  {name}" in listed for code, name in CODES.items())
    entry = CATALOGUE["static-axis"]
    for word in ("PE103", "pe103", "static-axis", "Static-Axis"):
        said = " ".join(cli("explain", word).output.split())
        assert said.startswith("PE103 static-axis")
        assert all(text in said for text in (entry.asks, entry.failure, entry.remedy, entry.example))
    assert json.loads(cli("explain", "PE103", "--json").stdout)[0]["code"] == "PE103"
    assert cli("explain", "--markdown").stdout == markdown(finding_words())


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_explain_keeps_to_the_width(cli: Cli, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for words in (["explain"], *(["explain", code] for code in CODES)):
        assert max(map(len, cli(*words).output.splitlines())) <= min(columns, 100), words


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["PE999"], "unknown code 'PE999': known: PE101, PE102"),
        (["static-axes"], "did you mean 'static-axis'?"),
        (["--json", "--markdown"], "give one of them"),
    ],
)
def test_what_cannot_be_explained_is_one_line(cli: Cli, words: list[str], text: str) -> None:
    result = cli("explain", *words)
    assert (result.exit_code, text in result.output, result.output.count("\n")) == (2, True, 1), result.output


def test_a_check_is_found_by_code_and_by_name() -> None:
    for code, name in CODES.items():
        assert explanation(code) is explanation(name) is CATALOGUE[name]
