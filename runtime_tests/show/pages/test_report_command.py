"""`posenc report`, `posenc-export --html` and `posenc_export.report`: where pages go, and what they end with."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import posenc_export
from helpers.shared import Cli
from posenc_export.bundle.place import first_foreign
from posenc_export.common.errors import BadInput
from posenc_export.proof.report import schema

QUICK = ("--runtime", "ort-cpu")
SMALL = ("export", "-p", "d_model=8", "--max-len", "24", "-f", "onnx", *QUICK, "-o", "made")


def test_a_page_of_a_bundle(cli: Cli, bundle: Path) -> None:
    before = {file.name: file.read_bytes() for file in bundle.iterdir()}
    result = cli("report", str(bundle), *QUICK, "-o", "a page.html")
    assert (result.exit_code, result.output.splitlines()[-1]) == (0, "wrote a page.html")
    page = Path("a page.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "ort-cpu" in page
    assert {file.name: file.read_bytes() for file in bundle.iterdir()} == before
    assert {file.name for file in Path().iterdir()} == {"a page.html", bundle.name}, "no scratch file is left"
    assert Path("a page.html").stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_the_page_of_a_bundle_that_fails_says_why(cli: Cli, bundle: Path) -> None:
    (bundle / "model.onnx").write_bytes(b"other bytes")
    result = cli("report", str(bundle), *QUICK, "-o", "page.html", "-q")
    assert (result.exit_code, result.output) == (1, "")
    page = Path("page.html").read_text(encoding="utf-8")
    assert "FAILED" in page
    assert "PE101 onnx integrity: model.onnx has 11 bytes" in page
    assert "model.onnx is not the file that its manifest lists" in page


@pytest.mark.exhaustive
def test_what_the_bundles_own_report_says_is_not_believed(cli: Cli, bundle: Path) -> None:
    for name in ("report.json", "report.md"):
        text = (bundle / name).read_text(encoding="utf-8")
        (bundle / name).write_text(text.replace("pass", "certified by nobody"), encoding="utf-8")
    assert cli("report", str(bundle), *QUICK, "-o", "page.html").exit_code == 0
    assert "certified by nobody" not in Path("page.html").read_text(encoding="utf-8")


def test_json_and_a_required_runtime_that_is_not_there(cli: Cli, bundle: Path) -> None:
    result = cli("report", str(bundle), *QUICK, "--json", "-o", "page.html")
    data = json.loads(result.stdout)
    schema.adapter().validate_python(data)
    assert data["passed"] is True
    code = cli("report", str(bundle), *QUICK, "--require", "ort-cuda", "-o", "other.html").exit_code
    assert code == (3 if not Path("other.html").exists() else code)


def test_where_no_page_can_be_put(cli: Cli, bundle: Path) -> None:
    Path("there.html").write_text("mine", encoding="utf-8")
    Path("folder.html").mkdir()
    Path("loop.html").symlink_to("loop.html")
    wrong = {
        "there.html": "is there: give another with -o, or --force to replace it",
        "loop.html": "give another with -o",
        "folder.html": "is a folder: give the path of a file with -o, as folder.html/report.html",
        "nowhere/page.html": "nowhere is no folder that is there: make it, or give another path with -o",
        "page.png": "give the page a name that ends in .html: got page.png",
        str(bundle / "page.html"): "lies in the bundle, which is left as it is",
        "x" * 300 + ".html": "cannot write",
    }
    for place, words in wrong.items():
        result = cli("report", str(bundle), *QUICK, "-o", place)
        assert (result.exit_code, words in result.output) == (2, True), (place, result.output)
        assert len(result.output.splitlines()) == 1
    assert Path("there.html").read_text(encoding="utf-8") == "mine"
    assert cli("report", str(bundle), *QUICK, "-o", "there.html", "--force", "-q").exit_code == 0
    assert Path("there.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert cli("report", str(bundle)).exit_code == 2
    assert cli("report", "no bundle", "-o", "page.html").exit_code == 2
    assert not Path("page.html").exists()


def test_from_python(bundle: Path, tmp_path: Path) -> None:
    result = posenc_export.report(bundle, tmp_path / "page.html", runtimes=("ort-cpu",))
    assert result.passed
    with pytest.raises(BadInput, match=r"give another with to=, or force=True to replace it"):
        posenc_export.report(bundle, tmp_path / "page.html")


def test_html_adds_a_page_that_is_ours(cli: Cli) -> None:
    result = cli(*SMALL, "--html")
    assert (result.exit_code, result.output.splitlines()[-1]) == (0, str(Path("made/report.html")))
    assert Path("made/report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    schema.adapter().validate_python(json.loads(Path("made/report.json").read_text(encoding="utf-8")))
    assert first_foreign(Path("made")) == ""
    assert cli("validate", "made", *QUICK, "-q").exit_code == 0
    assert cli(*SMALL, "-q").exit_code == 0, "it is replaced by a bundle without a page"
    assert not Path("made/report.html").exists()


@pytest.mark.exhaustive
def test_a_page_that_was_changed_or_put_there_is_left_alone(cli: Cli) -> None:
    assert cli(*SMALL, "--html", "--no-validate", "-q").exit_code == 0
    with Path("made/report.html").open("a", encoding="utf-8") as file:
        file.write("my notes")
    result = cli(*SMALL, "--no-validate")
    assert (result.exit_code, "report.html, which was changed" in result.output) == (2, True)
    shutil.rmtree("made")
    assert cli(*SMALL, "--no-validate", "-q").exit_code == 0
    Path("made/report.html").write_text("mine", encoding="utf-8")
    result = cli(*SMALL, "--no-validate")
    assert (result.exit_code, "report.html, which posenc-export did not write" in result.output) == (2, True)


def test_a_bundle_whose_golden_data_are_damaged_has_a_page(cli: Cli, bundle: Path) -> None:
    (bundle / "golden.npz").write_bytes(b"PK nothing")
    result = cli("report", str(bundle), *QUICK, "-o", "page.html")
    assert result.exit_code == 1
    page = Path("page.html").read_text(encoding="utf-8")
    assert "golden.npz is not the file that its manifest lists" in page
