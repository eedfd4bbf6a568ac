"""How much a manifest may hold: counted before any value is validated.

Every case is a call on every runtime and every note is a line of a report; a few megabytes could hold a million.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

MAX_ENTRIES: Mapping[str, int] = {
    "cases": 2000,
    "notes": 500,
    "not_tried": 500,
    "unread": 500,
    "inputs": 500,
    "outputs": 500,
    "artifacts": 50,
    "files": 10_000,
    "params": 10_000,
    "facts": 10_000,
    "versions": 500,
    "origin": 500,
    "trace": 500,
}
"""Entries of a field: ten times as many as the largest export has."""
MAX_CHARACTERS = 100_000
"""Characters of a text."""


def too_many(data: Mapping[str, object]) -> list[str]:
    """Return a line for each field with too many entries or too long a text; nothing if all are within bounds."""
    return [f"manifest.json: {line}" for line in (*_counts(data), *_texts(data))]


def _counts(data: Mapping[str, object]) -> Iterator[str]:
    for name, max_entries in MAX_ENTRIES.items():
        value = data.get(name)
        if isinstance(value, list | dict) and len(value) > max_entries:
            yield f"{name} must hold at most {max_entries:,}, got {len(value):,}"


def _texts(data: Mapping[str, object]) -> Iterator[str]:
    """Yield the fields that hold a text that is too long, at any depth."""
    for name, value in data.items():
        characters = max(_lengths(value), default=0)
        if characters > MAX_CHARACTERS:
            yield f"{name} must hold no text of more than {MAX_CHARACTERS:,} characters, got {characters:,}"


def _lengths(value: object) -> Iterator[int]:
    """Yield the length of each text in a value of JSON."""
    values = [value]  # a stack instead of recursion: the value may be nested deeper than Python recurses
    while values:
        value = values.pop()
        if isinstance(value, str):
            yield len(value)
        elif isinstance(value, Mapping):
            values += [*value, *value.values()]
        elif isinstance(value, list):
            values += value
