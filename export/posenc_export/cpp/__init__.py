"""C++ texts with places to fill in, `@name`; and what C++17 calls the dtypes it has."""

from __future__ import annotations

import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any

REALS: Mapping[str, str] = {"float32": "float", "float64": "double"}


class _Text(string.Template):
    delimiter = "@"


def filled(name: str, **fields: Any) -> str:
    """Return the text of NAME.in in this folder with its places filled in."""
    return _Text(Path(__file__).with_name(f"{name}.in").read_text("ascii")).substitute(fields)
