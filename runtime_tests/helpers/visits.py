"""Pages with a proof, as a visitor opens them in the real browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATIENCE = 60_000
"""Milliseconds that a test waits for a proof."""


@dataclass
class Visit:
    """A page that a visitor has open: what the console said, and what was asked for."""

    page: Page
    said: list[str]
    asked: list[str]

    def prove(self) -> None:
        """Press the button, and wait for the end."""
        self.page.locator("#proof-begin").click()
        self.page.locator("#proof-begin:enabled").wait_for(timeout=PATIENCE)

    @property
    def status(self) -> str:
        return self.page.locator("#proof-status").inner_text()

    @property
    def rows(self) -> list[list[str]]:
        rows: list[list[str]] = self.page.locator("#proof-rows tr").evaluate_all(
            "rows => rows.map(row => [...row.cells].map(cell => cell.innerText))"
        )
        return rows

    @property
    def lines(self) -> list[str]:
        return self.page.locator("#proof-lines li").all_inner_texts()


@contextmanager
def visited(chromium: Browser, address: str) -> Iterator[Visit]:
    """Yield the page at an address, open in a window of its own."""
    context = chromium.new_context()
    page = context.new_page()
    visit = Visit(page, [], [])
    page.on("console", lambda message: visit.said.append(message.text))
    page.on("pageerror", lambda error: visit.said.append(str(error)))
    page.on("request", lambda request: visit.asked.append(request.url))
    try:
        page.goto(address)
        yield visit
    finally:
        context.close()
