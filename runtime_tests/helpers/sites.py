"""Sites for tests: what their files link to and load, as a browser resolves it, and a server of a folder."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {("img", "src"), ("script", "src"), ("link", "href"), ("source", "src"), ("iframe", "src"), ("img", "srcset")}
"""Attributes whose addresses a browser loads without being asked."""


@dataclass
class Read(HTMLParser):
    """The anchors of a page, what it links to and what it loads."""

    anchors: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.anchors.append(str(value))
            if (tag, name) == ("a", "href"):
                self.links.append(str(value))
            if (tag, name) in LOADED:
                self.loaded.append(str(value))


@functools.cache
def read(page: Path) -> Read:
    parser = Read()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser


def pages_of(folder: Path) -> dict[Path, Read]:
    return {page: read(page) for page in sorted(folder.rglob("*.html"))}


def dead_links(folder: Path) -> list[str]:
    """Return every link of the pages of a folder, and every file that they load, that is not in the folder."""
    pages = pages_of(folder)
    dead = []
    for page, found in pages.items():
        for link in [*found.links, *found.loaded]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if not target.is_file() or (parts.fragment and parts.fragment not in pages[target].anchors):
                dead.append(f"{page.relative_to(folder)}: {link}")
    return dead


def loaded_from_elsewhere(folder: Path) -> list[str]:
    """Return what pages and styles of a folder would load from another host, or by an address of any host's root."""
    addresses = [(page, address) for page, found in pages_of(folder).items() for address in found.loaded]
    sheets = {file: file.read_text(encoding="utf-8") for file in folder.rglob("*.css")}
    styles = [
        (file, address) for file, text in sheets.items() for address in re.findall(r"(?:url\(|@import )(.*?)[);]", text)
    ]
    return [f"{file}: {address}" for file, address in [*addresses, *styles] if re.match(r"[a-z]+:|/", address)]


def reached(folder: Path, start: str = "index.html") -> set[Path]:
    """Return the pages that one reaches by links from the first."""
    pages, todo = pages_of(folder), [(folder / start).resolve()]
    seen: set[Path] = set()
    while todo:
        page = todo.pop()
        if page in seen or page not in pages:
            continue
        seen.add(page)
        links = (urlsplit(link) for link in pages[page].links)
        todo += [(page.parent / link.path).resolve() for link in links if link.path and not link.scheme]
    return seen


class Quiet(SimpleHTTPRequestHandler):
    """Files of a folder, without a line for each request."""

    def log_message(self, format: str, *values: object) -> None:
        """Print nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on a loopback port; yield the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
