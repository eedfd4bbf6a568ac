"""The site of all pages: each is reached, every link and anchor leads somewhere, nothing comes from another host."""

from pathlib import Path

import pytest

from helpers.shared import ROOT, Once
from helpers.sites import dead_links, loaded_from_elsewhere, pages_of, reached
from posenc.scheme import SCHEMES
from posenc_export.show.site.write import rendered, write_site
from scripts.whole_site import SCHEME_LIST, links_of, whole


@pytest.fixture(scope="module")
def site(once: Once) -> Path:
    return once("whole-site", lambda folder: write_site(whole(), folder / "site")) / "site"


@pytest.mark.exhaustive
def test_every_page_of_the_documents_is_there_and_is_reached(site: Path) -> None:
    pages = {str(page.relative_to(site)) for page in reached(site)}
    documents = {str(page.relative_to(ROOT).with_suffix(".html")) for page in (ROOT / "docs").rglob("*.md")}
    schemes = {f"docs/reference/schemes/{name}.html" for name in SCHEMES}
    others = {"index.html", "CONTRIBUTING.html", "CHANGELOG.html", "examples/cpp/index.html"}
    assert documents | schemes | others <= pages
    assert pages == {str(page.relative_to(site)) for page in pages_of(site)}


@pytest.mark.exhaustive
def test_every_link_leads_somewhere(site: Path) -> None:
    assert not dead_links(site)


@pytest.mark.exhaustive
def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    assert not loaded_from_elsewhere(site)


def test_every_link_of_every_page_is_followed_and_the_navigation_has_the_order_of_the_list_of_pages() -> None:
    made = whole()
    assert {page.file for page in made.pages} <= {*rendered(made)}  # which refuses a link that leads nowhere
    entries = [entry for first in made.navigation for entry in first.walk()]
    paths = [entry.path for entry in entries]
    in_order = [place for place in links_of("docs/index.md") if place in paths]
    assert paths[0] == "README.md"
    assert [path for path in paths if path in in_order] == in_order
    assert {str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")} <= {*paths}
    assert all(entry.below for entry in entries if entry.path == SCHEME_LIST)
    kinds = {entry.path.partition("#")[2]: entry.below for entry in made.navigation if "#" in entry.path}
    assert [*kinds] == ["tutorials", "how-to-guides", "reference", "explanation"]
    assert all(len({entry.path.split("/")[1] for entry in below}) == 1 for below in kinds.values())


def test_dead_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text('<a href="b.html#no">b</a><img src="no.png"><a href="#no">x</a><a id="a"></a>')
    (tmp_path / "b.html").write_text('<a href="index.html#a">a</a><script src="//host/x.js"></script>')
    (tmp_path / "c.html").write_text("nothing leads here")
    assert dead_links(tmp_path) == ["index.html: b.html#no", "index.html: #no", "index.html: no.png"]
    assert loaded_from_elsewhere(tmp_path) == [f"{tmp_path / 'b.html'}: //host/x.js"]
    assert reached(tmp_path) == {tmp_path / "index.html", tmp_path / "b.html"}
