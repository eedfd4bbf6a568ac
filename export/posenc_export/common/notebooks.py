"""What notebooks show of a result. Pages are made by a room above that of results: the package says by what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PAGES: dict[str, Callable[[Any], str]] = {}
"""By the name of a result's class, what makes its HTML."""


def html_of(result: object) -> str:
    """Return what a notebook shows of a result."""
    return PAGES[type(result).__name__](result)
