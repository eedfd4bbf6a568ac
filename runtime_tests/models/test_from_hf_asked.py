"""What transformers' own code does with a config, and what is read of it: pairs, widths, layers, absent keys."""

from typing import Any

import pytest

from posenc_models import read_config

GEMMA = {"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34, "sliding_window": 1024}
PUBLISHED = {"model_type": "gemma3", "text_config": {**GEMMA, "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}}
SCOUT = {"factor": 16.0, "high_freq_factor": 1.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192}
YARN = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8192}
QUARTER = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.25}
OLMO = {"model_type": "olmo3", "rope_theta": 5e5, "rope_scaling": YARN}
PAIRS = [
    "glm_moe_dsa deepseek_v32 glm4_moe_lite mistral4 mistral_large4 axk2 dots3_note_text cohere2_moe glm_ocr glm4v "
    "glm46v moonshine moonshine_streaming openai_privacy_filter pe_audio_encoder blt_patcher blt_local_encoder "
    "blt_local_decoder blt_global_transformer bailing_hybrid deepseek_v4"
]
GEMMA_OF: dict[str, dict[str, Any]] = {
    name: {
        "model_type": "gemma4_text",
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            "full_attention": {"rope_type": name, "rope_theta": 1e6, "factor": 2.0, "partial_rotary_factor": 0.25},
        },
    }
    for name in ("default", "linear")
}
NULL = {**GEMMA, "rope_parameters": {"sliding_attention": None, "full_attention": {"rope_theta": 7.0}}}
MOLMO: dict[str, Any] = {"model_type": "molmo2_text", "num_hidden_layers": 2, "rope_scaling_layers": [1]}
SWA: dict[str, Any] = {"model_type": "granitemoe_swa", "num_hidden_layers": 3, "layer_rope_theta": [0, 1e5, 1e4]}


def read(config: dict[str, Any], **how: Any) -> dict[str, Any]:
    reading = read_config(config, **how)
    return {"scheme": reading.scheme, **reading.parameters}


@pytest.mark.parametrize("model_type", " ".join(PAIRS).split())
def test_neighbouring_features_are_pairs(model_type: str) -> None:
    differ = model_type in ("dots3_note_text", "deepseek_v4")
    assert read({"model_type": model_type}, layer=0 if differ else None)["layout"] == "interleaved"


@pytest.mark.parametrize("model_type", ["deepseek_v3", "glm4_moe_lite", "youtu"])
def test_a_key_says_which_features_are_pairs(model_type: str) -> None:
    assert read({"model_type": model_type, "rope_interleave": False})["layout"] == "halves"
    assert read({"model_type": model_type})["layout"] == "interleaved"
    with pytest.raises(ValueError, match="rope_interleave must be true or false, got 'x'"):
        read({"model_type": model_type, "rope_interleave": "x"})


