"""A file's encodings against its model's config: what is the same under other names, and what is not."""

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import posenc_export
from helpers.inspections import inspection, rotary, table
from posenc_export.read.comparing.config import compare_config
from posenc_export.read.comparing.parameters import numbers
from posenc_export.read.inspection import ComparedFile, FoundEncoding
from posenc_export.read.report.text import inspection_lines

SIZES = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 4, "max_position_embeddings": 4096}
LLAMA = {"model_type": "llama", "rope_theta": 10000.0, **SIZES}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
QWEN = {**LLAMA, "model_type": "qwen2", "rope_theta": 1e6, "max_position_embeddings": 32768, "rope_scaling": YARN}
GEMMA = {
    **SIZES,
    "model_type": "gemma3_text",
    "head_dim": 16,
    "num_hidden_layers": 6,
    "rope_theta": 1e6,
    "rope_local_base_freq": 1e4,
    "sliding_window": 512,
    "sliding_window_pattern": 6,
}
SMOLLM3 = {**LLAMA, "model_type": "smollm3", "no_rope_layers": [1, 1, 1, 0]}


def said(folder: Path, config: dict[str, Any], *encodings: FoundEncoding, attentions: int = 0) -> list[tuple[str, str]]:
    """The names and the words of what is found."""
    (folder / "config.json").write_text(json.dumps(config))
    findings, _ = compare_config(inspection(*encodings, attentions=attentions), folder)
    # windows are no matter here: test_attending has them
    return [(finding.name, finding.detail) for finding in findings if finding.name != "not-compared"]


@pytest.mark.parametrize(
    ("config", "encodings"),
    [
        (LLAMA, [rotary(range(4))]),
        (QWEN, [rotary(range(4), 1e6, **YARN)]),
        (QWEN, [rotary(range(4), 1e6, **YARN, attention_factor=1.1386294361119891)]),
        (GEMMA, [rotary(range(5), 1e4), rotary([5], 1e6)]),
        (SMOLLM3, [rotary(range(3))]),
        ({"model_type": "bert", **SIZES, "max_position_embeddings": 512}, [table(512)]),
        ({"model_type": "t5", "d_model": 64, "num_heads": 4, "d_kv": 16, "num_layers": 2}, []),
    ],
    ids=["llama", "yarn", "yarn-factor", "gemma3", "nope", "bert", "part-elsewhere"],
)
def test_what_is_right_has_no_finding(tmp_path: Path, config: dict[str, Any], encodings: list[FoundEncoding]) -> None:
    assert said(tmp_path, config, *encodings, attentions=int(config.get("num_hidden_layers", 0))) == []


DETECTED: dict[str, Any] = {"model_type": "vitdet", "hidden_size": 64, "image_size": 64, "pretrain_image_size": 64}
UNTYPED = {name: value for name, value in DETECTED.items() if name != "model_type"}


@pytest.mark.parametrize(
    "config",
    [
        DETECTED,
        {"model_type": "vitmatte", "hidden_size": 64, "backbone_config": DETECTED},
        {"model_type": "vitmatte", "hidden_size": 64, "backbone_config": UNTYPED},
    ],
    ids=["vitdet", "vitmatte", "no-type"],
)
def test_a_grid_whose_class_token_is_left_out_has_one_row_less(tmp_path: Path, config: dict[str, Any]) -> None:
    assert said(tmp_path, config, table(17)) == []
    # exporters fold what is cut off
    assert said(tmp_path, config, table(16)) == []
    assert said(tmp_path, config, table(15)) == [("parameter", "learned: rows 15, expected 17 by the config")]


def test_a_class_token_that_a_model_has_is_missed(tmp_path: Path) -> None:
    config = {**DETECTED, "model_type": "vit"}
    assert said(tmp_path, config, table(17)) == []
    assert said(tmp_path, config, table(16)) == [("parameter", "learned: rows 16, expected 17 by the config")]


def test_vitmatte_without_a_backbone_has_that_of_its_class(tmp_path: Path) -> None:
    assert [words for _, words in said(tmp_path, {"model_type": "vitmatte", "hidden_size": 384}, table(196))] == [
        "learned: d_model 64, expected 768 by the config"
    ]


