"""C++ that is shipped: `session`, what loads a graph; `bundle`, what --cpp adds; `header`, texts to fill in."""

from __future__ import annotations

import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
REALS: Mapping[str, str] = {"float32": "float", "float64": "double"}
"""What C++17 calls the dtypes it has."""


class _Text(string.Template):
    delimiter = "@"


def filled(name: str, **fields: Any) -> str:
    """Return the text of header/NAME.in with its places, `@name`, filled in."""
    return _Text((FOLDER / "header" / f"{name}.in").read_text("ascii")).substitute(fields)
