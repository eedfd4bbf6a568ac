"""Changes of one key of a config: a number doubled, a word replaced by another, an item of a list, null, absent."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WORDS = {
    r"^(rope_)?type$": ("default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional"),
    r"position_embedding_type$": ("absolute", "relative_key", "relative_key_query", "rope", "rotary", "nope"),
    r"^attn_type$": ("uni", "bi"),
    r"act(ivation)?(_fn|_function)?$|non_linearity$": ("relu",),
    r"layer_types$": ("full_attention", "sliding_attention", "linear_attention"),
}
"""What words may be replaced by, by key; others are replaced by none."""
CONTEXT = 32
"""Positions that are within a first context: the calls that compare have 7 and 70 tokens."""


@dataclass(frozen=True)
class Change:
    """A config with one key changed: its path, in words how, and the whole config."""

    path: str
    how: str
    content: dict[str, Any]


def scaling_of(rope_type: str, pairs: int) -> dict[str, Any]:
    """Return what a rope type takes, its first context shorter than the longer of the calls that compare."""
    factors = [1 + i / 8 for i in range(pairs)]
    original = {"original_max_position_embeddings": CONTEXT}
    needed: dict[str, dict[str, Any]] = {
        "linear": {"factor": 2.0},
        "dynamic": {"factor": 2.0},
        "yarn": {"factor": 4.0, "beta_fast": 4.0, "beta_slow": 1.0, **original},
        "longrope": {"short_factor": factors, "long_factor": [2 * f for f in factors], "factor": 4.0, **original},
        "llama3": {"factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, **original},
        "proportional": {"partial_rotary_factor": 0.25},
    }
    return needed.get(rope_type, {})


def keys_of(content: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the path and the value of each key, of those in objects too."""
    for key, value in content.items():
        yield f"{path}{key}", value
        if isinstance(value, dict):
            yield from keys_of(value, f"{path}{key}.")


def changes_of(content: Mapping[str, Any], path: str, value: Any) -> Iterator[list[Change]]:
    """Yield what a key is changed to: of each list the first that its class takes is enough."""
    yield [_changed(content, path, how, other) for how, other in _others(path, value)]
    yield [_changed(content, path, "null", None)] if value is not None else []
    yield [_changed(content, path, "absent")]
    for word in _words(path, value):
        yield [_changed(content, path, f"{value} -> {word}", word)]


def _others(path: str, value: Any) -> list[tuple[str, Any]]:
    """Return other values, the likelier first."""
    if isinstance(value, bool):
        return [("flipped", not value)]
    if value is None:
        return [("null -> 16", 16), ("null -> 0.5", 0.5), ("null -> true", True)]
    if isinstance(value, (int, float)):
        if not value:
            return [("0 -> 1", 1.0 if isinstance(value, float) else 1), ("0 -> 0.5", 0.5)]
        if value < 0:
            return [(f"{value} -> 16", type(value)(16)), (f"{value} -> 2", type(value)(2))]
        half = value // 2 if isinstance(value, int) else value / 2
        return [("doubled", 2 * value), ("halved", half), ("plus 1", value + 1)]
    return _lists(path, value) if isinstance(value, list) else []


def _lists(path: str, values: Sequence[Any]) -> list[tuple[str, Any]]:
    """Return lists of which one item, or two, are others."""
    if not values or isinstance(values[0], (list, dict)):
        return []
    first, rest = values[0], list(values[1:])
    if isinstance(first, str):
        words = [word for word in (*values, *_words(path, first)) if word != first]
        return [(f"first item {word}", [word, *rest]) for word in dict.fromkeys(words)]
    changed = [("first item doubled", [first * 2, *rest]), ("one item fewer", rest)]
    moved = (
        [("one moved to the next", [first - 1, rest[0] + 1, *rest[1:]])]
        if rest and isinstance(first, int) and first > 1
        else []
    )
    return [*moved, *changed]


def _words(path: str, value: Any) -> list[str]:
    """Return other words that may stand under a key."""
    if not isinstance(value, str):
        return []
    key = path.rpartition(".")[2]
    found = (words for pattern, words in WORDS.items() if re.search(pattern, key))
    return [word for word in next(found, ()) if word != value]


def _changed(content: Mapping[str, Any], path: str, how: str, *value: Any) -> Change:
    """Return a config with one key changed; without it, where no value is given."""
    changed = copy.deepcopy(dict(content))
    inner, keys = changed, path.split(".")
    for key in keys[:-1]:
        inner = inner[key]
    if not value:
        del inner[keys[-1]]
    else:
        inner[keys[-1]] = copy.deepcopy(value[0])
    if value and keys[-1] in ("rope_type", "type") and isinstance(value[0], str) and len(keys) > 1:
        for key, needed in scaling_of(value[0], _pairs(changed)).items():
            inner.setdefault(key, needed)
    return Change(path, how, changed)


def _pairs(content: Mapping[str, Any]) -> int:
    """Return the pairs of a head, as far as a config says."""
    width = content.get("qk_rope_head_dim") or content.get("head_dim")
    if not width:
        width = (content.get("hidden_size") or 128) // (content.get("num_attention_heads") or 1)
    share = content.get("partial_rotary_factor") or (content.get("rope_parameters") or {}).get("partial_rotary_factor")
    return int(width * (share or 1)) // 2
