"""Pages in a real browser, for tests: `with browser() as chromium: page = chromium.new_page()`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from helpers.shared import required
from posenc_export.proof.runtimes import Missing
from posenc_export.proof.runtimes.browser.chromium import check_browser, find_chromium, launch

if TYPE_CHECKING:
    from playwright.sync_api import Browser

REQUIRED_BY = "browser-wasm"
"""Whoever requires this runtime requires a browser."""


def need_browser() -> None:
    """Skip a test, or fail it where it is required, without a browser."""
    try:
        check_browser()
    except Missing as missing:
        if REQUIRED_BY in required():
            pytest.fail(f"{REQUIRED_BY} is required: {missing}")
        pytest.skip(f"{REQUIRED_BY}: {missing}")


@contextmanager
def browser() -> Iterator[Browser]:
    """Yield a running Chromium, with WebGPU; skip a test, or fail it where it is required, without one."""
    need_browser()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = launch(playwright, find_chromium())
        try:
            yield chromium
        finally:
            chromium.close()
