"""The pages of a site, the other files, and the order of the navigation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal

Look = Literal["text", "cards", "parameters", "source"]
"""How a page looks: text; lists with pictures as cards; tables whose rows are blocks on a phone; a program."""


@dataclass(frozen=True)
class Page:
    """A page, as Markdown.

    Args:
        path: Its place, as that of a Markdown file: pages link to each other by these.
        text: What it says.
        look: How it looks.
        source: The file that it is made from, for its last line; "" without one.
    """

    path: str
    text: str
    look: Look = "text"
    source: str = ""

    @property
    def file(self) -> str:
        """Where its HTML is: a README.md is the index of its folder."""
        place = PurePosixPath(self.path)
        if place.name == "README.md":
            return str(place.with_name("index.html"))
        return str(place.with_suffix(".html") if place.suffix == ".md" else place.with_name(f"{place.name}.html"))


@dataclass(frozen=True)
class Entry:
    """An entry of the navigation: a page, or a part of one, and the entries below it.

    Args:
        title: Its words.
        path: The path of a page, perhaps with the #anchor of a part.
        below: Entries that are shown on pages among them.
    """

    title: str
    path: str
    below: tuple[Entry, ...] = ()

    def walk(self) -> Iterator[Entry]:
        """Yield the entry, and those below it, in order."""
        yield self
        for entry in self.below:
            yield from entry.walk()


@dataclass(frozen=True)
class Site:
    """A whole site.

    Args:
        name: Its name, in the head of each page.
        pages: The pages.
        navigation: The entries of the navigation, in order.
        files: The pictures, by their places.
        moved: Places that links name, with an #anchor, and the page that has what is there.
    """

    name: str
    pages: tuple[Page, ...]
    navigation: tuple[Entry, ...]
    files: Mapping[str, Path] = field(default_factory=dict)
    moved: Mapping[str, str] = field(default_factory=dict)
