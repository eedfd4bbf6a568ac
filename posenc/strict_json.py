"""Untrusted JSON: an object with a name twice is refused, since readers differ in which of the values they take."""

import json
from pathlib import Path

LARGEST = 2**24
"""Bytes of a JSON file that is read: configurations of models have a few thousand."""


def read_json(path: Path) -> object:
    """Return the values of a JSON file of UTF-8 text, with a byte order mark or without one.

    Raises ValueError, in one line, for a file that is too large or holds no JSON, and OSError where it cannot be read.
    """
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"it has more than {LARGEST:,} bytes")
    return parse(content.decode("utf-8-sig"))


def parse(text: str) -> object:
    """Return the values of a JSON text; raise ValueError, in one line, for other text and for a name twice."""
    try:
        return json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"it says {next(name for name in names if names.count(name) > 1)!r} twice in one object")
    return made
