"""What attention sees: forms that it cannot tell apart, buckets for the keys that it sees, and windows."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import posenc_export
from helpers.attention_graphs import alibi_file, buckets_file, windows_file
from helpers.inspections import inspection, rotary
from posenc_export.read.comparing.attending import compare_attending
from posenc_export.read.inspection import Inspection, Sight

BLOOM = {"model_type": "bloom", "hidden_size": 64, "n_head": 4, "n_layer": 1, "vocab_size": 64}
T5 = {
    "model_type": "t5",
    "d_model": 64,
    "num_heads": 4,
    "d_kv": 16,
    "num_layers": 1,
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
}
MISTRAL = {
    "model_type": "mistral",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "num_hidden_layers": 2,
    "max_position_embeddings": 128,
    "rope_theta": 10000.0,
    "sliding_window": 16,
}
LAYERS = {**MISTRAL, "model_type": "qwen3", "layer_types": ["sliding_attention", "full_attention"]}


def held(path: Path, config: dict[str, Any]) -> Inspection:
    """A file held against a config."""
    beside = path.with_suffix(".json")
    beside.write_text(json.dumps(config))
    return posenc_export.inspect(path, config=beside)


def errors(found: Inspection) -> list[str]:
    """The words of errors."""
    return [entry.detail for entry in found.findings if entry.severity == "error"]


# ---- forms that softmax makes one -----------------------------------------------------------------------------------


def test_alibi_by_distance_is_alibi_by_key_where_later_keys_are_hidden(tmp_path: Path) -> None:
    found = held(alibi_file(tmp_path / "causal.onnx", is_causal=True), BLOOM)
    assert (found.findings, found.compared[0].agrees) == ((), True)
    assert [sight.later for sight in found.sights] == [False]
    assert errors(held(alibi_file(tmp_path / "key.onnx", is_causal=True, form="key"), BLOOM)) == []


def test_alibi_by_distance_is_another_where_later_keys_are_seen(tmp_path: Path) -> None:
    found = held(alibi_file(tmp_path / "both.onnx", is_causal=False), BLOOM)
    assert errors(found) == ["alibi: form distance, expected key by the config"]
    assert [sight.later for sight in found.sights] == [True]


def test_a_wrong_slope_is_an_error_in_either_form(tmp_path: Path) -> None:
    (words,) = errors(held(alibi_file(tmp_path / "wrong.onnx", is_causal=True, base=2.5), BLOOM))
    assert words.startswith("alibi: ")


def test_a_file_that_now_counts_distances_is_the_one_before(tmp_path: Path) -> None:
    before = alibi_file(tmp_path / "key.onnx", is_causal=True, form="key")
    now = posenc_export.inspect(alibi_file(tmp_path / "distance.onnx", is_causal=True), against=before)
    assert errors(now) == []


# ---- the buckets of an encoder, and those of a decoder ---------------------------------------------------------------


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_buckets_are_those_of_the_keys_that_are_seen(tmp_path: Path, is_causal: bool, bidirectional: bool) -> None:
    path = buckets_file(tmp_path / "model.onnx", is_causal=is_causal, bidirectional=bidirectional)
    found = held(path, T5)
    assert [encoding.parameters["bidirectional"] for encoding in found.encodings] == [bidirectional]
    wanted = f"t5: bidirectional {bidirectional}, expected {not bidirectional} by the config"
    assert errors(found) == ([wanted] if is_causal is bidirectional else [])


# ---- tables that are shorter than their model ------------------------------------------------------------------------


def test_a_rotary_table_that_is_shorter_than_the_config_is_an_error(tmp_path: Path) -> None:
    config = {**MISTRAL, "sliding_window": None}
    assert errors(held(windows_file(tmp_path / "right.onnx", (None, None)), config)) == []
    (words,) = errors(held(windows_file(tmp_path / "short.onnx", (None, None), rows=64), config))
    assert words == "the table has 64 rows, and the model 128 positions by the config"


# ---- windows ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["where", pytest.param("added", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize(
    ("config", "windows", "words"),
    [
        (MISTRAL, (16, 16), []),
        (MISTRAL, (17, 17), ["layers 0-1: window 17, expected 16 by the config"]),
        (MISTRAL, (16, None), ["layer 1: each query sees all keys before it, expected a window of 16 by the config"]),
        (LAYERS, (16, None), []),
        (LAYERS, (16, 16), ["layer 1: window 16, expected none by the config"]),
        ({**MISTRAL, "sliding_window": None}, (None, None), []),
        ({**MISTRAL, "sliding_window": None}, (None, 40), ["layer 1: window 40, expected none by the config"]),
        ({**LAYERS, "use_sliding_window": False}, (None, None), []),
        # a window that no call can fill
        ({**MISTRAL, "sliding_window": 4096}, (None, None), []),
    ],
)
def test_windows_are_those_of_the_config(
    tmp_path: Path, config: dict[str, Any], windows: tuple[int | None, ...], words: list[str], by: str
) -> None:
    found = held(windows_file(tmp_path / "model.onnx", windows, by), config)
    assert errors(found) == words
    assert [entry for entry in found.findings if entry.name == "not-compared"] == []
    assert found.compared[0].agrees is not bool(words)


def notes(tmp_path: Path, found: Inspection, config: dict[str, Any]) -> list[str]:
    """What is said beside a config, of an inspection that is given."""
    (tmp_path / "config.json").write_text(json.dumps(config))
    return [f"{entry.severity}: {entry.detail}" for entry in compare_attending(found, tmp_path)]


def seen(sights: list[tuple[bool | None, int | None, int]]) -> Inspection:
    """A file whose attentions see these keys."""
    layers = tuple(Sight(layer, f"Softmax{layer}", *sight) for layer, sight in enumerate(sights))
    return replace(inspection(rotary(range(len(sights)))), sights=layers)


@pytest.mark.parametrize(
    ("config", "sights", "words"),
    [
        (MISTRAL, [(False, None, 13)] * 2, "a window of 16 (calls of 13 keys alone were tried) in layers 0-1"),
        (MISTRAL, [(None, None, 0)] * 2, "a window of 16 (its mask was not followed) in layers 0-1"),
        ({**MISTRAL, "model_type": "llama"}, [(False, 16, 18)] * 2, "sliding_window 16, whose layers are not known"),
        (MISTRAL, [(False, 16, 18)], "sliding_window 16: the config has 2 layers, the file 1 attentions"),
        ({**MISTRAL, "attention_chunk_size": 8}, [(False, 16, 18)] * 2, "attention_chunk_size 8"),
        (
            {**MISTRAL, "attn_logit_softcapping": 50.0, "query_pre_attn_scalar": 256},
            [(False, 16, 18)] * 2,
            "attn_logit_softcapping 50; query_pre_attn_scalar 256",
        ),
        ({**LAYERS, "model_type": "gpt_oss"}, [(False, 16, 18), (False, None, 18)], "the sinks of gpt_oss"),
    ],
)
def test_what_was_not_compared_is_said(
    tmp_path: Path, config: dict[str, Any], sights: list[tuple[bool | None, int | None, int]], words: str
) -> None:
    assert notes(tmp_path, seen(sights), config) == [f"note: the file was not held against the config in: {words}"]


def test_nothing_is_said_where_all_was_compared(tmp_path: Path) -> None:
    assert notes(tmp_path, seen([(False, 16, 18)] * 2), MISTRAL) == []
