"""What a result is in Python: short in a list, the report where it is printed, and no markup of a stranger's."""

from dataclasses import replace
from pathlib import Path

import pytest

from helpers.reports import BASIS, FAILED, compared, printed, report
from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.manifest import Manifest
from posenc_export.common.markdown import html, plain
from posenc_export.proof.exporter import ExportResult
from posenc_export.proof.judging.verdict import Verdict, worst
from posenc_export.proof.report.glossary import glossary
from posenc_export.proof.report.result import ValidateResult
from posenc_export.proof.report.rows import figure

HOSTILE = "<script>alert('x')</script>\x1b[2J"


@pytest.fixture
def manifest(small_bundle: Path) -> Manifest:
    return Bundle.open(small_bundle).manifest


def test_a_result_is_short_in_a_list(manifest: Manifest) -> None:
    validated = ValidateResult(manifest, tuple(report(*FAILED)), BASIS)
    assert repr(validated) == (
        f"<ValidateResult: 'sinusoidal', dynamic, passed=False, '{validated_headline(validated)}'>"
    )
    exported = ExportResult(manifest, (), BASIS, folder=Path("a folder"))
    assert repr(exported) == ("<ExportResult: 'sinusoidal', dynamic, passed=False, 'not validated', folder='a folder'>")


def validated_headline(result: ValidateResult) -> str:
    """Return the headline in the report, but for the reference."""
    return next(line for line in str(result).splitlines() if line.startswith("FAILED")).partition("; compared")[0]


@pytest.mark.parametrize("more", [(), FAILED], ids=["passed", "failed"])
def test_a_printed_result_is_the_report_of_the_command(manifest: Manifest, more: tuple[Verdict, ...]) -> None:
    result = ValidateResult(replace(manifest, notes=("a note\nof two lines",)), tuple(report(*more)), BASIS)
    on_a_pipe = printed(result.manifest, list(result.verdicts), 400, terminal=False)
    assert str(result).splitlines() == [line.rstrip() for line in on_a_pipe.splitlines()]
    assert str(result).count("ort-cpu ") == 1


def test_an_exported_result_names_its_files_when_it_is_printed(manifest: Manifest) -> None:
    text = str(ExportResult(manifest, (), BASIS, folder=Path("out")))
    assert text.splitlines()[0] == "not validated"
    assert f"out/model.onnx  {manifest.artifacts[0].bytes:,} bytes" in text


def test_nothing_of_a_bundle_becomes_markup_in_a_notebook(manifest: Manifest) -> None:
    verdicts = (
        Verdict("onnx", "purity", "fail", HOSTILE),
        Verdict(HOSTILE, "integrity", "pass", note=HOSTILE),
        Verdict("ort-cpu", "agrees", "pass", "", (compared("eager", 1e-7, 1.0),)),
    )
    page = ValidateResult(replace(manifest, notes=(HOSTILE,)), verdicts, BASIS)._repr_html_()
    assert "<script" not in page
    assert "\x1b" not in page
    assert page.count("&lt;script&gt;") == 5
    assert "<td>1e-07, 1 ulp</td>" in page
    assert html(("a",), [("<b>",)]).count("&lt;b&gt;") == 1


def test_plain_tables_have_even_columns() -> None:
    assert plain(("a", "long"), [("xx", "y"), ("z\n", "")]) == "a    long\nxx   y\nz\\n"


def test_words_that_occur_are_said_in_one_line() -> None:
    assert glossary(["pass", "integrity, structure"], ["agrees on 1 runtime"]) == []
    (line,) = glossary(["2.4e-07, 32 ulp", "2.4e-07 at position 27", "integrity, lost-input"], [])
    assert line == (
        "words: ulp = the step from one number of the dtype to the next; "
        "lost-input = no input is ignored; checks: posenc explain"
    )
    (line,) = glossary(
        ["25% of 4 at position 7"], ["onnx half-safe: off by 5.05 roundings in a", "mask: carries a mask"]
    )
    assert line.startswith("words: 25% of 4 = the largest")
    assert "a rounding = the step of float16" in line
    assert "carries = what an input holds" in line


def test_a_difference_of_large_values_is_a_share_of_the_largest() -> None:
    large = replace(compared("reference", 2.0), peak=8.0, position=7)
    assert figure(large) == "25% of 8 at position 7"
    assert figure(replace(large, peak=1.5)) == "2 at position 7"


def test_a_call_without_an_answer_has_no_error() -> None:
    """Its row said "0, 0 ulp" beside FAIL, where every call was refused."""
    failed = replace(compared("eager", 0.0), output="", passed=False, reason="the runtime refuses it")
    assert figure(worst([failed], "eager")) == "no answer"
    other = compared("eager", 0.0)
    assert worst([failed, other], "eager") is other


def test_the_report_of_a_file_says_the_words_too(manifest: Manifest) -> None:
    from posenc_export.proof.report.report import report_markdown

    text = report_markdown(manifest, report(), BASIS)
    assert "* words: ulp = the step" in text
