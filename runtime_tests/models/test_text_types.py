"""Model types of text whose rotation has a form of its own: what is read of them, held against their own code."""

from pathlib import Path
from typing import Any

import pytest

import posenc_export
from helpers.hf.surveyed import findings_of
from posenc_models import ModelConfig, read_config

pytest.importorskip("transformers")

TYPES = ["full_attention", "sliding_attention", "sliding_attention"]
SCALING = {"rope_type": "llama3", "factor": 2.0, "original_max_position_embeddings": 512}
STEP: dict[str, Any] = {
    **{"model_type": "step3p5", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2},
    **{"intermediate_size": 32, "vocab_size": 99, "num_hidden_layers": 5, "num_nextn_predict_layers": 1},
    **{"layer_types": TYPES * 2, "rope_theta": [5e6, 1e4, 1e4] * 2, "partial_rotary_factors": [0.5, 1, 1] * 2},
    "rope_scaling": {**SCALING, "low_freq_factor": 1.0, "high_freq_factor": 32.0},
}
WRITTEN = {"full_attention": {"rope_theta": 7.0, "partial_rotary_factor": 0.25}, "sliding_attention": {}}
SIZES = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2}
ERNIE = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [3, 3, 2]}
COMPASS = {
    "layer_types": TYPES[:2],
    "rope_parameters": {"full_attention": None, "sliding_attention": {**ERNIE, "mrope_section": [4, 2, 2]}},
}
XDROPE = {"rope_scaling": {"type": "xdrope", "alpha": 1000.0, "factor": 1.0, "xdrope_section": [1, 3, 2, 2]}}
CONFIGS: dict[str, dict[str, Any]] = {
    "lists, one number a layer": STEP,
    "time last": {"model_type": "ernie4_5_vl_moe_text", **SIZES, "rope_parameters": ERNIE},
    "minus the angle": {"model_type": "nanochat", **SIZES},
    "features apart": {"model_type": "hunyuan_vl_text", **SIZES, "head_dim": 16, "rope_theta": 1e4, **XDROPE},
    "layers of a type alone": {"model_type": "cohere_compass_text", **SIZES, **COMPASS, "head_dim": 16},
    "a table of sines and cosines": {"model_type": "roformer", **SIZES},
    "a table, and buckets of distances": {"model_type": "mpnet", "hidden_size": 16, "num_attention_heads": 2},
    "buckets before a query": {"model_type": "pix2struct_text_model"},
    "behind two rows": {"model_type": "yoso", **SIZES, "max_position_embeddings": 64},
    "behind padding, in two parts": {"model_type": "prophetnet", "hidden_size": 16, "max_position_embeddings": 64},
}


@pytest.mark.parametrize("kind", CONFIGS)
def test_the_model_itself_rotates_so(kind: str) -> None:
    findings = findings_of(CONFIGS[kind]["model_type"], CONFIGS[kind])
    assert [(finding.word, finding.why) for finding in findings if finding.word != "right"] == []


def test_sections_by_turns_end_with_the_head() -> None:
    config = {"model_type": "qwen3_vl_text", "head_dim": 64, "rope_theta": 1e4}
    assert read_config(config).parameters["sections"] == (11, 11, 10)
    few = read_config({**config, "rope_scaling": {"type": "mrope", "mrope_section": [9, 3, 2]}})
    assert (few.parameters["sections"], few.origin["sections"]) == (
        (27, 3, 2),
        "rope_scaling.mrope_section, for 32 pairs",
    )


def test_a_base_is_stretched_once() -> None:
    reading = read_config(CONFIGS["features apart"])
    assert reading.parameters["rope_theta"] == 1e4 * 1000 ** (16 / 14)
    assert reading.origin["rope_theta"] == "rope_theta x rope_scaling.alpha ^ (16 / 14)"
    assert reading.parameters["rope_type"] == "default"
    assert reading.origin["not used"] == "rope_scaling.factor"


@pytest.mark.parametrize(
    ("config", "part", "text"),
    [
        ({"model_type": "roformer", "rotary_value": True}, None, "rotary_value is true: values are rotated, too"),
        ({"model_type": "mpnet", "relative_attention_num_buckets": 8}, "relative", "which transformers takes"),
        ({"model_type": "lilt"}, "layout", "have tables of their own beside that of tokens"),
        ({"model_type": "hunyuan_vl_text"}, None, "rope_parameters.mrope_section is missing"),
    ],
)
def test_what_no_scheme_has_is_refused(config: dict[str, Any], part: str | None, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        read_config(config, part=part)


def test_lists_are_read_at_the_first_layer_of_a_type() -> None:
    full = read_config(STEP, "full_attention")
    assert (full.parameters["rope_theta"], full.parameters["rotary_dim"], full.parameters["factor"]) == (5e6, 64, 2.0)
    assert full.origin["rope_theta"] == "rope_theta[0], partial_rotary_factors[0]"
    sliding = read_config(STEP, layer=2)
    assert (sliding.parameters["rope_theta"], sliding.parameters["rope_type"]) == (1e4, "default")
    assert "rotary_dim" not in sliding.parameters
    of_both = read_config({**STEP, "rope_theta": 3.0, "rope_scaling": None}, "full_attention")
    assert of_both.parameters["rope_theta"] == 3.0
    absent = {key: value for key, value in STEP.items() if key != "rope_theta"}
    assert read_config(absent, layer=1).parameters["rope_theta"] == 1e4
    written = read_config({**STEP, "rope_scaling": None, "rope_parameters": WRITTEN}, "full_attention")
    assert (written.parameters["rope_theta"], written.parameters["rotary_dim"]) == (7.0, 32)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"rope_theta": [1e4] * 3}, "rope_theta must have a number for each of 6 layers, got 3"),
        ({"rope_theta": ["x"] * 6}, "must be a number above 0, got 'x'"),
        ({"partial_rotary_factors": 0.5}, "partial_rotary_factors must be a list of numbers, one a layer, got 0.5"),
        ({"layer_types": [1, 2, 3, 4, 5]}, "layer_types must be a list of names"),
        ({"rope_scaling": None, "rope_parameters": {"rope_theta": 5.0}}, "must have an object for each of full_att"),
        ({"rope_scaling": {**STEP["rope_scaling"], "nosuch": 1}}, "rope_scaling.nosuch is not read"),
    ],
)
def test_lists_that_do_not_fit(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text) as refusal:
        read_config({**STEP, **change}, "full_attention")
    assert "\n" not in str(refusal.value)


@pytest.mark.exhaustive
@pytest.mark.parametrize("output", ["rotate", "cos_sin"])
@pytest.mark.parametrize("kind", ["minus the angle", "features apart", "time last"])
def test_a_bundle_agrees_with_the_model(tmp_path: Path, kind: str, output: str) -> None:
    how: dict[str, Any] = {"mode": "dynamic", "max_len": 64, "formats": ["onnx"], "runtimes": ["ort-cpu"]}
    config = ModelConfig.of(CONFIGS[kind])
    result = posenc_export.export(config, to=tmp_path / "b", **how, output=output, width="full", require=["model"])
    assert result.passed, result.verdicts
