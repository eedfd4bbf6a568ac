"""C++ that is shipped: files to copy, in `session`, `bundle` and `runner`, and templates that `filled` fills in.

`session` loads a graph; `bundle` is what --cpp adds to it, with what is made of `bundle_templates`; `runner` is the
programs that validation runs; `header` is what a header is made of.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).parent
HEADER, BUNDLE_TEMPLATES = FOLDER / "header", FOLDER / "bundle_templates"
REALS: Mapping[str, str] = {"float32": "float", "float64": "double"}
"""What C++17 calls the dtypes it has."""


class _Text(string.Template):
    delimiter = "@"  # C++ has no other use for it, and braces stay as they are


def filled(name: str, folder: Path = HEADER, /, **fields: object) -> str:
    """Return the text of NAME.in in a folder of templates, with its places, `@field`, filled in."""
    return _Text((folder / f"{name}.in").read_text("ascii")).substitute(fields)
