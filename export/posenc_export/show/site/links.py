"""Links between Markdown files, as on a code host, become links between the pages of a site."""

from __future__ import annotations

import posixpath
import re
import struct
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from posenc_export.common.errors import BadInput
from posenc_export.show.site.page import Page, Site

OUTSIDE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
"""How an address begins that names a host or a program, where a path has none."""
PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class LinkPlaces:
    """What links may lead to: the anchors of each page by its path, the files of pages, pictures, and what moved."""

    anchors: Mapping[str, Set[str]]
    files: Mapping[str, str]
    pictures: Mapping[str, Path]
    moved: Mapping[str, str]


def places(site: Site, anchors: Mapping[str, Set[str]]) -> LinkPlaces:
    """Return what links of a site may lead to."""
    return LinkPlaces(anchors, {page.path: page.file for page in site.pages}, site.files, site.moved)


def target_of(place: str, link: str) -> str:
    """Return the place that a link of a Markdown file names, from the root, with its #anchor."""
    path, sharp, anchor = link.partition("#")
    whole = posixpath.normpath(posixpath.join(posixpath.dirname(place), path)) if path else place
    return f"{whole}{sharp}{anchor}"


def address(page: Page, link: str, known: LinkPlaces) -> str:
    """Return the address of what a link of a page names; raise BadInput where nothing is there."""
    if OUTSIDE.match(link):
        return link
    target = target_of(page.path, link)
    # a part that has a page of its own is at the top of that
    path, sharp, anchor = known.moved.get(target, target).partition("#")
    if path not in known.files or (anchor and anchor not in known.anchors[path]):
        raise BadInput(f"{page.source or page.path} links to {link}, which is not there")
    if path == page.path and anchor:
        return f"#{anchor}"
    return f"{relative(page.file, known.files[path])}{sharp}{anchor}"


def relative(file: str, to: str) -> str:
    """Return the address of a file, as a file of the same site names it."""
    return posixpath.relpath(to, posixpath.dirname(file) or ".")


def picture(page: Page, source: str, known: LinkPlaces) -> dict[str, str]:
    """Return the attributes of a picture of a page, its size among them; raise BadInput where it is not there."""
    place = target_of(page.path, source)
    if place not in known.pictures:
        raise BadInput(f"{page.source or page.path} shows {source}, which is not there")
    return {"src": relative(page.file, place), **_size(known.pictures[place])}


def _size(file: Path) -> dict[str, str]:
    """Return the width and height of a .png, so that a page does not jump when it is loaded."""
    # the first chunk, behind the signature, begins with both sizes
    with file.open("rb") as opened:
        head = opened.read(24)
    if not head.startswith(PNG):
        return {}
    width, height = struct.unpack(">II", head[16:])
    return {"width": str(width), "height": str(height), "loading": "lazy"}
