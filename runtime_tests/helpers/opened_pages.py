"""Pages opened in the real browser: what they say in the console, what they ask of the network, what axe-core finds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from helpers.browser import REQUIRED_BY
from helpers.shared import required
from posenc_export.bundle.folder import Bundle
from posenc_export.proof.apart.parent import in_process
from posenc_export.proof.judging.verdict import ValidateOptions
from posenc_export.proof.report.basis import basis_of
from posenc_export.proof.report.result import ValidateResult
from posenc_export.proof.runtimes import Missing
from posenc_export.proof.runtimes.npm import package
from posenc_export.show.pages.content import Content, content_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

AXE = "axe-core", "4.14.1"
SCREENSHOTS = "POSENC_TEST_SCREENSHOTS"
"""The folder for screenshots, if they are to be kept."""
Scheme = Literal["light", "dark"]
BROKEN = """[...document.querySelectorAll('main td')].flatMap(cell => {
  const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), found = [];
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    for (const word of text.data.matchAll(/[^\\s-]+/g)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      if (range.getClientRects().length > 1) found.push(word[0]);
    }
  }
  return found;
})"""
CLASHES = """[...document.querySelectorAll('svg')].flatMap(svg => {
  const all = svg.getBoundingClientRect(), found = [];
  const texts = [...svg.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()]);
  const shown = texts.filter(([, box]) => box.width);
  shown.forEach(([words, box], i) => {
    const out = Math.max(all.left - box.left, box.right - all.right, all.top - box.top, box.bottom - all.bottom);
    if (out > 1) found.push(`${words} is cut`);
    for (const [other, at] of shown.slice(i + 1)) {
      const across = Math.min(box.right, at.right) - Math.max(box.left, at.left);
      const down = Math.min(box.bottom, at.bottom) - Math.max(box.top, at.top);
      if (across > 1 && down > 4) found.push(`${words} lies on ${other}`);
    }
  });
  return found;
})"""
"""Texts of drawings that leave them, or lie on each other; the letters of a line are lower than its box."""
CUT = """[...document.querySelectorAll('main *')].filter(box => {
  const style = getComputedStyle(box), wide = box.scrollWidth > box.clientWidth + 1;
  if (!['auto', 'scroll'].includes(style.overflowX) || !box.clientWidth) return false;
  if (box.scrollHeight > box.clientHeight + 1) return true;
  return wide && !(style.backgroundImage.includes('gradient') && box.tabIndex === 0 && box.role && box.ariaLabel);
}).map(box => box.outerHTML.slice(0, 120))"""
"""What is cut: what scrolls down inside the page, or sideways without a shadow, a name, or a way for keyboards."""


def content_of_bundle(folder: Path) -> Content:
    """Return what the page of a bundle shows, proved in this process on two runtimes, as export does it."""
    options = ValidateOptions(runtimes=("ort-cpu", "onnx-reference"))
    with in_process(folder, options, True) as validate:
        bundle = Bundle.open(folder, trusted=True)
        verdicts = validate(bundle)
    return content_of(ValidateResult(bundle.manifest, tuple(verdicts), basis_of(folder, options)), bundle)


@dataclass
class Opened:
    """A page that is open, and what it did until now."""

    page: Page
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def run(self, script: str) -> Any:
        """Run a script as the tools of the browser do, whatever the page's policy says, and return its value."""
        session = self.page.context.new_cdp_session(self.page)
        how = {"awaitPromise": True, "returnByValue": True, "allowUnsafeEvalBlockedByCSP": True}
        answer = session.send("Runtime.evaluate", {"expression": script, **how})
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def violations(self) -> list[str]:
        """Return what axe-core finds."""
        found = self.run(f"{axe()}; axe.run()")["violations"]
        return [f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]}" for one in found]

    def cut(self) -> list[str]:
        """Return what the page shows only a part of, and gives no hint of it, or keeps from keyboards."""
        boxes: list[str] = self.run(CUT)
        return boxes

    def broken(self) -> list[str]:
        """Return the words of tables, but for names, that stand in two lines."""
        words: list[str] = self.run(BROKEN)
        return words

    def clashes(self) -> list[str]:
        """Return which texts of drawings are cut, or lie on each other."""
        texts: list[str] = self.run(CLASHES)
        return texts

    def overflow(self) -> int:
        """Return by how many pixels the page is wider than the window."""
        width: int = self.run("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        return width


def axe() -> str:
    """Return the script of axe-core; skip a test, or fail it where a browser is required, without the npm package."""
    try:
        return (package(*AXE) / "axe.min.js").read_text(encoding="utf-8")
    except Missing as missing:
        if REQUIRED_BY in required():
            pytest.fail(f"{REQUIRED_BY} is required, and axe-core with it: {missing}")
        pytest.skip(f"axe-core: {missing}")


def watched(page: Page) -> Opened:
    """Return a page with what it will say and ask."""
    view = Opened(page)
    page.on("console", lambda message: view.said.append(message.text))
    page.on("pageerror", lambda error: view.said.append(str(error)))
    page.on("dialog", lambda dialog: view.said.append(f"dialog: {dialog.message}"))
    page.on("request", lambda request: view.asked.append(request.url))
    return view


@contextmanager
def opened(chromium: Browser, place: Path | str, scheme: Scheme = "light", width: int = 1280) -> Iterator[Opened]:
    """Open a file as a user does, who clicks on it, or an address."""
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    view = watched(context.new_page())
    view.page.goto(place if isinstance(place, str) else place.as_uri())
    try:
        yield view
    finally:
        context.close()


def screenshot(view: Opened, folder: Path, name: str) -> Path:
    """Write a screenshot of the whole page into the folder of POSENC_TEST_SCREENSHOTS, or else into this one."""
    place = Path(os.environ.get(SCREENSHOTS) or folder)
    place.mkdir(parents=True, exist_ok=True)
    file = place / f"{name}.png"
    view.page.screenshot(path=file, full_page=True)
    return file
