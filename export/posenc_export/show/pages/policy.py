"""The Content-Security-Policy of a page: nothing is loaded, and no script or style runs but those of the tool."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Mapping, Sequence

Sources = Mapping[str, Sequence[str]]
"""Where a page may load from, by directive."""
NOTHING: Sources = {"default-src": ("'none'",), "base-uri": ("'none'",), "form-action": ("'none'",)}


def policy(scripts: Sequence[str], styles: Sequence[str], more: Sources) -> str:
    """Return the policy of a page with these texts of scripts and styles, and what else it may load."""
    directives: dict[str, list[str]] = {name: list(sources) for name, sources in NOTHING.items()}
    directives |= {
        "script-src": [digest(text) for text in scripts],
        "style-src": [digest(text) for text in styles],
        "img-src": ["data:"],
    }
    # what is added comes behind what the page itself needs
    for name, sources in more.items():
        directives[name] = [*directives.get(name, []), *sources]
    return "; ".join(f"{name} {' '.join(sources)}" for name, sources in directives.items())


def digest(text: str) -> str:
    """Return the source that allows a script or a style of this text."""
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
