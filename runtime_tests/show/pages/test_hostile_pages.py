"""What a stranger's bundle says is text in its page: nothing of it runs or is loaded, and the page stays small."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx
import pytest

import posenc_export
from helpers.bundles import edit, sign
from helpers.opened_pages import opened
from helpers.shared import one_of_each
from posenc.ports import Axis, Port
from posenc_export.bundle.case import Case
from posenc_export.bundle.manifest import Artifact
from posenc_export.proof.judging.verdict import Bin, Comparison, Curve, Verdict
from posenc_export.proof.report.result import ValidateResult
from posenc_export.proof.runtimes import RUNTIMES
from posenc_export.show.pages.content import Content
from posenc_export.show.pages.graph import Inside, OperatorCount, StoredTensor, inside_apart
from posenc_export.show.pages.page import page_of
from posenc_export.show.pages.picture import Picture
from posenc_export.show.pages.texts import LETTERS, ROOM, SHORT, Room, data_text

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ATTACKS = (
    "</script><script>alert('script')</script>",
    "<img src=x onerror=alert('image')>",
    "\"'><svg onload=alert('svg')>",
    "</title></style><style>body{display:none}</style>",
    "<iframe src=http://127.0.0.1:9/frame></iframe><link rel=stylesheet href=http://127.0.0.1:9/style.css>",
    "<base href=http://127.0.0.1:9/><meta http-equiv=refresh content='0;url=http://127.0.0.1:9/away'>",
    "<form action=http://127.0.0.1:9/><button autofocus onfocus=alert('focus')>x</button></form>",
    "<!-- <script> ]]> --!>",
    "{{ 7 * 7 }}{% raw %}${alert('template')}",
    "javascript:alert('link')",
    "\u202egnp.exe\u2066\u200b\x1b[31m\x00\u2028end",
    "\ud800 alone",
)
EVERYTHING = "".join(ATTACKS)


def with_words(content: Content, words: str) -> Content:
    """Return what the page of a bundle shows with these words in the place of every text that a bundle has."""
    manifest = content.result.manifest
    ports = tuple(Port(words, (Axis(words, "batch"), Axis("", "features", 2)), "float32") for _ in range(2))
    # no manifest that is read has other words than its own for mode, method, positions and operator
    said: dict[str, Any] = {
        "scheme": words,
        "mode": words,
        "method": words,
        "family": words,
        "opset_reason": words,
        "loads_on": words,
        "reference": words,
        "params": {words: words, "list": [words, {words: words}]},
        "positions": words,
        "inputs": ports,
        "outputs": ports,
        "artifacts": (Artifact("onnx", words, 1, words, None), Artifact("torchscript", words, 1, words, None)),
        "cases": (Case(words, {words: 3}, max_position=2), Case(f"{words}2", {words: 3}, refused=True)),
        "versions": {words: words},
        "notes": (words,),
        "not_tried": (words,),
        "origin": {"config": words, "not used": words},
        "half_safe": words,
        "rotary_op": words,
    }
    hostile = replace(manifest, **said)
    verdicts = (
        Verdict(words, "integrity", "fail", words, note=words),
        Verdict(words, "agrees", "skip", words),
        Verdict(
            "ort-cpu",
            "agrees",
            "fail",
            words,
            (Comparison(words, words, "reference", 1.0, 1.0, 1, False, words, 1.0),),
            words,
            (Curve(words, "reference", (Bin(1, float("nan"), 0.1), Bin(2**62, float("inf"), 0.0))),),
        ),
    )
    graph = Inside(1, (OperatorCount(words, 1),), 1, (StoredTensor(words, words, (2, 2), 16),), 1, 16)
    pictures = tuple(
        Picture(words, words, tuple(replace(side, name=words) for side in one.sides), one.values)
        for one in content.pictures
    )
    result = ValidateResult(hostile, verdicts, content.result.basis)
    return Content(result, pictures, words, graph)


@pytest.mark.parametrize("words", one_of_each([EVERYTHING, *ATTACKS], type))
def test_nothing_runs_and_nothing_is_loaded(chromium: Browser, content: Content, words: str, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page_of(with_words(content, words)), encoding="utf-8")
    with opened(chromium, file) as view:
        view.page.locator("#picture-canvas").hover()
        view.page.wait_for_timeout(100)
        assert view.said == []
        assert view.asked == [file.as_uri()]
        assert view.page.url == file.as_uri()
        assert view.page.locator("iframe, img, form:not(#picture-choices), base, [onerror], [onload]").count() == 0
        assert view.page.locator("script").count() == 2
        assert view.page.locator("style").count() == 2
        assert view.page.locator("h1").is_visible()
        shown = view.page.locator("html").inner_text()
        assert not {*"\u202e\u2066\u200b\x1b\x00\u2028"} & {*shown}
        assert view.violations() == []


def test_data_close_no_element() -> None:
    text = data_text([EVERYTHING, {"</script>": "<!--"}])
    assert not {*"<>&\u2028"} & {*text}
    assert json.loads(text) == [EVERYTHING, {"</script>": "<!--"}]


def test_texts_are_cut() -> None:
    room = Room()
    assert room.text("a" * 10_000) == "a" * LETTERS + f"… ({10_000 - LETTERS:,} more characters)"
    for _ in range(ROOM // LETTERS + 1):
        room.text("<" * LETTERS)
    assert str(room.text("b" * 10_000)).startswith("b" * SHORT + "…")
    assert room.text(7) == 7


@pytest.mark.exhaustive
@pytest.mark.parametrize("letter", ["\u202e", "x", "&", "\N{PILE OF POO}"])
def test_a_huge_bundle_has_a_page_below_1_mb(content: Content, letter: str) -> None:
    huge = letter * 5_000
    made = with_words(content, huge)
    verdicts = made.result.verdicts
    manifest = replace(
        made.result.manifest,
        notes=(huge,) * 3_000,
        not_tried=(huge,) * 3_000,
        inputs=made.result.manifest.inputs * 500,
        outputs=made.result.manifest.outputs * 500,
        versions={f"{huge}{i}": huge for i in range(500)},
        params={f"{huge}{i}": huge for i in range(500)},
        cases=tuple(Case(f"{huge}{i}", {"seq": i + 1}, max_position=i) for i in range(3_000)),
        artifacts=made.result.manifest.artifacts * 500,
    )
    curves = tuple(
        Curve(f"{huge}{i}", "reference", tuple(Bin(2**n, 1e-7 * n, 1e-6) for n in range(60))) for i in range(300)
    )
    rows = tuple(replace(row, subject=name, curves=curves) for name in RUNTIMES for row in verdicts)
    graph = Inside(
        1, (OperatorCount(huge[:200], 1),) * 60, 60, (StoredTensor(huge[:200], "float32", (2,) * 64, 16),) * 60, 60, 16
    )
    result = ValidateResult(manifest, rows, made.result.basis)
    assert len(page_of(Content(result, made.pictures, huge, graph)).encode("utf-8")) < 1_000_000


def test_a_bundle_made_by_a_stranger(chromium: Browser, bundle: Path, tmp_path: Path) -> None:
    """Words that a manifest may hold come through `posenc_export.report`, those of the ONNX file among them."""
    words = EVERYTHING.replace("\ud800", "")
    model = onnx.load(bundle / "model.onnx")
    model.graph.initializer[0].name = words
    node = next(n for n in model.graph.node if n.domain == "")
    node.op_type, node.domain = words, words
    (bundle / "model.onnx").write_bytes(model.SerializeToString())
    edit(bundle, lambda m: m.update(scheme=words, notes=[words], opset_reason=words, versions={words: words}))
    sign(bundle, "model.onnx")
    file = tmp_path / "page.html"
    result = posenc_export.report(bundle, file, runtimes=("ort-cpu",))
    assert result.failed
    with opened(chromium, file) as view:
        assert view.page.locator(".badge").inner_text() == "FAILED"
        assert "<img src=x onerror" in view.page.locator("#graph").inner_text()
        assert (view.said, view.asked) == ([], [file.as_uri()])


@pytest.mark.parametrize("content", one_of_each([b"no ONNX", b"", b"\x0a\xff\xff\xff\xff\x7f"], type))
def test_a_graph_that_cannot_be_read_is_said_to_be_so(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(content)
    found = inside_apart(file)
    assert found == Inside() if not content else "cannot be read" in found.problem
