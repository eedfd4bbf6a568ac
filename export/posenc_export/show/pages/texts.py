"""Texts and data of a bundle in a page: cut where they are long, without characters that steer, never markup."""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape

from markupsafe import Markup

from posenc_export.common.errors import unsteered

LETTERS, SHORT = 2000, 60
"""Characters of a text; and once that room is used up."""
ROOM, LITTLE = 200_000, 60_000
"""Bytes of texts with LETTERS characters at most, then of texts with SHORT ones; no others are shown."""
MOST = 200
"""Entries of a list or rows of a table that are shown; the others are counted."""
CUT = "\N{HORIZONTAL ELLIPSIS}"


@dataclass
class Room:
    """How many bytes of texts a page has room for."""

    left: int = ROOM + LITTLE

    def text(self, value: object) -> object:
        """Return a value as it is shown: a text in one line, cut where it is long; what is markup stays."""
        if isinstance(value, Markup) or not isinstance(value, str):
            return value
        limit = LETTERS if self.left > LITTLE else SHORT if self.left > 0 else 0
        # before the rest is looked at: texts of anybody's may be huge
        shown = unsteered(value[:limit].replace("\n", "\\n"))[:limit]
        shown += "" if len(value) <= limit else _more(len(value) - limit) if limit else CUT
        self.left -= len(escape(shown).encode("utf-8", "replace"))
        return shown


def _more(count: int) -> str:
    return f"{CUT} ({count:,} more characters)"


def data_text(data: object) -> Markup:
    """Return data as JSON for a `script` element: no text in it can close the element, or open another."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))  # letters beyond ASCII are escaped, too
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
