"""The page of a bundle in the real browser: what it shows, that it loads nothing, and that everybody can read it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from helpers.opened_pages import Scheme, opened, screenshot
from posenc_export.proof.report.report import parts_of, report_markdown
from posenc_export.show.pages.content import Content
from posenc_export.show.pages.page import page_of
from posenc_export.show.pages.picture import Picture, PictureAxis

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SECTIONS = ["verdict", "errors", "tried", "picture", "ports", "graph", "load", "checks", "facts"]
OTHERS: list[tuple[int, Scheme]] = [(390, "dark"), (1280, "light")]


@pytest.fixture(scope="module")
def page_file(content: Content, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "page with spaces.html"
    file.write_text(page_of(content), encoding="utf-8")
    return file


def test_what_the_page_shows(chromium: Browser, content: Content, page_file: Path) -> None:
    result = content.result
    parts = parts_of(result.manifest, result.verdicts, result.basis)
    with opened(chromium, page_file) as view:
        page = view.page
        assert page.title() == f"{parts.title}: passed"
        assert page.locator("h1").inner_text() == parts.title
        words = parts.headline.removeprefix("passed: ").removeprefix("FAILED: ")  # the badge says it
        assert words in page.locator(".outcome").inner_text()
        assert page.locator("section").evaluate_all("all => all.map(one => one.id)") == SECTIONS
        assert page.locator("nav a").evaluate_all("all => all.map(one => one.hash)") == [f"#{s}" for s in SECTIONS]
        rows = page.locator("#verdict tbody tr").evaluate_all(
            "all => all.map(tr => [...tr.cells].map(c => c.innerText))"
        )
        assert rows == [list(row.cells) for table in parts.tables for row in table.rows]
        assert [line in page.locator("#verdict").inner_text() for line in parts.below] == [True] * len(parts.below)
        ports = [f"{port.name}" for port in (*result.manifest.inputs, *result.manifest.outputs)]
        assert page.locator("#ports tbody th").all_inner_texts() == ports
        drawn = page.locator("#tried svg:visible .call").evaluate_all("all => all.map(call => call.dataset.calls)")
        assert sorted(" ".join(drawn).split()) == sorted(case.name for case in result.manifest.cases)
        assert page.locator("#errors svg:visible .curve").count() == 1, "both runtimes gave the same errors"
        assert page.locator("#errors svg:visible .bound").count() == 1
        assert "ort-cpu, onnx-reference" in page.locator("#errors .legend").inner_text()
        assert page.locator("#graph tbody th").first.inner_text() == "model.onnx"
        assert {v.check for v in result.verdicts} == {*page.locator("#checks summary strong").all_inner_texts()}
        assert view.said == []
        assert view.asked == [page_file.as_uri()]


@pytest.mark.parametrize("width", [390, 1280])
def test_every_status_can_be_seen(chromium: Browser, content: Content, tmp_path: Path, width: int) -> None:
    """Marks, rows, swatches, badges and calls of a page with rows that passed, failed and did not run."""
    result = content.result
    agrees = next(v for v in result.verdicts if v.check == "agrees")
    others = (replace(agrees, status="skip", comparisons=()), replace(agrees, subject="tract", status="fail"))
    pages = {
        "mixed.html": replace(content, result=replace(result, verdicts=(*result.verdicts, *others))),
        "none.html": replace(content, result=replace(result, verdicts=())),
    }
    seen = set()
    for name, page in pages.items():
        (tmp_path / name).write_text(page_of(page), encoding="utf-8")
        with opened(chromium, tmp_path / name, width=width) as view:
            view.page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")
            for status in ("pass", "fail", "skip", "refused"):
                # a drawing has a twin for other screens, and a call at one place no height
                boxes = view.page.locator(f".{status}:visible").evaluate_all(
                    "all => all.map(e => { const b = e.getBoundingClientRect(); return [b.left, b.right, b.width]; })"
                )
                seen |= {status} if boxes else set()
                right = view.page.evaluate("document.documentElement.clientWidth")
                hidden = [box for box in boxes if box[0] < 0 or box[2] <= 0 or box[0] > 4 * right]
                assert not hidden, f"{status} in {name}"
    assert seen == {"pass", "fail", "skip", "refused"}


def test_a_page_of_files_that_no_runtime_ran_does_not_say_that_they_passed(
    chromium: Browser, content: Content, tmp_path: Path
) -> None:
    result = content.result
    ran = [v for v in result.verdicts if v.check not in ("agrees", "refusal")]
    unrun = replace(next(v for v in result.verdicts if v.check == "agrees"), status="skip", comparisons=(), curves=())
    file = tmp_path / "page.html"
    file.write_text(page_of(replace(content, result=replace(result, verdicts=(*ran, unrun)))), encoding="utf-8")
    with opened(chromium, file) as view:
        badge = view.page.locator(".badge")
        assert (badge.inner_text(), "pass" in (badge.get_attribute("class") or "")) == ("nothing compared", False)
        assert view.page.title().endswith(": nothing compared")
        assert view.page.locator("#tried h2").inner_text() == "What would be tried"
        assert "runtime" not in view.page.locator("#tried p").first.inner_text()
        assert view.page.locator("#checks .mark").count() > 0
        assert view.page.locator(".tiles dd").first.inner_text() == "none ran"


@pytest.mark.parametrize("width", [390, 1280])
def test_a_sign_says_how_a_call_came_out(chromium: Browser, content: Content, tmp_path: Path, width: int) -> None:
    """What failed is a triangle, what must be refused a cross, and all else a dot, with and without a verdict."""
    result = content.result
    agrees = next(v for v in result.verdicts if v.check == "agrees")
    first = agrees.comparisons[0].case
    wrong = tuple(replace(c, passed=c.case != first) for c in agrees.comparisons)
    others = tuple(v for v in result.verdicts if v.check != "agrees")
    refused = sum(case.refused for case in result.manifest.cases)
    for verdicts, triangles in (((*others, replace(agrees, status="fail", comparisons=wrong)), 1), ((), 0)):
        file = tmp_path / f"{triangles}.html"
        file.write_text(page_of(replace(content, result=replace(result, verdicts=verdicts))), encoding="utf-8")
        with opened(chromium, file, width=width) as view:
            marks = view.page.locator("#tried svg:visible .call")
            signs = marks.evaluate_all(
                "all => all.map(one => [one.dataset.calls.split(' ').length, [...one.querySelectorAll('.sign, .wrong')]"
                ".filter(sign => getComputedStyle(sign).display !== 'none')"
                ".map(sign => sign.matches('.wrong') ? 'triangle' : sign.tagName === 'path' ? 'cross' : 'dot').join()])"
            )
            counts = {kind: sum(count for count, own in signs if own == kind) for kind in ("triangle", "cross", "dot")}
            calls = len(result.manifest.cases)
            assert counts == {"triangle": triangles, "cross": refused, "dot": calls - refused - triangles}
            numbers = view.page.locator("#tried svg:visible .call text").all_text_contents()
            assert sorted(map(int, numbers)) == sorted(count for count, _ in signs if count > 1)
            assert view.clashes() == []


def test_the_heat_map_has_axes_and_a_scale(chromium: Browser, page_file: Path) -> None:
    with opened(chromium, page_file) as view:
        page = view.page
        choices = dict(zip(("down", "across"), page.locator("#picture-choices select").all()[-2:], strict=True))
        for side, choice in choices.items():
            chosen = choice.evaluate("one => one.selectedOptions[0].textContent")
            assert chosen.startswith(page.locator(f"#picture-{side}").inner_text())
        for side in ("rows", "columns"):
            ticks = page.locator(f"#picture-{side} span").all_inner_texts()
            assert ticks[0] == "0"
            assert 2 <= len(ticks) <= 6
        low, middle, high = (float(page.locator(f"#picture-{at}").inner_text()) for at in ("low", "middle", "high"))
        assert (low, middle, high) == (-1, 0, 1)


def test_the_words_are_those_of_report_md(content: Content, page_file: Path, chromium: Browser) -> None:
    result = content.result
    markdown = report_markdown(result.manifest, result.verdicts, result.basis)
    with opened(chromium, page_file) as view:
        shown = view.page.locator("body").inner_text()
    lines = [
        line.removeprefix("* ").removeprefix("# ") for line in markdown.splitlines() if line.startswith(("* ", "#"))
    ]
    missing = [line for line in lines if not all(part in shown for part in line.split(": ", 1))]
    assert (len(lines) > 10, missing) == (True, [])


VIEWS = [(390, "light"), (1280, "dark"), *(pytest.param(*view, marks=pytest.mark.exhaustive) for view in OTHERS)]


@pytest.mark.parametrize(("width", "scheme"), VIEWS)
def test_everybody_can_read_it(chromium: Browser, page_file: Path, width: int, scheme: Scheme, tmp_path: Path) -> None:
    with opened(chromium, page_file, scheme, width) as view:
        assert screenshot(view, tmp_path, f"report-{width}-{scheme}").stat().st_size > 10_000
        assert view.overflow() == 0
        view.run("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert view.cut() == []
        assert view.broken() == []
        assert view.clashes() == []
        assert view.violations() == []
        assert view.said == []


def test_the_picture_is_chosen_and_read_by_keys(chromium: Browser, content: Content, page_file: Path) -> None:
    picture = content.pictures[0]
    with opened(chromium, page_file) as view:
        page, value = view.page, view.page.locator("#picture-value")
        page.locator("#picture-canvas").focus()
        for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
            page.keyboard.press(key)
        words = f"batch 0, seq {picture.sides[1].places[1]}, features 2: "
        assert value.inner_text().startswith(words)
        assert float(value.inner_text().removeprefix(words)) == pytest.approx(picture.values[0, 1, 2], abs=2e-3)
        label = page.locator("#picture-canvas").get_attribute("aria-label") or ""
        assert picture.title in label
        page.locator("#picture-choices").get_by_label("down").select_option(label=f"features ({picture.sides[2].size})")
        assert "features down (8)" in (page.locator("#picture-canvas").get_attribute("aria-label") or "")
        assert view.said == []


@pytest.mark.parametrize("width", [390, 1280])
def test_the_picture_says_that_it_is_the_first_part(
    chromium: Browser, content: Content, tmp_path: Path, width: int
) -> None:
    """Of 2,048 places the first ones are here, and of 8 heads some."""
    few = PictureAxis("seq", "length", 2048, tuple(range(96))), PictureAxis("heads", "heads", 8, (0, 3, 7))
    picture = Picture("y", "a", few, np.zeros((96, 3), np.float32))
    file = tmp_path / "page.html"
    file.write_text(page_of(replace(content, pictures=(picture,))), encoding="utf-8")
    with opened(chromium, file, width=width) as view:
        options = view.page.get_by_label("down").locator("option").all_inner_texts()
        assert options == ["seq (the first 96 of 2,048)", "heads (3 of 8)"]
        part = view.page.locator("#picture-part").inner_text()
        assert part == "Shown: seq, the first 96 of 2,048; heads, 3 of 8."
        cells, ticks = (view.page.locator(f"#picture-{name}").bounding_box() for name in ("canvas", "rows"))
        assert cells is not None
        assert ticks is not None
        assert abs(cells["y"] - ticks["y"]) < 2, "the first tick is at the first row"
        assert abs(cells["height"] - ticks["height"]) < 2
        assert view.said == []


def test_without_scripts_all_but_the_picture_is_there(chromium: Browser, page_file: Path) -> None:
    context = chromium.new_context(java_script_enabled=False)
    try:
        page = context.new_page()
        page.goto(page_file.as_uri())
        assert page.locator("#errors svg:visible .curve").count() == 1
        assert "needs JavaScript" in page.locator("#picture").inner_text()
    finally:
        context.close()
