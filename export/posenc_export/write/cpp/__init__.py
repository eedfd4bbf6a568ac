"""C++ that is shipped: files to copy, and templates that `filled` fills in.

`session` loads a graph; --cpp adds `bundle` to it, `scene` where a model sees or hears, and files made from
`bundle_templates`. `runner` has the programs that validation runs, `header` the parts of a header.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).parent
HEADER, BUNDLE_TEMPLATES = FOLDER / "header", FOLDER / "bundle_templates"
REALS: Mapping[str, str] = {"float32": "float", "float64": "double"}
"""The names of dtypes in C++17, which lacks the others."""


class _Text(string.Template):
    delimiter = "@"  # C++ has no other use for it, and braces stay as they are


def filled(name: str, folder: Path = HEADER, /, **fields: object) -> str:
    """Return the text of NAME.in in a folder of templates, with every `@field` filled in."""
    return _Text((folder / f"{name}.in").read_text("ascii")).substitute(fields)
