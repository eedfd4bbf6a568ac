"""A gallery of schemes: cards by kind, and a page for each, in the words of docs/reference/schemes.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from posenc import __version__
from posenc.scheme import Scheme
from posenc_export.cli.output.scheme_page import FORMS, SHARED, Links, Listed, listed, overview, section, shared_section
from posenc_export.show.plots import draw_small
from posenc_export.show.site import Entry, Page, Site, slug

NAME = "posenc schemes"
SHARED_PAGE = f"schemes/{slug(SHARED)}.md"


@dataclass(frozen=True)
class Gallery:
    """Schemes as pages of a site.

    Args:
        pages: The overview, and a page for each scheme.
        entry: The overview in a navigation, with the schemes below it, by kind.
    """

    pages: tuple[Page, ...]
    entry: Entry


def gallery(chosen: list[Scheme], place: str = "index.md", pictures: str = "pictures") -> Gallery:
    """Return the gallery of schemes, its overview at a place, and the pages of schemes in a folder beside that.

    Args:
        chosen: The schemes.
        place: Where the overview is.
        pictures: The folder of pictures, as the overview names it.
    """
    of_list, folder = listed(chosen), place[: place.rfind("/") + 1]
    # as the overview names them; pages of schemes lie a folder below it
    links = Links("schemes/{}.md", f"{pictures}/{{}}.png", SHARED_PAGE)
    pages = [Page(place, _overview(of_list, chosen, links), "cards"), *_pages(of_list, pictures)]
    below = tuple(_kinds(of_list, place, folder))
    shared = (Entry(SHARED, folder + SHARED_PAGE),) if of_list.shared else ()
    placed = (replace(page, path=folder + page.path) for page in pages[1:])
    return Gallery((pages[0], *placed), Entry("Schemes", place, (*below, *shared)))


def site_of(chosen: list[Scheme], pictures: Path) -> Site:
    """Return a site of the gallery alone; draw the pictures into a folder first."""
    for scheme in chosen:
        draw_small(scheme, pictures / f"{scheme.name}.png")
    made = gallery(chosen)
    files = {f"pictures/{scheme.name}.png": pictures / f"{scheme.name}.png" for scheme in chosen}
    return Site(f"{NAME} {__version__}", made.pages, (made.entry,), files)


def _overview(of_list: Listed, chosen: list[Scheme], links: Links) -> str:
    parts = ["# Schemes\n", FORMS, *_cards(of_list, links)]
    return "\n".join([*parts, "## Forms and formats\n", overview(of_list, chosen, links)])


def _cards(of_list: Listed, links: Links) -> Iterator[str]:
    for kind, schemes in of_list.by_kind.items():
        if schemes:
            yield f"## {kind}\n"
            yield from (_card(scheme, links) for scheme in schemes)
            yield ""


def _card(scheme: Scheme, links: Links) -> str:
    # the picture has no alternative text of its own: the name beside it is the link
    name, picture = scheme.name, links.picture.format(scheme.name)
    return f"* [![]({picture})\n  {name}]({links.scheme.format(name)}) {scheme.summary}"


def _pages(of_list: Listed, pictures: str) -> Iterator[Page]:
    links = Links("{}.md", f"../{pictures}/{{}}.png", SHARED_PAGE.partition("/")[2])
    for scheme in of_list.schemes:
        text, source = section(scheme, of_list, links, "#"), f"posenc/schemes/{scheme.name}.py"
        yield Page(f"schemes/{scheme.name}.md", text, "parameters", source)
    if of_list.shared:
        yield Page(SHARED_PAGE, shared_section(of_list, "#"), "parameters")


def _kinds(of_list: Listed, place: str, folder: str) -> Iterator[Entry]:
    for kind, schemes in of_list.by_kind.items():
        if schemes:
            below = tuple(Entry(scheme.name, f"{folder}schemes/{scheme.name}.md") for scheme in schemes)
            yield Entry(kind, f"{place}#{slug(kind)}", below)
