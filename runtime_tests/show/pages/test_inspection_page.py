"""The page of an inspection: findings with what to do, layers, errors; and in notebooks the lines of the command."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers.graph_files import added_row
from helpers.inspections import FULL
from helpers.opened_pages import Scheme, opened, screenshot
from helpers.shared import Cli
from posenc_export.read.findings import finding
from posenc_export.read.inspection import Inspection, NotJudged
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
    assert HOSTILE not in hostile._repr_html_()
    assert all(entry.detail in FULL._repr_html_() for entry in FULL.findings)


def test_a_file_without_encodings_has_a_page() -> None:
    page = inspection_page(Inspection(1, "cnn.onnx", 3, {"": 20}, ()))
    assert "No positional encoding was recognised." in page
    assert "No findings." in page


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
