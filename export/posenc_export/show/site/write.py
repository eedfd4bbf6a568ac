"""A site is written: its pages, its pictures, the index of its search, its style and its script."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from posenc_export.bundle.listing import write_listing
from posenc_export.bundle.out_file import PlaceOption
from posenc_export.bundle.place import check_folder
from posenc_export.bundle.replacement import install, staged
from posenc_export.show.scrolling import scrolling
from posenc_export.show.site import search
from posenc_export.show.site.layout import Frame
from posenc_export.show.site.links import address, picture, places
from posenc_export.show.site.markdown import Parsed, check_installed, parse, render
from posenc_export.show.site.page import Page, Site

ASSETS = ("site.css", "site.js", "icon.svg")
SITE = PlaceOption("--site", "")
"""The option that takes the folder of a site; what another program wrote is never replaced."""


def check_site(folder: Path) -> None:
    """Raise BadInput, before any work, where a site cannot be made or cannot be put."""
    check_installed()
    check_folder(folder, option=SITE)


def write_site(site: Site, folder: Path) -> None:
    """Write a site into a folder, whole or not at all.

    Raises BadInput where the folder holds what this tool did not write, and where a link or a picture leads nowhere.
    """
    texts = rendered(site)
    # nothing is written before every link was followed
    with staged(folder, SITE) as scratch:
        for place, text in texts.items():
            _write(scratch / place, text)
        for place, file in site.files.items():
            (scratch / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, scratch / place)
        write_listing(scratch)
        install(scratch, folder, option=SITE)


def rendered(site: Site) -> Mapping[str, str]:
    """Return the text of every file of a site but its pictures, by its place."""
    parsed = {page.path: parse(page.text) for page in site.pages}
    anchors = {path: {part.heading.anchor for part in text.parts} for path, text in parsed.items()}
    frame = Frame(site, places(site, anchors))
    index = search.index((page, parsed[page.path]) for page in site.pages)
    return {
        **{page.file: _html(page, parsed[page.path], frame) for page in site.pages},
        **{f"assets/{name}": files(__package__).joinpath("assets", name).read_text("utf-8") for name in ASSETS},
        "assets/scrolling.css": scrolling(),
        "assets/index.js": index,
    }


def _html(page: Page, parsed: Parsed, frame: Frame) -> str:
    known = frame.known
    body = render(parsed, lambda link: address(page, link, known), lambda source: picture(page, source, known))
    return frame.whole_page(page, [part.heading for part in parsed.parts], body)


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8", newline="\n")
