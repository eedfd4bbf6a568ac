"""The page of an inspection: findings with what to do, layers, errors; and in notebooks the lines of the command."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers.graph_files import added_row
from helpers.inspections import CURVE, FULL, inspection, rotary
from helpers.opened_pages import Scheme, opened, screenshot
from helpers.shared import Cli
from posenc_export.read.findings import finding
from posenc_export.read.inspection import Inspection, NotJudged
from posenc_export.read.report.text import body_lines
from posenc_export.show.pages.inspected import charts_of, inspection_page, layers_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HOSTILE = "</script><img src=x onerror=alert(1)>"
SCREENS: list[tuple[int, Scheme]] = [(390, "dark"), (1280, "light")]


def test_layers_and_errors_are_those_of_the_inspection() -> None:
    encodings = FULL.encodings
    picture = layers_of(encodings, FULL.attentions)
    assert picture is not None
    assert [band.name for band in picture.bands] == ["rotary (default)", "learned (table)"]
    # a square for each layer; an encoding of no layer is in front of all
    assert [len(band.cells) for band in picture.bands] == [len(encodings[0].layers), 1]
    assert picture.bands[1].cells[0] < min(picture.bands[0].cells)
    assert layers_of((), 3) is None
    (chart,) = charts_of(encodings[0])
    errors = encodings[0].errors
    assert errors is not None
    (group,) = chart.groups
    assert max(one.error for one in group.bins) == max(errors.errors)
    assert {one.allowed for one in group.bins} == {errors.bound}
    assert charts_of(encodings[1]) == []


def test_an_error_is_wrong_where_a_finding_says_so() -> None:
    """Without --fail-above nothing demands 0.001: a line says from where on errors are larger."""
    encoding = FULL.encodings[0]
    found = finding("off-formula", encoding.where, "off by more than 0.001 from position 10 on, by 0.003 at 99")
    for findings, wrong, line in (((), 0, "reported above"), ((found,), 2, "allowed")):
        (chart,) = charts_of(encoding, findings)
        assert sum(point.wrong for point in chart.drawn[0].lines[0].points) == wrong
        assert (chart.reading.line, chart.level) == (line, 1e-3)


def test_numbers_are_those_of_the_command() -> None:
    """An error of 0.00222 is at most 0.0023, on the page as in the lines."""
    errors = replace(CURVE, errors=(0.0, 1e-7, 2e-3, 2.22e-3))
    encoding = replace(FULL.encodings[0], error=2.22e-3, errors=errors)
    told = replace(FULL, encodings=(encoding,))
    assert any("at most 0.0023, at position 99" in line for line in body_lines(told))
    page = inspection_page(told)
    assert page.count("0.0023") > 3
    assert "0.0022" not in page


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_the_page_says_what_the_command_says(chromium: Browser, tmp_path: Path, width: int, scheme: Scheme) -> None:
    unsure = replace(FULL, not_judged=(NotJudged("/layers.1/Add", "not understood"),))
    file = tmp_path / "page.html"
    file.write_text(inspection_page(unsure), encoding="utf-8")
    with opened(chromium, file, scheme, width) as view:
        page = view.page
        text = " ".join(page.locator("body").inner_text().split())
        assert page.title() == "model.onnx: 1 error, 1 note, 1 place not judged"
        for entry in unsure.findings:
            assert f"{entry.where}: {entry.detail}" in text
        assert page.locator("details[open] .muted").count() == 1, "what to do about an error is open"
        assert "not judged /layers.1/Add: not understood" in text
        assert page.locator("#layers rect").count() == sum(len(e.layers) or 1 for e in unsure.encodings)
        assert page.locator("#errors svg:visible").count() == 1
        assert (view.said, view.asked) == ([], [file.as_uri()])
        assert view.overflow() <= 0
        assert view.cut() == []
        assert view.broken() == []
        assert view.clashes() == []
        assert not view.violations()
        screenshot(view, tmp_path, f"inspection-{width}")


def test_nothing_of_a_file_is_markup(chromium: Browser, tmp_path: Path) -> None:
    named = replace(FULL.encodings[0], nodes=(HOSTILE,), positions=HOSTILE)
    hostile = replace(FULL, file=HOSTILE, encodings=(named,), findings=(finding("ends", HOSTILE, HOSTILE),))
    file = tmp_path / "page.html"
    file.write_text(inspection_page(hostile), encoding="utf-8")
    with opened(chromium, file) as view:
        assert view.page.locator("h1").inner_text() == HOSTILE
        assert (view.said, view.page.locator("img").count()) == ([], 0)
    shown = hostile._repr_html_()
    assert HOSTILE not in shown
    file.write_text(shown, encoding="utf-8")
    with opened(chromium, file) as view:
        frame = view.page.frame_locator("iframe")
        assert frame.locator("h1").inner_text() == HOSTILE
        assert (view.said, view.page.locator("img").count(), frame.locator("img").count()) == ([], 0, 0)


def test_a_notebook_shows_the_page(chromium: Browser, tmp_path: Path) -> None:
    file = tmp_path / "notebook.html"
    file.write_text(FULL._repr_html_(), encoding="utf-8")
    with opened(chromium, file) as view:
        assert view.page.locator("p").first.inner_text() == f"{FULL.file}: {FULL.verdict}"
        shown = view.page.frame_locator("iframe").locator("body").inner_text()
        (tmp_path / "page.html").write_text(inspection_page(FULL), encoding="utf-8")
    with opened(chromium, tmp_path / "page.html") as view:
        assert view.page.locator("body").inner_text().split() == shown.split()


def test_a_file_without_encodings_has_a_page() -> None:
    page = inspection_page(Inspection(1, "cnn.onnx", 3, {"": 20}, ()))
    assert "No positional encoding was recognised." in page
    assert "No findings." in page


@pytest.mark.parametrize("width", [390, 1280])
def test_a_file_of_an_encoding_alone_has_no_picture_of_layers(chromium: Browser, tmp_path: Path, width: int) -> None:
    far = replace(CURVE, positions=(0, 1, 10, 131_071))
    alone = replace(inspection(replace(rotary(()), error=3e-3, errors=far)), attentions=0)
    file = tmp_path / "page.html"
    file.write_text(inspection_page(alone), encoding="utf-8")
    with opened(chromium, file, width=width) as view:
        assert view.page.locator("#layers svg").count() == 0
        assert "The file has no attention: 1 encoding" in view.page.locator("#layers").inner_text()
        assert view.clashes() == []


def test_the_command_writes_the_page(cli: Cli, tmp_path: Path) -> None:
    words = ("inspect", str(added_row(tmp_path)), "--html")
    done = cli(*words, "page.html")
    assert Path("page.html").read_text(encoding="utf-8").startswith("<!doctype html>"), done.output
    there = cli(*words, "page.html")
    said = "page.html is there: give another with --html, or --force to replace it"
    assert (there.exit_code, said in there.output) == (2, True)
    assert cli(*words, "page.html", "--force").exit_code == done.exit_code
    wrong = cli(*words, "page.txt")
    assert (wrong.exit_code, "give the page a name that ends in .html: got page.txt" in wrong.output) == (2, True)
