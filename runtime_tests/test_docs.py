"""Documents that are made from the code are what the code makes now; links between them lead somewhere."""

import re

import pytest

from conftest import ROOT
from posenc.scheme import SCHEMES
from posenc_export.cli.listing import markdown_of

PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]


def test_the_list_of_schemes_is_that_of_the_code() -> None:
    text = (ROOT / "docs" / "schemes.md").read_text(encoding="utf-8")
    assert text == markdown_of(SCHEMES.values()), "run: posenc schemes --markdown > docs/schemes.md"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target:
            assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}"
