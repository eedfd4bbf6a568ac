"""With a config, whatever it says is matched: what was not found, or not judged, is an error and no pass."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.inspections import inspection, rotary, table
from helpers.shared import Cli
from helpers.small_decoders import Decoder, saved
from posenc.formulas.alibi import slopes_of
from posenc_export.read.comparing.config import compare_config
from posenc_export.read.inspection import FoundEncoding, Inspection, Taken
from posenc_export.read.judging import judged

LLAMA = {
    "model_type": "llama",
    "hidden_size": 32,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "max_position_embeddings": 2048,
    "rope_theta": 10000.0,
}
UNKNOWN = FoundEncoding(
    "not recognised", "Mul", {}, (), ("/Mul",), (), ("x",), (), "float32", None, "range", shape=(1, 13)
)


def said(folder: Path, config: dict[str, Any], made: Inspection) -> list[tuple[str, str, str]]:
    (folder / "config.json").write_text(json.dumps(config))
    return [(entry.name, entry.severity, entry.detail) for entry in compare_config(made, folder)[0]]


def alibi(heads: int, layers: tuple[int, ...] = (0,), **parameters: Any) -> FoundEncoding:
    settings = {"heads": heads, "form": "last_key", **parameters}
    places = tuple(f"/{layer}/Add" for layer in layers)
    return FoundEncoding(
        "alibi", "last_key", settings, (), places, layers, ("b",), ("slopes",), "float32", None, "range"
    )


def mpt(heads: int, layers: int = 1) -> dict[str, Any]:
    attention = {"alibi": True, "alibi_bias_max": 8}
    return {"model_type": "mpt", "d_model": 16 * heads, "n_heads": heads, "n_layers": layers, "attn_config": attention}


@pytest.mark.parametrize("heads", [2, 3, 6, 8, 12, 20])
def test_slopes_are_compared_by_whatever_rule_they_follow(heads: int, tmp_path: Path) -> None:
    right = slopes_of(heads, 8.0)
    assert said(tmp_path, mpt(heads), inspection(alibi(heads, bias_max=8.0))) == []
    assert said(tmp_path, mpt(heads), inspection(alibi(heads, slopes=tuple(right.tolist())))) == []
    uniform = 2.0 ** (-8 * np.arange(1, heads + 1) / heads)
    for wrong in (uniform * 0.9, right[::-1], 2 * right, np.sort(right)[::-1] * 1.01):
        ((name, severity, words),) = said(tmp_path, mpt(heads), inspection(alibi(heads, slopes=tuple(wrong.tolist()))))
        assert (name, severity, "slopes" in words) == ("parameter", "error", True)
    ((name, _, words),) = said(tmp_path, mpt(heads), inspection(alibi(heads, bias_max=8.0, scale=0.5)))
    assert (name, "slopes" in words) == ("parameter", True)


def test_an_attention_without_its_bias_is_an_error(tmp_path: Path) -> None:
    found = said(tmp_path, mpt(8, 3), inspection(alibi(8, (0, 2), bias_max=8.0), attentions=3))
    assert found == [("layers", "error", "layer 1 have no alibi positions, and should by the config")]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"encodings": (UNKNOWN,)}, "not judged, since /Mul meets data and is none of the known forms"),
        ({"stopped": "/Reshape: no"}, "not judged, since reading stopped at /Reshape: no"),
        ({"missing": ("model.data",)}, "not judged without model.data"),
        ({}, "none were recognised in the file"),
    ],
    ids=["unknown", "stopped", "missing", "absent"],
)
def test_what_was_not_found_is_an_error(changed: dict[str, Any], words: str, tmp_path: Path) -> None:
    ((_, severity, detail),) = said(tmp_path, LLAMA, replace(inspection(), **changed))
    assert (severity, words in detail) == ("error", True)


T5 = {"model_type": "t5", "d_model": 64, "num_heads": 4, "d_kv": 16, "num_layers": 2}
BIAS = {"heads": 4, "num_buckets": 32, "max_distance": 128}


def t5(layers: tuple[int, ...], *, bidirectional: bool) -> FoundEncoding:
    settings = {**BIAS, "bidirectional": bidirectional}
    return FoundEncoding("t5", "buckets", settings, (), ("/Add",), layers, ("b",), ("w",), "float32", None, "range")


def test_a_whole_file_has_all_parts_of_its_model(tmp_path: Path) -> None:
    """Two layers of an encoder, and two of a decoder with two attentions each."""
    both = t5((0, 1), bidirectional=True), t5((2, 4), bidirectional=False)
    assert said(tmp_path, T5, inspection(*both, attentions=6)) == []
    assert said(tmp_path, T5, inspection(both[0], attentions=2)) == []  # the decoder lies elsewhere
    assert said(tmp_path, T5, inspection(both[1], attentions=4)) == []
    for one in both:
        ((name, severity, _),) = said(tmp_path, T5, inspection(one, attentions=6))
        assert (name, severity) == ("parameter", "error")
    assert len(said(tmp_path, T5, inspection(attentions=2))) == 1  # a part, whichever it is, without its bias


def test_a_rotary_table_that_is_shorter_than_its_model_is_an_error(tmp_path: Path) -> None:
    """Also where it refuses what is longer: texts that the model takes cannot be read."""
    short = replace(rotary(range(2)), rows=512)
    assert [(name, severity) for name, severity, _ in said(tmp_path, LLAMA, inspection(short))] == [("ends", "error")]


def test_positions_that_count_what_a_mask_leaves_out(tmp_path: Path) -> None:
    opt = {"model_type": "opt", "hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 48}
    opt |= {"word_embed_proj_dim": 64}
    counted = replace(table(50, offset=2), positions="mask attention_mask")
    masked = replace(inspection(counted), taken=(Taken("attention_mask", "mask", "its name"),))
    assert said(tmp_path, opt, masked) == []
    every = replace(masked, encodings=(replace(counted, positions="range"),))
    ((_, severity, words),) = said(tmp_path, opt, every)
    assert (severity, "counts all tokens" in words) == ("error", True)
    ((_, _, words),) = said(
        tmp_path, opt, replace(masked, encodings=(replace(table(50, offset=0), positions="mask m"),))
    )
    assert words == "learned: offset 0, expected 2 by the config"


def test_a_turn_in_the_other_direction(tmp_path: Path) -> None:
    found = said(tmp_path, LLAMA, inspection(rotary(range(2), direction="backward")))
    assert [words for _, _, words in found] == ["layers 0-1: direction backward, expected forward by the config"]


def test_a_config_that_is_not_read_hides_no_file(tmp_path: Path, cli: Cli) -> None:
    path = saved(Decoder(), tmp_path / "model.onnx")
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**LLAMA, "rope_scaling": {"rope_type": "nobody-knows"}}))
    result = cli("inspect", str(path), "--config", str(config))
    assert result.exit_code == 1
    assert "rotary (default): of heads of 16" in result.output
    assert "PE221 error  config: not judged: " in result.output


def test_a_bound_that_nothing_was_held_against(tmp_path: Path) -> None:
    """Without a closed form there is no error: a bound that somebody asked for is not judged, which is no pass."""
    unknown = replace(rotary(range(2)), name="unknown frequencies", parameters={"inv_freq": (1.0, 0.3)})
    assert [entry.severity for entry in judged(inspection(unknown), is_strict=True)] == ["error"]
    assert list(judged(inspection(unknown))) == []
    assert list(judged(inspection(table(512)), is_strict=True)) == []
