"""The button "prove it in this browser", pressed in the real browser: right bundles, wrong ones, and hostile ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from helpers.bundles import edit, put, replace_array, sign
from helpers.endless import endless
from helpers.opened_pages import Scheme, screenshot
from helpers.served import serving
from helpers.shared import Cli, need
from helpers.visits import PATIENCE, visited
from posenc_export.show.serving import section
from posenc_export.show.serving.library import Library, find_library

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def library() -> Library:
    """The package of NODE_PATH."""
    need("browser-wasm")
    return find_library(None)


def test_a_right_bundle_agrees_on_both_providers(chromium: Browser, small_bundle: Path, library: Library) -> None:
    with serving(small_bundle, library) as server, visited(chromium, server.door.url) as visit:
        assert visit.page.evaluate("crossOriginIsolated") is True
        outcome = visit.page.locator("#outcome")
        assert " ".join(outcome.inner_text().split()) == "not validated No runtime has tried these files yet."
        calls = visit.page.locator("svg.wide .call")
        assert {*calls.evaluate_all("all => all.map(call => call.classList[1])")} == {"skip"}
        # nobody has validated it: the page shows no verdict but that of the browser
        assert visit.page.locator("#verdict, #errors, #checks, .tiles").count() == 0
        assert visit.page.locator("nav a").first.get_attribute("href") == "#addition"
        assert visit.page.locator("#tried-title").inner_text() == "What would be tried"
        visit.prove()
        assert visit.page.locator("#tried-title").inner_text() == "What was tried"
        rows = visit.rows
        assert visit.status == "done: 2 agreed"
        # the page's own verdict, and the calls on its map, are those of this browser
        assert " ".join(outcome.inner_text().split()) == "passed In this browser: 2 agreed."
        assert {*calls.evaluate_all("all => all.map(call => call.classList[1])")} == {"pass", "refused"}
        assert visit.page.locator("#tried-legend li").all_inner_texts() == ["agrees", "refused, as it must be"]
        assert [row[:2] for row in rows] == [["browser-wasm", "pass"], ["browser-webgpu", "pass"]]
        assert any(line.startswith("browser-webgpu: on ") for line in visit.lines)
        assert f"onnxruntime-web {library.version} (licence: MIT)" in visit.page.locator("#addition").inner_text()
        assert visit.said == []
        assert all(url.startswith(server.door.url) for url in visit.asked)
    # the same bits have the figures of report.md, in its words
    report = json.loads((small_bundle / "report.json").read_text())
    (agrees,) = (v for v in report["verdicts"] if (v["subject"], v["check"]) == ("ort-cpu", "agrees"))
    errors = [c["max_abs"] for c in agrees["comparisons"] if c["against"] == "reference"]
    for row in rows:
        assert row[2] == "same bits"
        assert row[3].startswith(f"{max(errors):.2g} at ")
        assert agrees["detail"] == f"{row[4]} cases"
        assert f"| {row[2]} | {row[3]} | {row[4]} |" in (small_bundle / "report.md").read_text()


def test_a_wrong_file_fails_on_the_page_too(chromium: Browser, bundle: Path, library: Library) -> None:
    """The outputs that were recorded are moved by 1%: so a graph that is off by 1% looks."""
    replace_array(bundle, "/y", lambda array: array * np.float32(1.01))
    with serving(bundle, library) as server, visited(chromium, server.door.url) as visit:
        visit.prove()
        assert visit.status == "done: 2 failed"
        assert [row[1] for row in visit.rows] == ["FAIL", "FAIL"]
        wrong = [line for line in visit.lines if line.startswith("PE104 browser-wasm agrees: y against eager in ")]
        assert len(wrong) == 1
        assert "expected the same bits" in wrong[0]
        assert "(and " in wrong[0]


@pytest.mark.exhaustive
def test_an_answer_where_a_refusal_is_expected_fails(chromium: Browser, bundle: Path, library: Library) -> None:
    """A case that the graph answers is said to be one that it must refuse."""
    edit(bundle, put(True, "cases", 0, "refused"))
    with serving(bundle, library) as server, visited(chromium, server.door.url) as visit:
        visit.prove()
        row = visit.rows[0]
        assert row[:2] == ["browser-wasm", "FAIL"]
        assert any("gave an answer, expected an error" in line for line in visit.lines)


@pytest.mark.exhaustive
def test_files_that_are_not_as_listed_are_named(chromium: Browser, bundle: Path, library: Library) -> None:
    with serving(bundle, library) as server, visited(chromium, server.door.url) as visit:
        content = bytearray((bundle / "model.onnx").read_bytes())
        content[100] ^= 1
        (bundle / "model.onnx").write_bytes(content)
        visit.prove()
        assert visit.status.startswith("failed: model.onnx: it is not as the manifest lists it")
        assert visit.rows == []
    (bundle / "golden.npz").write_bytes(b"no zip")
    sign(bundle, "golden.npz")
    sign(bundle, "model.onnx")
    with serving(bundle, library) as server, visited(chromium, server.door.url) as visit:
        visit.prove()
        assert visit.status == "failed: golden.npz is damaged: it is no zip"


@pytest.mark.exhaustive
def test_a_graph_that_never_ends_is_stopped(chromium: Browser, bundle: Path, library: Library) -> None:
    endless(bundle)
    sign(bundle, "model.onnx")
    with serving(bundle, library) as server, visited(chromium, server.door.url) as visit:
        visit.page.locator("#proof-begin").click()
        visit.page.get_by_text("browser-wasm: batch").wait_for(timeout=PATIENCE)
        visit.page.locator("#proof-stop").click()
        assert visit.status == "stopped"
        assert visit.page.locator("#proof-begin").is_enabled()


@pytest.mark.exhaustive
def test_a_call_has_so_much_time(
    chromium: Browser, bundle: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(section, "TIMEOUT", 3.0)
    endless(bundle)
    with serving(bundle, library) as server, visited(chromium, server.door.url) as visit:
        visit.prove()
        assert visit.status.startswith("failed: ")
        assert visit.status.endswith(": no answer in 3 seconds")
        assert visit.rows == []


@pytest.mark.exhaustive
def test_what_an_adapter_has_no_numbers_for_is_not_run(chromium: Browser, library: Library, cli: Cli) -> None:
    """SwiftShader has no float16, and the WebGPU build no float64; WebAssembly computes both."""
    made = {"float16": ("rope", "-p", "head_dim=16", "--dtype", "fp16"), "float64": ("sine_2d", "--dynamic")}
    for name, words in made.items():
        result = cli("export", *words, "-f", "onnx", "--no-validate", "-q", "-o", name)
        assert result.exit_code == 0, result.output
        with serving(Path(name), library) as server, visited(chromium, server.door.url) as visit:
            visit.prove()
            assert visit.status == "done: 1 agreed, 1 not run", visit.lines
            assert visit.rows[0][:2] == ["browser-wasm", "pass"]
            assert any(line.startswith("not run: browser-webgpu: ") and name in line for line in visit.lines)


MARKUP = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"


@pytest.mark.exhaustive
def test_a_bundle_puts_no_markup_into_the_page(chromium: Browser, bundle: Path, library: Library) -> None:
    edit(bundle, put([MARKUP], "notes"))
    edit(bundle, put(MARKUP, "scheme"))
    edit(bundle, put({"config": MARKUP, "x": MARKUP}, "origin"))
    with serving(bundle, library) as server, visited(chromium, server.door.url) as visit:
        visit.prove()
        assert visit.status == "done: 2 agreed"
        assert visit.page.locator("img").count() == 0
        assert visit.said == []


VIEWS: list[tuple[int, Scheme]] = [(390, "dark"), (1280, "light")]


@pytest.mark.exhaustive
@pytest.mark.parametrize("shown", VIEWS)
def test_everybody_can_read_the_proof(
    chromium: Browser, bundle: Path, library: Library, tmp_path: Path, shown: tuple[int, Scheme]
) -> None:
    width, scheme = shown
    replace_array(bundle, "batch1-seq1/y", lambda array: array + np.float32(1))
    with serving(bundle, library) as server, visited(chromium, server.door.url, scheme, width) as visit:
        assert visit.violations() == []
        visit.page.locator("#proof-begin").focus()
        visit.page.keyboard.press("Enter")
        visit.page.locator("#proof-begin:enabled").wait_for(timeout=PATIENCE)
        assert visit.status == "done: 2 failed"
        assert visit.violations() == []
        assert visit.overflow() <= 0
        screenshot(visit, tmp_path, f"proof-{width}-{scheme}")
