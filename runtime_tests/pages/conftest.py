"""A browser for the tests of pages, and the page of the small bundle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers.browser import browser
from posenc_export.bundle.folder import Bundle
from posenc_export.pages.content import Content, content_of
from posenc_export.pages.page import page_of
from posenc_export.validation.apart.parent import in_process
from posenc_export.validation.judging.verdict import ValidateOptions
from posenc_export.validation.report.basis import basis_of
from posenc_export.validation.report.result import ValidateResult

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with browser() as running:
        yield running


@pytest.fixture(scope="session")
def content(small_bundle: Path) -> Content:
    """What the page of the small bundle shows: proved in this process, as export does it."""
    options = ValidateOptions(runtimes=("ort-cpu", "onnx-reference"))
    with in_process(small_bundle, options, True) as validate:
        bundle = Bundle.open(small_bundle, trusted=True)
        verdicts = validate(bundle)
    return content_of(ValidateResult(bundle.manifest, tuple(verdicts), basis_of(small_bundle, options)), bundle)


@pytest.fixture(scope="session")
def page_file(content: Content, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "page with spaces.html"
    file.write_text(page_of(content), encoding="utf-8")
    return file