def test_frequencies_under_another_name_are_the_same(tmp_path: Path) -> None:
    """A file's frequencies may be named by their numbers alone."""
    inv_freq = tuple(10000.0 ** (-i / 8) for i in range(8))
    encoding = replace(rotary(range(4)), parameters={"inv_freq": inv_freq, "rotary_dim": 16, "rope_type": "unknown"})
    assert said(tmp_path, LLAMA, encoding) == []
    backward = replace(encoding, parameters={"inv_freq": inv_freq[::-1], "rotary_dim": 16})
    ((name, words),) = said(tmp_path, LLAMA, backward)
    assert (name, "frequencies (" in words) == ("parameter", True)


def test_one_table_for_layers_of_two_bases(tmp_path: Path) -> None:
    ((name, words),) = said(tmp_path, GEMMA, rotary(range(6), 1e4))
    assert name == "shared-table"
    assert words == "one table, rope_theta 10000, is used by layers 0-5; by the config layer 5 has 1000000"


DYNAMIC = {**LLAMA, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}
SHORT, LONG = (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5), (2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)
LONGROPE = {"rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG}
PHI3 = {
    **LLAMA,
    "model_type": "phi3",
    "rope_scaling": LONGROPE,
    "original_max_position_embeddings": 1024,
    "pad_token_id": 0,
}
SIDE = {"rope_type": "longrope", "divisors": SHORT, "attention_factor": (1 + 2 / 10) ** 0.5}
"""The short side of longrope, as a call within the original context shows it; 2 is log 4 by log 2, 10 log 1024."""


def test_a_table_that_ends_at_the_switch_has_one_side(tmp_path: Path) -> None:
    encoding = rotary(range(4), **SIDE)
    (found,) = [words for name, words in said(tmp_path, PHI3, encoding) if name == "parameter"]
    assert found == (
        "layers 0-3: long_factor, of calls beyond 1024, (1, 1.5, 2, ...), expected (2, 3, 4, ...) by the config"
    )
    assert [name for name, _ in said(tmp_path, PHI3, replace(encoding, rows=1024))] == ["ends"]
    factor = SIDE["attention_factor"]
    sides: dict[str, Any] = {**LONGROPE, "original_max_position_embeddings": 1024, "attention_factor": factor}
    whole = rotary(range(4), **sides)
    assert said(tmp_path, PHI3, whole) == []


def agreement(folder: Path, config: dict[str, Any], *encodings: FoundEncoding) -> ComparedFile:
    """What is said of an agreement."""
    (folder / "config.json").write_text(json.dumps(config))
    return compare_config(inspection(*encodings), folder)[1]


def test_an_agreement_names_the_lists_of_longrope_that_were_compared(tmp_path: Path) -> None:
    config = {**PHI3, "max_position_embeddings": 1024 * 4}
    sides: dict[str, Any] = {**LONGROPE, "original_max_position_embeddings": 1024}
    both = rotary(range(4), **sides, attention_factor=SIDE["attention_factor"])
    assert agreement(tmp_path, config, both).lists == ("short_factor", "long_factor")
    one = replace(rotary(range(4), **SIDE), rows=1024)
    assert agreement(tmp_path, config, one).lists == ("short_factor",)
    assert agreement(tmp_path, LLAMA, rotary(range(4))).lists == ()
    made = replace(inspection(both), compared=(agreement(tmp_path, config, both),))
    assert any(
        line.endswith("1 encoding compared, by short_factor and long_factor")
        for line in inspection_lines(made, "passed")
    )


def test_a_list_of_longrope_that_is_not_there_is_named(tmp_path: Path) -> None:
    long = rotary(range(4), **{**SIDE, "divisors": LONG})
    (found,) = [words for name, words in said(tmp_path, PHI3, long) if name == "parameter"]
    assert found == (
        "layers 0-3: short_factor, of calls up to 1024, (2, 3, 4, ...), expected (1, 1.5, 2, ...) by the config"
    )
    assert agreement(tmp_path, PHI3, long).lists == ("long_factor",)


def test_rows_of_an_image_of_one_size_are_a_learned_table(tmp_path: Path) -> None:
    vit = {**SIZES, "model_type": "vit", "image_size": 32, "patch_size": 8, "num_channels": 3}
    assert said(tmp_path, vit, table(17)) == []
    assert said(tmp_path, vit, table(10)) == [("parameter", "learned: rows 10, expected 17 by the config")]


@pytest.mark.parametrize(
    ("config", "encoding", "words"),
    [
        (
            {**LLAMA, "partial_rotary_factor": 0.5, "model_type": "stablelm"},
            rotary(range(4), rotary_dim=8, first_feature=8),
            "layers 0-3: first_feature 8, expected 0 by the config",
        ),
        (
            QWEN,
            rotary(range(4), 1e6, **YARN, truncate=False),
            "layers 0-3: truncate False, expected True by the config",
        ),
        (DYNAMIC, rotary(range(4)), "layers 0-3: rope_type default, expected dynamic by the config"),
        (LLAMA, rotary(range(4), 5e5), "layers 0-3: rope_theta 500000, expected 10000 by the config"),
        (QWEN, rotary(range(4), 1e6, **{**YARN, "factor": 8.0}), "layers 0-3: factor 8, expected 4 by the config"),
        (
            LLAMA,
            rotary(range(4), layout="interleaved"),
            "layers 0-3: layout interleaved, expected halves by the config",
        ),
        (
            QWEN,
            rotary(range(4), 1e6, **YARN, attention_factor=1.0),
            "layers 0-3: attention_factor 1, expected 1.13863 by the config",
        ),
        (
            {**LLAMA, "partial_rotary_factor": 0.5, "model_type": "stablelm"},
            rotary(range(4)),
            "layers 0-3: rotary_dim 16, expected 8 by the config",
        ),
    ],
    ids=["first_feature", "truncate", "dynamic", "theta", "factor", "layout", "attention_factor", "rotary_dim"],
)
def test_a_parameter_that_differs_is_named(
    tmp_path: Path, config: dict[str, Any], encoding: FoundEncoding, words: str
) -> None:
    assert ("parameter", words) in said(tmp_path, config, encoding)


def test_layers_without_rotation_the_other_way_round(tmp_path: Path) -> None:
    ((name, words),) = said(tmp_path, SMOLLM3, rotary([3]), attentions=4)
    assert name == "layers"
    assert words == "layer 3 rotate, and should not by the config; layers 0-2 do not rotate, and should by the config"


def test_layers_are_told_by_order_where_attentions_are_not_seen(tmp_path: Path) -> None:
    """Attentions may have operators of unknown names: the first rotation is that of the first rotating layer."""
    assert said(tmp_path, GEMMA, rotary([0, 1, 2, 3, 4], 1e4), rotary([5], 1e6), attentions=9) == []
    found = said(tmp_path, GEMMA, rotary([0, 1], 1e6), attentions=9)  # a base that one of the layers has
    assert found == [("layers", "2 of 9 attentions rotate; by the config 6 layers do")]


def test_a_family_that_is_absent(tmp_path: Path) -> None:
    ((name, words),) = said(tmp_path, LLAMA, table(512))
    assert (name, words.startswith("the config has rotary positions (rope)")) == ("parameter", True)


def test_a_table_shorter_than_the_model(tmp_path: Path) -> None:
    cache = replace(rotary(range(4)), rows=2048)
    assert said(tmp_path, LLAMA, cache) == [
        ("ends", "the table has 2048 rows, and the model 4096 positions by the config")
    ]


def test_rows_of_a_learned_table(tmp_path: Path) -> None:
    config = {"model_type": "bert", **SIZES, "max_position_embeddings": 512}
    assert said(tmp_path, config, table(64)) == [("parameter", "learned: rows 64, expected 512 by the config")]


def test_a_config_that_is_none_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"does not exist: give a config\.json"):
        compare_config(inspection(table(4)), tmp_path)


