"""Reading a model's config.json: keys old and new, single models' own names, and what is refused."""

from typing import Any

import pytest

from helpers.shared import DATA
from posenc_models import load_config, read_config

LLAMA = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}


def read(config: dict[str, Any], layer_type: str | None = None, **overrides: Any) -> dict[str, Any]:
    return read_config(config, layer_type, overrides).parameters


def test_published_configurations() -> None:
    readings = {path.stem: read_config(load_config(path)) for path in sorted((DATA / "configs").glob("*.json"))}
    facts = {
        name: (r.scheme, r.parameters["rope_type"], r.parameters["head_dim"], r.parameters.get("rotary_dim"))
        for name, r in readings.items()
    }
    assert facts == {
        "gpt-j-6b": ("rope", "default", 256, 64),
        "gpt-neox-20b": ("rope", "default", 96, 24),
        "llama-3.1-8b": ("rope", "llama3", 128, None),
        "llama-dynamic-ntk": ("rope", "dynamic", 128, None),
        "llama-linear": ("rope", "linear", 128, None),
        "longrope-small": ("rope", "longrope", 96, None),
        "qwen2-vl-2b": ("mrope", "default", 128, None),
        "qwen2.5-7b-yarn": ("rope", "yarn", 128, None),
    }
    assert readings["gpt-j-6b"].parameters["layout"] == "interleaved"
    assert readings["llama-3.1-8b"].origin["factor"] == "rope_scaling.factor"
    assert readings["llama-3.1-8b"].origin["head_dim"] == "head_dim"
    assert readings["gpt-neox-20b"].origin["rotary_dim"] == "rotary_pct 0.25 of head_dim 96"
    assert readings["gpt-neox-20b"].origin["rope_theta"] == "rotary_emb_base"
    assert readings["longrope-small"].origin["original_max_position_embeddings"] == "original_max_position_embeddings"
    assert readings["llama-linear"].max_position_embeddings == 16384


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ({"rope_scaling": {"type": "linear", "factor": 2}}, {"rope_type": "linear", "factor": 2}),
        ({"rope_parameters": {"rope_type": "linear", "factor": 2, "rope_theta": 5e5}}, {"rope_theta": 5e5}),
        ({"rope_theta": 7e4, "rope_scaling": None}, {"rope_type": "default", "rope_theta": 7e4}),
        ({}, {"rope_theta": 10000.0, "head_dim": 16}),
        ({"head_dim": 32}, {"head_dim": 32}),
        ({"head_dim": None}, {"head_dim": 16}),
        ({"model_type": "phi", "partial_rotary_factor": 0.25}, {"rotary_dim": 4}),
        ({"model_type": "phi", "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.25}},
         {"rotary_dim": 4}),
        ({"qk_rope_head_dim": 8, "head_dim": 24, "model_type": "deepseek_v3", "rope_theta": 1e4}, {"head_dim": 8}),
        ({"model_type": "gpt_neox", "rotary_emb_base": 500}, {"rope_theta": 500, "rotary_dim": 4}),
        ({"model_type": "phi3", "rope_scaling": {"type": "su", "short_factor": [1], "long_factor": [2]}
          | {"original_max_position_embeddings": 9}}, {"rope_type": "longrope", "short_factor": (1,)}),
        ({"model_type": "x", "text_config": {**LLAMA, "rope_theta": 3e4}}, {"rope_theta": 3e4}),
        ({"rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]}}, {"sections": (2, 3, 3)}),
        ({"model_type": "qwen2_vl", "rope_theta": 1e6}, {"sections": (16, 24, 24)}),
        ({"model_type": "qwen3_vl_moe_text", "rope_theta": 1e6, "head_dim": 128}, {"sections": (24, 20, 20)}
         | {"section_layout": "interleaved"}),
        ({"model_type": "jetmoe", "kv_channels": 128}, {"head_dim": 128}),
        ({"rope_parameters": {"rope_type": "default", "mrope_section": [4, 2, 2], "mrope_interleaved": True}},
         {"section_layout": "interleaved"}),
        ({"rope_scaling": {"type": "yarn", "factor": None, "attention_factor": None}, "max_position_embeddings": 99},
         {"original_max_position_embeddings": 99, "max_position_embeddings": 99}),
    ],
)  # fmt: skip
def test_names_that_models_use(extra: dict[str, Any], expected: dict[str, Any]) -> None:
    parameters = read({**LLAMA, **extra})
    assert {key: parameters.get(key) for key in expected} == expected


def test_layers_that_differ() -> None:
    nested = {
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "no_rope": None,
    }
    config = {**LLAMA, "rope_parameters": nested}
    assert read(config, "full_attention")["factor"] == 8.0
    assert read(config, "sliding_attention")["rope_type"] == "default"
    with pytest.raises(ValueError, match="choose one of sliding_attention, full_attention, no_rope with --layer-type"):
        read(config)
    with pytest.raises(ValueError, match="unknown layer type 'other': the config has sliding_attention"):
        read(config, "other")
    with pytest.raises(ValueError, match=r"rope_parameters\.no_rope is null: layers of this type have no rotary"):
        read(config, "no_rope")
    old = {
        **LLAMA,
        "model_type": "gemma3_text",
        "rope_theta": 1e6,
        "rope_local_base_freq": 1e4,
        "rope_scaling": {"type": "linear", "factor": 8},
    }
    assert read(old, "full_attention")["rope_theta"] == 1e6
    assert read(old, "full_attention")["factor"] == 8
    assert read(old, "sliding_attention")["rope_theta"] == 1e4
    with pytest.raises(ValueError, match="'full_attention' was given, and all layers of this config are alike"):
        read(LLAMA, "full_attention")


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"model_type": "mine", "n_positions": 9}, "model_type 'mine'.* names no rotary encoding"),
        ({"model_type": "mine", "alibi": True}, "has no rotary encoding: alibi is True"),
        ({"model_type": "mine", "attn_config": {"alibi": True}}, "has no rotary encoding: attn_config.alibi is True"),
        ({"model_type": "mine", "position_embedding_type": "absolute"}, "position_embedding_type is 'absolute'"),
        ({**LLAMA, "rope_scaling": {"type": "magic"}}, r"rope_scaling\.type is 'magic': expected one of .*default"),
        ({**LLAMA, "rope_scaling": {"type": "linear"}}, r"rope_scaling\.factor is missing: rope type linear needs it"),
        ({**LLAMA, "rope_scaling": {"type": "linear", "factor": "2"}}, r"rope_scaling\.factor must be float, got '2'"),
        ({**LLAMA, "rope_scaling": {"type": "dynamic", "factor": 2}, "max_position_embeddings": None},
         "max_position_embeddings is missing"),
        ({**LLAMA, "rope_scaling": "linear"}, "rope_scaling must be an object, got 'linear'"),
        ({**LLAMA, "rope_scaling": {"type": "mrope"}}, r"rope_scaling\.mrope_section is missing"),
        ({"model_type": "llama", "hidden_size": 64, "num_attention_heads": None}, "nor num_attention_heads: give"),
        ({**LLAMA, "model_type": "x", "rope_scaling": None}, "no rope_theta, in which models differ"),
        ({**LLAMA, "model_type": "x", "rope_theta": 1e4}, "'x' is not known, and so neither .* code does$"),
        ({**LLAMA, "rope_scaling": {"type": "longrope", "short_factor": [1, "a"], "long_factor": [1]}
          | {"original_max_position_embeddings": 9}}, "short_factor must be a list of float, got .1, 'a'."),
    ],
)  # fmt: skip
def test_what_is_refused(config: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        read(config)


SCALED = {"type": "linear", "factor": 2.0}
YARN = {"type": "yarn", "factor": 2.0, "original_max_position_embeddings": 64}


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        ({"rope_scaling": {"type": ["linear"]}}, r"rope_scaling\.type is \['linear'\]: expected one of"),
        ({"rope_scaling": {"type": {"a": 1}}}, r"rope_scaling\.type must be a value, got \{'a': 1\}"),
        ({"rope_scaling": {**SCALED, "factor": {"a": 1}}}, r"rope_scaling\.factor must be a value"),
        ({"rope_parameters": {"full_attention": [1], "sliding_attention": {}}}, "full_attention must be an object"),
        ({"model_type": ["llama"]}, r"model_type must be a name, got \['llama'\]"),
        ({"rope_scaling": {**SCALED, "factor": True}}, r"rope_scaling\.factor must be float, got True"),
        ({"rope_scaling": {**SCALED, "factor": [2, 3]}}, r"rope_scaling\.factor must be float, got \[2, 3\]"),
        ({"rope_scaling": {**YARN, "truncate": "maybe"}}, r"truncate must be true or false, got 'maybe'"),
        ({"rope_scaling": {**YARN, "beta_fast": False}}, r"rope_scaling\.beta_fast must be float, got False"),
        ({"rope_scaling": {**YARN, "original_max_position_embeddings": 64.5}}, "must be int, got 64.5"),
        ({"rope_theta": float("nan")}, "rope_theta must be a number above 0, got nan"),
        ({"rope_theta": 10**400}, "rope_theta must be a number above 0, got 10000"),
        ({"head_dim": 16.5}, "head_dim must be a whole number, got 16.5"),
        ({"head_dim": 10**12}, "head_dim must be a whole number, got 1000000000000"),
        ({"num_attention_heads": 0}, "num_attention_heads must be a number above 0, got 0"),
        ({"num_attention_heads": 5}, r"hidden_size \(64\) must be a multiple of num_attention_heads \(5\)"),
        ({"model_type": "minimax_m2", "rotary_dim": "x"}, "rotary_dim must be a number above 0, got 'x'"),
        (
            {"model_type": "phi", "partial_rotary_factor": float("inf")},
            "rotary_factor must be a number above 0, got inf",
        ),
        ({"max_position_embeddings": -1}, "max_position_embeddings must be a number above 0, got -1"),
        ({"rope_scaling": {"type": "mrope", "mrope_section": "16,24,24"}}, "mrope_section must be a list of whole"),
        ({"rope_scaling": {"type": "mrope", "mrope_section": [16.5, 23.5]}}, r"mrope_section\[0\] must be a whole"),
        ({"rope_scaling": {"type": "mrope", "mrope_section": [True, 2]}}, r"mrope_section\[0\] must be a number"),
    ],
)
def test_values_of_another_type_are_one_line_that_names_the_key(extra: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        read({**LLAMA, **extra})


def test_keys_of_another_rope_type_are_named_and_unknown_ones_are_refused() -> None:
    config = {**LLAMA, "rope_scaling": {**YARN, "low_freq_factor": 8.0, "finetuned": True, "attention_factor": None}}
    assert read_config(config).origin["not used"] == "rope_scaling.low_freq_factor, rope_scaling.finetuned"
    for key, hint in (("beta_fst", ": did you mean 'beta_fast'[?]$"), ("alpha", "$"), ("long_mscale", "$")):
        config = {**LLAMA, "rope_scaling": {**YARN, key: 8.0}}
        with pytest.raises(ValueError, match=f"rope_scaling.{key} is not read, and may change the angles{hint}"):
            read_config(config)
    assert "not used" not in read_config({**LLAMA, "rope_scaling": YARN}).origin
    assert read({**LLAMA, "rope_scaling": {**YARN, "mscale": 0, "mscale_all_dim": 0}}).get("mscale") is None


def test_overrides_are_stronger() -> None:
    config = {**LLAMA, "rope_scaling": {"type": "linear", "factor": 2.0}}
    assert read(config, factor=3.0)["factor"] == 3.0
    assert read({"model_type": "x", "rope_scaling": None}, head_dim=8, rope_theta=9.0, layout="halves")["head_dim"] == 8
    with pytest.raises(ValueError, match="has no rope_theta, in which models differ"):
        read({"model_type": "x", "rope_scaling": None}, head_dim=8, layout="halves")
    assert read_config(config, None, {"factor": 3.0}).origin["factor"] == "given"
