"""The whole site: README.md, every page of docs/ in the order of docs/index.md, the gallery of schemes, sources.

python runtime_tests/scripts/whole_site.py FOLDER
"""

import re
import sys
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

import click

from posenc import __version__
from posenc.scheme import SCHEMES
from posenc_export.cli.output.gallery import Gallery, gallery
from posenc_export.show.site import slug
from posenc_export.show.site.links import OUTSIDE, target_of
from posenc_export.show.site.page import Entry, Page, Site
from posenc_export.show.site.write import check_site, write_site

ROOT = Path(__file__).parents[2]
START, INDEX, SCHEME_LIST = "README.md", "docs/index.md", "docs/reference/schemes.md"
ALL = "All pages"
"""What the navigation calls docs/index.md, whose title is a sentence."""
KINDS = {
    "tutorial": "Tutorials",
    "how-to": "How-to guides",
    "reference": "Reference",
    "explanation": "Explanation",
}
"""The parts of docs/index.md, by the folders of their pages."""
LAST = ("CHANGELOG.md",)
"""Pages that docs/index.md has no row for."""
PICTURES = (".png", ".svg")
LINK = re.compile(r"\]\(([^()\s]+)\)")
CODE = re.compile(r"^(```.*?^```| {4}.*?$)|`[^`]*`", re.MULTILINE | re.DOTALL)
LANGUAGES = {".cpp": "cpp", ".hpp": "cpp", ".c": "c", ".h": "c", ".sh": "bash", ".json": "json", ".py": "python"}


def links_of(place: str) -> list[str]:
    """Return the places that a Markdown file of the project links to, without #anchors."""
    text = CODE.sub("", (ROOT / place).read_text(encoding="utf-8"))
    links = [link.partition("#")[0] for link in LINK.findall(text) if not OUTSIDE.match(link)]
    return [target_of(place, link) for link in links if link]


def places() -> list[str]:
    """Return every file that belongs to the site: the pages in the order of docs/index.md, then what they link to."""
    docs = sorted(page.relative_to(ROOT).as_posix() for page in (ROOT / "docs").rglob("*.md"))
    found = list(dict.fromkeys([START, INDEX, *links_of(INDEX), *docs, *LAST]))
    for place in found:  # which grows by what is found
        if place.endswith(".md"):
            found += [new for new in dict.fromkeys(links_of(place)) if new not in found]
    return found


def page_of(place: str) -> Page:
    """Return a Markdown file as a page, another file as a page that shows its text."""
    text = (ROOT / place).read_text(encoding="utf-8")
    if place.endswith(".md"):
        return Page(place, text, source=place)
    fenced = f"# {Path(place).name}\n\n````{LANGUAGES.get(Path(place).suffix, '')}\n{text}````\n"
    return Page(place, fenced, "source", place)


def moved(of_schemes: Gallery) -> dict[str, str]:
    """Return where the parts of docs/reference/schemes.md are: each on a page of its own."""
    return {f"{SCHEME_LIST}#{Path(page.path).stem}": page.path for page in of_schemes.pages[1:]}


def entries(pages: Iterable[Page], of_schemes: Gallery) -> Iterator[Entry]:
    """Yield the navigation: README.md, the rows of docs/index.md in their order, then the other pages."""
    titles = {**dict(named(INDEX)), INDEX: ALL}
    for page in pages:
        if page.path == SCHEME_LIST:
            yield of_schemes.entry
        elif page.look == "text":
            yield Entry(titles.get(page.path) or first_heading(page.text), page.path)


def grouped(flat: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the navigation with the pages of a kind below one entry, a part of docs/index.md."""
    for folder, those in groupby(flat, lambda entry: entry.path.split("/")[1] if entry.path.count("/") > 1 else ""):
        if folder in KINDS:
            yield Entry(KINDS[folder], f"{INDEX}#{slug(KINDS[folder])}", tuple(those))
        else:
            yield from those


def named(place: str) -> Iterator[tuple[str, str]]:
    """Yield the places that a page links to, and the words of the links."""
    for words, link in re.findall(r"\[([^\]]+)\]\(([^()\s#]+)\)", (ROOT / place).read_text(encoding="utf-8")):
        yield target_of(place, link), words[0].upper() + words[1:]


def first_heading(text: str) -> str:
    """Return the title of a page."""
    return text.partition("# ")[2].partition("\n")[0]


def whole() -> Site:
    """Return the site of the project; the pictures are those of docs/pictures."""
    of_schemes = gallery(SCHEMES.values(), SCHEME_LIST, "../pictures")
    files = [place for place in places() if place not in (SCHEME_LIST,)]
    pages = [page_of(place) for place in files if Path(place).suffix not in PICTURES]
    order = [*pages, of_schemes.pages[0]]
    at = [place for place in places() if place.endswith(".md")]
    order.sort(key=lambda page: at.index(page.path) if page.path in at else len(at))
    drawn = (file for file in (ROOT / "docs" / "pictures").rglob("*") if file.is_file())
    pictures = {file.relative_to(ROOT).as_posix(): file for file in drawn}
    navigation = tuple(grouped(entries(order, of_schemes)))
    return Site(f"posenc-export {__version__}", (*pages, *of_schemes.pages), navigation, pictures, moved(of_schemes))


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
def main(folder: Path) -> None:
    """Write the whole site into FOLDER, which is empty, new, or a site that was written before."""
    check_site(folder)
    write_site(whole(), folder)
    print(folder / "index.html", file=sys.stdout)


if __name__ == "__main__":
    main()