@pytest.mark.parametrize(
    ("config", "layer", "expected"),
    [
        (PUBLISHED, 0, {"head_dim": 256, "rope_theta": 1e4, "rope_type": "default"}),
        (PUBLISHED, 5, {"head_dim": 256, "rope_theta": 1e6, "rope_type": "linear", "factor": 8.0}),
        ({**GEMMA, "rope_theta": 2e6}, 0, {"rope_theta": 1e4}),
        ({**GEMMA, "rope_theta": 2e6}, 5, {"rope_theta": 2e6}),
        ({**GEMMA, "rope_local_base_freq": 777.0}, 0, {"rope_theta": 777.0}),
        (OLMO, 0, {"rope_type": "default", "rope_theta": 5e5}),
        (OLMO, 3, {"rope_type": "yarn", "factor": 8.0}),
        ({"model_type": "mimo_v2_flash", "rope_theta": 7e6, "swa_rope_theta": 1e4}, 1, {"rope_theta": 1e4}),
        ({"model_type": "gemma4_text"}, 0, {"head_dim": 256, "rope_type": "default"}),
        ({"model_type": "gemma4"}, 5, {"head_dim": 512, "rope_type": "proportional"}),
        ({"model_type": "gemma4_text", "global_head_dim": 128}, 5, {"head_dim": 128}),
        (GEMMA_OF["default"], 5, {"head_dim": 512, "rope_type": "default", "rotary_dim": None}),
        ({"model_type": "laguna"}, 0, {"rotary_dim": 64}),
        (NULL, 0, {"rope_theta": 1e4, "rope_type": "default"}),
        (NULL, 5, {"rope_theta": 7.0}),
        ({"model_type": "gemma4_text", "per_layer_config": {"5": {"head_dim": 64}}}, 5, {"head_dim": 64}),
        ({"model_type": "deepseek_v4"}, 0, {"rope_theta": 160000.0, "head_dim": 64, "layout": "interleaved"}),
        (SWA, 1, {"rope_theta": 1e5}),
        (SWA, 2, {"rope_theta": 1e4}),
        ({**MOLMO, "rope_scaling": YARN}, 0, {"rope_type": "default"}),
        ({**MOLMO, "rope_scaling": YARN}, 1, {"rope_type": "yarn"}),
    ],
)
def test_layers_that_differ(config: dict[str, Any], layer: int, expected: dict[str, Any]) -> None:
    found = read(config, layer=layer)
    assert {key: found.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"model_type": "zamba2", "use_mem_rope": True}, {"head_dim": 160}),
        ({"model_type": "minimax", "rotary_dim": 64}, {"rotary_dim": None, "head_dim": 128}),
        ({"model_type": "minimax_m2", "rotary_dim": 64}, {"rotary_dim": 64, "head_dim": 128}),
        ({"model_type": "minimax_m2", "rotary_dim": 64, "head_dim": 96}, {"rotary_dim": 64, "head_dim": 96}),
        # its class makes a share of rotary_dim, unless one is written
        ({"model_type": "minimax_m2", "rotary_dim": 64, "partial_rotary_factor": 0.25}, {"rotary_dim": 32}),
        ({"model_type": "minimax_m2", "rotary_dim": 64, "rope_parameters": QUARTER}, {"rotary_dim": 32}),
        ({"model_type": "minimax_m3_vl"}, {"rotary_dim": None, "head_dim": 128}),
        ({"model_type": "gemma2"}, {"head_dim": 256}),
        ({"model_type": "qwen2_5_omni_text"}, {"scheme": "mrope", "sections": (16, 24, 24)}),
        ({"model_type": "paddleocr_vl"}, {"sections": (16, 24, 24)}),
        ({"model_type": "qwen4_exp"}, {"section_layout": "interleaved"}),
        ({"model_type": "cosmos3_edge"}, {"sections": (24, 20, 20), "section_layout": "interleaved"}),
        ({"model_type": "nanochat"}, {"direction": "backward", "layout": None, "head_dim": 128}),
        ({"model_type": "ernie4_5_vl_moe"}, {"sections": (20, 22, 22), "section_layout": "time_last"}),
        ({"model_type": "ernie4_5_moe_vl", "head_dim": 64, "rope_theta": 5e5, "freq_allocation": 12},
         {"sections": (12, 10, 10), "layout": "interleaved"}),
        ({"model_type": "llama4", "text_config": {"rope_scaling": {"rope_type": "llama3", **SCOUT}}},
         {"rope_type": "llama3", "factor": 16.0, "layout": "interleaved", "head_dim": 128}),
        ({"model_type": "llama", "partial_rotary_factor": 0.5}, {"rotary_dim": None, "head_dim": 128}),
        ({"model_type": "llama", "kv_channels": 8}, {"head_dim": 128}),
        ({"model_type": "phi", "partial_rotary_factor": 0.25}, {"rotary_dim": 16}),
        ({"model_type": "stablelm", "rope_pct": 0.25}, {"rotary_dim": 20, "head_dim": 80}),
        ({"model_type": "musicflamingo", "rope_theta": 1e3, "hidden_size": 5, "text_config": {"model_type": "qwen2"}},
         {"rope_theta": 1e4, "head_dim": 128}),
        ({"model_type": "gpt_neox", "rope_theta": 77.0, "rotary_emb_base": 500}, {"rope_theta": 500, "rotary_dim": 24}),
        ({"model_type": "gpt_oss"}, {"rope_type": "yarn", "factor": 32.0, "rope_theta": 150000.0}),
        ({"model_type": "apertus", "rope_theta": 5.0}, {"rope_theta": 12e6, "rope_type": "llama3"}),
    ],
)  # fmt: skip
def test_absent_keys_are_what_the_model_s_class_takes(config: dict[str, Any], expected: dict[str, Any]) -> None:
    found = read(config)
    assert {key: found.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("config", "how", "text"),
    [
        ({"model_type": "qwen2_vl_vision", "rope_scaling": {"type": "yarn"}}, {}, "its rope type is not axial"),
        ({"model_type": "sam3_vit_model"}, {}, r"choose one of window \(rope_nd\), global \(rope_nd\) with --part"),
        ({"model_type": "hunyuan_vl"}, {}, "rope_parameters.mrope_section is missing: tokens have several positions"),
        ({"model_type": "xcodec2"}, {}, "by the head's number"),
        ({"model_type": "qwen2_5_omni_dit"}, {}, "rotates the first head alone"),
        ({"model_type": "unheard_of", "rope_theta": 1e4, "head_dim": 8}, {},
         "'unheard_of' is not known, and so neither which features of a head are a pair nor what else its"),
        ({"rope_theta": 1e4, "head_dim": 8}, {}, "the config has no model_type, and so neither"),
        ({"model_type": "stablelm", "rope_pct": 0.5}, {}, r"rope_pct \(0.5\): not read"),
        ({"model_type": "nomic_bert", "rotary_emb_base": 10000}, {}, r"rotary_emb_base \(10000\): not read"),
        ({"model_type": "mimo_v2_flash", "swa_rope_theta": 7.0}, {"layer": 1}, r"swa_rope_theta \(7.0\): not read"),
        ({"model_type": "llama", "rope_parameters": {"rope_type": "linear", "factor": 2.0},
          "rope_scaling": {"type": "linear", "factor": 4.0}}, {}, "rope_parameters and rope_scaling say different"),
        ({"model_type": "granitemoehybrid", "position_embedding_type": "nope"}, {}, "_embedding_type is 'nope'"),
        ({"model_type": "granitemoehybrid"}, {}, "no rotary encoding: position_embedding_type is None"),
        ({"model_type": "zamba2"}, {}, "no rotary encoding: use_mem_rope is False"),
        ({"model_type": "esm", "position_embedding_type": "absolute", "rope_theta": 1e4}, {}, "is 'absolute'"),
        ({"model_type": "kimi_linear", "rope_theta": 1e4}, {}, "no layer of it has a rotary encoding"),
        ({"model_type": "llama4"}, {"layer": 3}, r"layer 3 \(of type full_attention\) has no rotary encoding"),
        ({"model_type": "cohere2"}, {"layer_type": "full_attention"}, "have no rotary encoding: layers 3, 7, 11"),
        ({"model_type": "smollm3", "no_rope_layers": [1] * 35 + [0]}, {"layer": 35}, "layer 35 has no rotary"),
        (SWA, {"layer": 0}, r"layer 0 \(of type full_attention\) has no rotary encoding"),
        (SWA, {}, r"layers of this config differ \(layer_rope_theta\): choose one with --layer N"),
        ({**MOLMO, "rope_scaling": YARN}, {}, r"differ \(rope_scaling_layers\): choose one with --layer N"),
        ({"model_type": "llama"}, {"layer": 32}, "layer 32 was given, and the config has layers 0 to 31"),
        ({"model_type": "gemma3_text"}, {"layer": 5, "layer_type": "sliding_attention"}, "layer 5 is of type full_att"),
        ({"model_type": "gemma3_text"}, {}, "choose one of sliding_attention, full_attention with --layer-type"),
        ({"model_type": "laguna", "rope_scaling": YARN}, {}, "must have an object for each of full_attention"),
        ({"model_type": "llama", "rope_scaling": {**YARN, "partial_rotary_factor": 0.5}}, {}, "are rotated whole"),
        (GEMMA_OF["linear"], {"layer": 5}, "are rotated whole"),
        ({"model_type": "llama", "rope_scaling": {**YARN, "truncate": None}}, {}, "truncate must be true or false"),
        ({"model_type": "cohere2", "sliding_window": None}, {}, "no layer of this config has a rotary encoding"),
        ({"model_type": "xlnet", "bi_data": True}, {}, "bi_data is true: half of a batch counts backwards"),
        ({"model_type": "flint", "sliding_window": None}, {}, "no layer of this config has a rotary encoding"),
    ],
)  # fmt: skip
def test_what_is_refused(config: dict[str, Any], how: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text) as refusal:
        read(config, **how)
    assert "\n" not in str(refusal.value)


def test_layers_that_do_not_rotate_are_named() -> None:
    assert read_config({"model_type": "cohere2"}).origin["layers"] == (
        "layers 0, 1, 2, 4, 5, 6 and 24 more; layers 3, 7, 11, 15, 19, 23 and 4 more do not rotate"
    )
    assert read_config({"model_type": "gemma3_text"}, layer=6).origin["layers"] == "layer 6"
    assert "layers" not in read_config({"model_type": "llama"}).origin
