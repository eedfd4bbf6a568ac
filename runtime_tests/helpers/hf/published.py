"""Published configs, as their files are or in their form, with the answer that each must get: `data/published`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from posenc_models import read_config

FOLDER = Path(__file__).parents[2] / "data" / "published"
LONG = 8
"""Items of the longest list that an answer repeats: longer ones are those of the config."""


def names() -> list[str]:
    """Return the names of all configs."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def file_of(name: str) -> dict[str, Any]:
    """Return what a file holds: `config`, and `answers` or `refused`."""
    content: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return content


def answer(config: Mapping[str, Any], how: Mapping[str, str]) -> dict[str, Any]:
    """Return what is read of a config: its scheme, and parameters without long lists."""
    reading = read_config(dict(config), how.get("layer_type"), part=how.get("part"))
    parameters = json.loads(json.dumps(reading.parameters))
    short = {key: value for key, value in parameters.items() if not isinstance(value, list) or len(value) <= LONG}
    return {"how": dict(how), "scheme": reading.scheme, "parameters": short}


def hows(words: str) -> Iterator[dict[str, str]]:
    """Yield the part and the type of layers that a finding names, as "vision" or "text, full_attention"."""
    parts = [word for word in words.split(", ") if word]
    types = [word for word in parts if word.endswith("_attention")]
    others = [word for word in parts if not word.endswith("_attention")]
    yield {**({"part": others[0]} if others else {}), **({"layer_type": types[0]} if types else {})}
