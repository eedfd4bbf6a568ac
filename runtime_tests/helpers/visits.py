"""Pages with a proof, as a visitor opens them in the real browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from helpers.opened_pages import Opened, Scheme, opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PATIENCE = 60_000
"""Milliseconds that a test waits for a proof."""


class Visit(Opened):
    """A page that a visitor has open."""

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
def visited(chromium: Browser, address: str, scheme: Scheme = "light", width: int = 1280) -> Iterator[Visit]:
    """Yield the page at an address, open in a window of its own."""
    with opened(chromium, address, scheme, width) as view:
        yield Visit(view.page, view.said, view.asked)
