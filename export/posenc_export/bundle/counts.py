"""How much a manifest may hold: bounds that are counted before its values are looked at one by one.

Each case is a call on every runtime, each note a line of a report; a few megabytes would be a million of either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

MOST: Mapping[str, int] = {
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
"""Entries of a field: ten times what the largest export has."""
MOST_CHARACTERS = 100_000
"""Characters of a text."""


def too_many(data: Mapping[str, object]) -> list[str]:
    """Return what is more, or longer, than a manifest may hold, a line each; nothing where all is within bounds."""
    return [f"manifest.json: {line}" for line in (*_counts(data), *_texts(data))]


def _counts(data: Mapping[str, object]) -> Iterator[str]:
    for name, most in MOST.items():
        value = data.get(name)
        if isinstance(value, list | dict) and len(value) > most:
            yield f"{name} must hold at most {most:,}, got {len(value):,}"


def _texts(data: Mapping[str, object]) -> Iterator[str]:
    """Yield the fields that hold a text that is too long, however deep it lies."""
    for name, value in data.items():
        characters = max(_lengths(value), default=0)
        if characters > MOST_CHARACTERS:
            yield f"{name} must hold no text of more than {MOST_CHARACTERS:,} characters, got {characters:,}"


def _lengths(value: object) -> Iterator[int]:
    """Yield the length of each text in a value of JSON; without recursion, as it may be deeper than Python goes."""
    values = [value]
    while values:
        value = values.pop()
        if isinstance(value, str):
            yield len(value)
        elif isinstance(value, Mapping):
            values += [*value, *value.values()]
        elif isinstance(value, list):
            values += value
