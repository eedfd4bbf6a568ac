"""Untrusted JSON: an object with a name twice is refused, since readers differ in which of the values they take."""

import json


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
