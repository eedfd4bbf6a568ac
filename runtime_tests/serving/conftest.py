"""A browser for the tests of what is served, and a bundle with a made-up onnxruntime-web."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers.browser import browser
from helpers.served import made_library, serving
from posenc_export.serving.library import Library
from posenc_export.serving.server import Server

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with browser() as running:
        yield running


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return made_library(tmp_path_factory.mktemp("npm") / "onnxruntime-web")


@pytest.fixture(scope="session")
def server(small_bundle: Path, library: Library) -> Iterator[Server]:
    """A server of the small bundle, which no test changes."""
    with serving(small_bundle, library) as running:
        yield running
