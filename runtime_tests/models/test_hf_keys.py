"""Keys changed one at a time: what the page says of them, and a sample of them changed again."""

import copy
import re
from importlib.metadata import version
from typing import Any
from unittest.mock import patch

import pytest

from helpers.hf.changed_keys import changes_of
from helpers.hf.keyed import OF_FILES, config_of, judged, keys_read, outcomes_of
from helpers.made_parts import part_of
from posenc_models.asking import load
from posenc_models.config.rope.reader import RotaryReader
from scripts.hf_keys import PAGE as KEYS
from scripts.hf_keys import PART

PAGE = part_of(KEYS, PART)


def changed_theta() -> tuple[dict[str, Any], Any]:
    """Return a llama's config, and the change of its base."""
    content = config_of("llama:linear")
    path = "rope_parameters.rope_theta"
    return content, next(changes_of(content, path, content["rope_parameters"]["rope_theta"]))[0]


def test_the_page_says_that_none_is_wrong() -> None:
    assert f"transformers {version('transformers')}" in PAGE
    assert re.search(r"\n0 were wrong, and \d+ not decided", PAGE)
    for name in (*OF_FILES, "llama:yarn", "bert"):
        assert name in PAGE


def test_keys_are_those_that_the_model_s_code_reads() -> None:
    content = config_of("llama:linear")
    findings, keys = keys_read("llama:linear", content)
    paths = [path for path, _ in keys]
    assert [finding.word for finding in findings] == ["right"]
    assert {"head_dim", "hidden_size", "max_position_embeddings", "rope_parameters.factor"} <= set(paths)
    assert "bos_token_id" in content
    assert "bos_token_id" not in paths


def test_a_reading_that_follows_is_told_from_one_that_does_not() -> None:
    content, change = changed_theta()
    before, _ = keys_read("llama:linear", content)
    assert judged("llama:linear", change, before).word == "followed"
    with patch.object(RotaryReader, "read_theta", lambda self: self.set("rope_theta", 1e4, "given")):
        outcome = judged("llama:linear", change, before)
    assert outcome.word == "wrong"
    assert "differs by" in outcome.why


def test_a_config_is_left_as_it_is() -> None:
    content = config_of("qwen2-vl-2b")
    before = copy.deepcopy(content)
    load.config_of(content, "transformers")
    assert content == before


def test_what_a_class_refuses_is_not_taken() -> None:
    content = config_of("llama:linear")
    *_, absent = changes_of(content, "rope_parameters.factor", 2.0)
    assert judged("llama:linear", absent[0], []).word == "not taken"


@pytest.mark.parametrize(
    ("value", "others"),
    [
        (8, [16, 4, 9]),
        (True, [False]),
        (0.0, [1.0, 0.5]),
        (None, [16, 0.5, True]),
        ([16, 24, 24], [[15, 25, 24], [32, 24, 24], [24, 24]]),
        ([1.5, 2.0], [[3.0, 2.0], [2.0]]),
        (-1, [16, 2]),
        ("silu", []),
    ],
)
def test_values_are_changed_by_their_kind(value: object, others: list[object]) -> None:
    first, *_ = changes_of({"key": value}, "key", value)
    assert [change.content["key"] for change in first] == others


def test_a_rope_type_comes_with_what_it_needs() -> None:
    content = {"head_dim": 8, "rope_parameters": {"rope_type": "linear", "factor": 8.0}}
    ropes = [
        c.content["rope_parameters"]
        for some in changes_of(content, "rope_parameters.rope_type", "linear")
        for c in some
    ]
    longrope = next(rope for rope in ropes if rope and rope.get("rope_type") == "longrope")
    assert longrope["factor"] == 8.0
    assert len(longrope["short_factor"]) == 4


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", OF_FILES)
def test_rotary_keys_of_files_changed_one_at_a_time(name: str) -> None:
    outcomes = outcomes_of(name, "rotary" if name.startswith("gpt") else "rope_")
    words = [outcome.word for outcome in outcomes]
    assert set(words) <= {"right", "followed", "the same", "refused", "not taken"}, outcomes
    assert "followed" in words
