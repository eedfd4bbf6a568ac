"""The index that pages are searched by: a script, since a page that is opened from a folder may load nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable

from posenc_export.show.site.markdown import Heading, Parsed
from posenc_export.show.site.page import Page


def index(pages: Iterable[tuple[Page, Parsed]]) -> str:
    """Return a script with a list for each part of each page: title, heading, address, words."""
    # the first part is the page itself: it has no heading of its own, and the address of the whole
    rows = [
        [parsed.title, part.heading.words if number else "", _address(page, part.heading, number), part.words]
        for page, parsed in pages
        for number, part in enumerate(parsed.parts)
    ]
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    return f"window.posencIndex = [\n{lines}\n];\n"


def _address(page: Page, heading: Heading, number: int) -> str:
    return f"{page.file}#{heading.anchor}" if number else page.file
