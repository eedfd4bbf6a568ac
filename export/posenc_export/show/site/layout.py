"""The frame of a page: head, navigation, search, and links to the previous and the next page."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from posenc_export.show.site.links import LinkPlaces, relative
from posenc_export.show.site.markdown import Heading
from posenc_export.show.site.page import Entry, Page, Site

POLICY = "default-src 'none'; img-src 'self'; style-src 'self'; script-src 'self'; base-uri 'none'; form-action 'none'"
"""What a page may load: files beside it, and nothing from another host."""
CURRENT = ' aria-current="page"'
FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="{root}assets/icon.svg">
<link rel="stylesheet" href="{root}assets/scrolling.css">
<link rel="stylesheet" href="{root}assets/site.css">
<script src="{root}assets/site.js" data-root="{root}"></script>
</head>
<body>
<a class="to-content" href="#content">Skip to the text</a>
<header>
<button type="button" id="menu" aria-expanded="false" aria-controls="navigation" hidden>Pages</button>
<a class="name" href="{home}">{name}</a>
<search>
<label for="query">Search</label>
<input type="search" id="query" placeholder="Search" autocomplete="off" spellcheck="false" disabled>
<p id="found" role="status"></p>
<ul id="results" hidden></ul>
</search>
<button type="button" id="theme" hidden>Dark</button>
</header>
<nav id="navigation" aria-label="Pages">
{navigation}
</nav>
<main id="content" class="{look}" tabindex="-1">
{body}
{around}
</main>
</body>
</html>
"""


@dataclass(frozen=True)
class Frame:
    """What stands around the text of each page of a site.

    Args:
        site: The site.
        known: What links may lead to.
    """

    site: Site
    known: LinkPlaces

    def whole_page(self, page: Page, headings: Sequence[Heading], body: str) -> str:
        """Return a page as a whole."""
        name, title = self.site.name, headings[0].words
        return FRAME.format(
            policy=POLICY,
            title=escape(title if title == name else f"{title} | {name}"),
            root="../" * page.file.count("/"),
            home=relative(page.file, "index.html"),
            name=escape(name),
            navigation="\n".join(self._entries(page, headings, self.site.navigation)),
            look=page.look,
            body=body,
            around="\n".join(self._footer(page)),
        )

    def _entries(self, page: Page, headings: Sequence[Heading], entries: Sequence[Entry]) -> Iterator[str]:
        """Yield a list of entries, open where the page is, with the headings of the page itself."""
        yield "<ul>"
        for entry in entries:
            is_here = entry.path == page.path
            yield f"<li>{self._link(page, entry, CURRENT if is_here else '')}"
            # the entries below an overview are its parts already
            if is_here and not entry.below:
                yield from _headings(headings)
            if any(below.path.partition("#")[0] == page.path for below in entry.walk()):
                yield from self._entries(page, headings, entry.below) if entry.below else ()
            yield "</li>"
        yield "</ul>"

    def _link(self, page: Page, entry: Entry, attributes: str = "") -> str:
        path, sharp, anchor = entry.path.partition("#")
        place = f"{relative(page.file, self.known.files[path])}{sharp}{anchor}"
        return f'<a href="{escape(place)}"{attributes}>{escape(entry.title)}</a>'

    def _footer(self, page: Page) -> Iterator[str]:
        """Yield links to the pages before and behind this one, and where its text is from."""
        # entries with # are parts of a page: nobody leafs through them
        order = [entry for first in self.site.navigation for entry in first.walk() if "#" not in entry.path]
        # pages that no entry names, such as sources, have none beside them
        here = next((number for number, entry in enumerate(order) if entry.path == page.path), None)
        yield "<footer>"
        if here is not None:
            yield '<nav class="beside" aria-label="Previous and next">'
            yield self._link(page, order[here - 1], ' rel="prev"') if here else "<span></span>"
            yield self._link(page, order[here + 1], ' rel="next"') if here + 1 < len(order) else "<span></span>"
            yield "</nav>"
        yield f"<p>{escape(_source(page))}</p></footer>" if page.source else "</footer>"


def _headings(headings: Sequence[Heading]) -> Iterator[str]:
    """Yield the list of a page's own parts."""
    parts = [heading for heading in headings if heading.level == 2]
    if parts:
        yield '<ul class="parts">'
        yield from (f'<li><a href="#{part.anchor}">{escape(part.words)}</a></li>' for part in parts)
        yield "</ul>"


def _source(page: Page) -> str:
    return f"Made from {posixpath.normpath(page.source)}."
