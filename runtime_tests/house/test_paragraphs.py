"""Documents say a thing once: merges have left two versions of a paragraph side by side."""

import re
from collections.abc import Iterator
from itertools import combinations, pairwise

import pytest

from helpers.shared import ROOT
from scripts import layout

GENERATED = {"schemes.md", "checks.md", "layout.md", "options.md", "json.md"}
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")),
)
FEWEST_WORDS = 20
MOST_SHARED = 0.7
MEASURED = re.compile(r"measured on|medians, one run", re.IGNORECASE)
"""Lines that name the machine and the versions of figures, alike in every page that has figures."""


def paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs and items of a page, without code and tables."""
    prose = re.sub(r"^(```.*?^```| {4}.*?$|\|.*?$)", "", text, flags=re.MULTILINE | re.DOTALL)
    for block in re.split(r"\n\s*\n|\n(?=[*-] )", prose):
        if len(block.split()) >= FEWEST_WORDS and not MEASURED.search(block):
            yield block


Pairs = frozenset[tuple[str, str]]


def pairs_of_words(text: str) -> Pairs:
    return frozenset(pairwise(re.findall(r"\w+", text.lower())))


def shared(one: Pairs, other: Pairs) -> float:
    """Return which share of the pairs of words of the shorter of two paragraphs is in the other too."""
    return len(one & other) / min(len(one), len(other))


def twins(pages: dict[str, str]) -> list[tuple[str, str, str]]:
    """Return paragraphs that share most of their words, by the names of their pages."""
    each = [(page, block[:80], pairs_of_words(block)) for page, text in pages.items() for block in paragraphs(text)]
    return [
        (p, q, words) for (p, words, one), (q, _, other) in combinations(each, 2) if shared(one, other) > MOST_SHARED
    ]


def test_no_paragraph_stands_twice() -> None:
    pages = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES if page.split("/")[-1] not in GENERATED}
    assert not twins(pages)


@pytest.mark.parametrize("change", [("tables", "files"), ("does not compute them and", "")])
def test_versions_of_a_paragraph_are_found(change: tuple[str, str]) -> None:
    text = (
        "A baked graph stores its rows in tables that a file holds, and does not compute them and never looks at a "
        "length; a dynamic graph computes rows for any length."
    )
    assert twins({"a": text, "b": text.replace(*change)}) == [("a", "b", text[:80])]
    assert not twins({"a": text, "b": "Something else is said here, " * 5})


def test_the_layout_is_that_of_the_files() -> None:
    page = (ROOT / "docs" / "explanation" / "layout.md").read_text(encoding="utf-8")
    assert page == layout.layout(), "run: python runtime_tests/scripts/layout.py > docs/explanation/layout.md"
    packages = [layout.ROOT / package for package in layout.PACKAGES]
    files = [file for package in packages for file in package.rglob("*.py")]
    assert [file for file in files if file.stat().st_size and not layout.docstring(file)] == []
