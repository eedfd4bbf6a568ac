"""Findings of `posenc inspect` have codes, and words that `posenc explain` prints."""

import re
from dataclasses import astuple

import pytest

from helpers.shared import ROOT, Cli
from posenc_export.common.explanations import Explanation
from posenc_export.proof.checks.catalogue import explanations
from posenc_export.read.findings import FINDINGS, finding, finding_words


def test_no_check_has_the_code_or_the_name_of_a_finding() -> None:
    checks = {word for entry in explanations() for word in (entry.code, entry.name)}
    assert not checks & {word for entry in finding_words() for word in (entry.code, entry.name)}


@pytest.mark.parametrize("entry", finding_words(), ids=lambda entry: entry.name)
def test_each_text_says_something(entry: Explanation) -> None:
    code, asks, failure, remedy, example, _ = astuple(entry)
    assert asks.endswith("?"), code
    assert remedy.endswith("."), code
    assert not failure.endswith("."), code
    assert all(len(text) > 20 and "\n" not in text for text in (asks, failure, remedy, example)), code


PAGES = sorted((ROOT / "docs").rglob("*.md"))


def test_an_extension_that_is_advised_says_where_the_file_goes() -> None:
    texts = [entry.remedy for entry in finding_words()] + [page.read_text(encoding="utf-8") for page in PAGES]
    advice = [words for text in texts for words in re.findall(r"posenc extend MODEL\.onnx[^`.]*(?:\.onnx)?", text)]
    assert len(advice) >= 7
    assert [words for words in advice if not words.endswith(" -o OUT.onnx")] == []


def test_a_finding_has_the_code_of_its_name_and_the_usual_severity() -> None:
    made = finding("ends", "/rotary/Gather", "ends at 512")
    assert (made.code, made.severity) == ("PE201", "note")
    assert finding("ends", "", "ends at 512", "error").severity == "error"


def test_explain_says_all_of_a_finding(cli: Cli) -> None:
    entry = FINDINGS["wrong-beyond"]
    for word in ("PE202", "pe202", "wrong-beyond"):
        said = " ".join(cli("explain", word).output.split())
        assert said.startswith("PE202 wrong-beyond")
        assert all(text in said for text in (entry.asks, entry.failure, entry.remedy, entry.example))


def test_the_page_of_checks_has_the_findings() -> None:
    page = (ROOT / "docs" / "reference" / "checks.md").read_text(encoding="utf-8")
    assert all(f"| {entry.code} | `{entry.name}` |" in page for entry in finding_words())