@pytest.mark.parametrize(("values", "words"), [([0], "0"), ([3, 1, 2, 2], "1-3"), ([0, 2, 3, 9], "0, 2-3, 9")])
def test_numbers_in_words(values: list[int], words: str) -> None:
    assert numbers(values) == words


def test_values_may_be_turned_where_a_config_says_so(tmp_path: Path) -> None:
    """RoFormer's rotary_value turns the values, too."""
    from transformers import RoFormerConfig, RoFormerModel

    sizes: dict[str, Any] = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 48,
    }
    model = RoFormerModel(RoFormerConfig(**sizes, vocab_size=64, max_position_embeddings=64, rotary_value=True)).eval()
    path, ids = tmp_path / "values.onnx", torch.zeros(2, 5, dtype=torch.int64)
    axes = {"ids": {0: "batch", 1: "sequence"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (ids,), path, dynamo=False, input_names=["ids"], dynamic_axes=axes)
    assert any("values are turned" in entry.detail for entry in posenc_export.inspect(path).findings)
    model.config.save_pretrained(tmp_path)
    errors = [entry for entry in posenc_export.inspect(path, config=tmp_path).findings if entry.severity == "error"]
    # such a config is not read, and that is what is said
    assert [(entry.code, "rotary_value is true" in entry.detail) for entry in errors] == [("PE221", True)]
