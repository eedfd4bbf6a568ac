"""What configs are read as that are not rotary: schemes and parameters by model type, parts, names of weights."""

import json
from typing import Any

import pytest

from helpers.hf.reading import read, values_of
from posenc.scheme import SCHEMES
from posenc_models import ModelConfig, read_config
from posenc_models.config.encodings import ENCODINGS
from posenc_models.config.encodings.described import name_of
from posenc_models.config.encodings.diffusion import DIFFUSION

VISION = {"image_size": 32, "patch_size": 8, "hidden_size": 16}


@pytest.mark.parametrize(
    ("config", "part", "expected"),
    [
        ({"model_type": "bert"}, None, {"scheme": "learned", "d_model": 768, "max_len": 512}),
        ({"model_type": "gpt2", "n_embd": 8}, None, {"scheme": "learned", "d_model": 8, "max_len": 1024}),
        ({"model_type": "roberta", "max_position_embeddings": 514}, None, {"max_len": 514, "position_offset": 2}),
        ({"model_type": "opt"}, None, {"positions": "mask", "position_offset": 2, "max_len": 2050}),
        ({"model_type": "bart"}, "decoder", {"scheme": "learned", "offset": 2, "max_len": 1024}),
        ({"model_type": "marian"}, None, {"scheme": "sinusoidal", "layout": "halves", "max_len": 1024}),
        ({"model_type": "m2m_100"}, None, {"spacing": "half", "padding_row": 1, "position_offset": 2, "max_len": 1026}),
        ({"model_type": "whisper"}, "encoder", {"scheme": "sinusoidal", "spacing": "half", "max_len": 1500}),
        ({"model_type": "whisper"}, "decoder", {"scheme": "learned", "max_len": 448}),
        ({"model_type": "vit", **VISION}, None, {"scheme": "interpolated", "grid": (4, 4), "prefix": 1}),
        ({"model_type": "vit", **VISION, "image_size": [32, 64]}, None, {"grid": (4, 8)}),
        ({"model_type": "deit"}, None, {"prefix": 2, "grid": (14, 14), "output": "rows"}),
        ({"model_type": "dinov2_with_registers"}, None, {"antialias": True}),
        ({"model_type": "siglip2", "vision_config": {"num_patches": 64}}, "vision", {"grid": (8, 8), "prefix": 0}),
        ({"model_type": "qwen2_vl_vision"}, None, {"scheme": "rope_2d", "head_dim": 80, "rope_theta": 10000.0}),
        # published files give the vision part the type of the whole
        ({"model_type": "qwen3_vl", "vision_config": {"model_type": "qwen3_vl", "hidden_size": 64, "num_heads": 4}},
         "vision", {"scheme": "rope_2d", "head_dim": 16}),
        ({"model_type": "glm4v_vision", "head_dim": 32, "rope_parameters": {"rope_theta": 100.0}}, None,
         {"head_dim": 32, "rope_theta": 100.0}),
        ({"model_type": "clip", "text_config": {"hidden_size": 8}}, "text", {"scheme": "learned", "d_model": 8}),
        ({"model_type": "beit", "use_absolute_position_embeddings": True}, None, {"scheme": "interpolated"}),
        ({"model_type": "beit", "use_relative_position_bias": True}, None, {"scheme": "swin_bias", "window": (14, 14)}),
        ({"model_type": "swin"}, "stage3", {"scheme": "swin_bias", "heads": 12, "interpolation": "bicubic"}),
        ({"model_type": "swinv2"}, "stage1", {"scheme": "swin_cpb", "heads": 3, "pretrained_window": (0, 0)}),
        ({"model_type": "t5"}, "decoder", {"scheme": "t5_bias", "heads": 8, "bidirectional": False}),
        ({"model_type": "deberta-v2"}, None, {"scheme": "learned", "d_model": 1536}),
        ({"model_type": "deberta-v2", "relative_attention": True, "position_biased_input": False}
         | {"position_buckets": 256}, None, {"scheme": "deberta_buckets", "num_buckets": 256, "max_distance": 512}),
        ({"model_type": "bloom", "n_head": 6}, None, {"scheme": "alibi", "heads": 6, "positions": "mask"}),
        ({"model_type": "mpt"}, None, {"scheme": "alibi", "heads": 16, "bias_max": 8.0}),
        ({"model_type": "falcon", "alibi": True, "hidden_size": 64, "n_head": 4}, None, {"scheme": "alibi", "heads": 4}
         | {"scale": 0.25}),
        ({"model_type": "falcon", "hidden_size": 64, "num_attention_heads": 4}, None, {"scheme": "rope"}),
        ({"model_type": "detr"}, None, {"scheme": "sine_2d", "dim": 256}),
        ({"model_type": "deformable_detr"}, None, {"shift": -0.5}),
        ({"model_type": "table-transformer"}, None, {"scheme": "sine_2d", "dim": 256}),
        ({"model_type": "deformable_detr", "position_embedding_type": "learned", "d_model": 64}, None,
         {"scheme": "learned_2d", "dim": 64, "max_len": 50}),
        ({"model_type": "grounding-dino"}, None, {"temperature": 20.0}),
        ({"model_type": "rt_detr"}, None, {"scheme": "sincos_2d", "order": "row_first"}),
        ({"model_type": "vit_mae"}, "decoder", {"scheme": "sincos_2d", "dim": 512, "order": "column_first"}),
        ({"model_type": "sam", "vision_config": {"num_pos_feats": 8}}, "prompt", {"scheme": "fourier_features"}
         | {"features": 8}),
        ({"model_type": "xlnet"}, None, {"scheme": "transformer_xl", "attention": "bi"}),
        ({"model_type": "wav2vec2-conformer"}, None, {"scheme": "conformer_relative", "d_model": 768}),
        ({"model_type": "wav2vec2-conformer", "position_embeddings_type": "rotary"}, None, {"head_dim": 64}),
        ({"model_type": "wav2vec2-bert"}, None, {"scheme": "clipped_relative", "left": 64, "right": 8, "head_dim": 64}),
        ({"model_type": "parakeet_ctc", "encoder_config": {"model_type": "parakeet_encoder"}}, None, {"d_model": 1024}),
        ({"model_type": "vits"}, "keys", {"scheme": "clipped_relative", "left": 4, "right": 4, "beyond": "zero"}),
        ({"model_type": "vits", "window_size": 3}, "values", {"left": 3, "right": 3, "head_dim": 96}
         | {"beyond": "zero", "output": "values"}),
        ({"model_type": "gemma4", "text_config": {"model_type": "gemma4_text"}, "audio_config": {}}, "audio",
         {"scheme": "conformer_relative", "style": "chunk", "past": 12, "future": 0, "d_model": 1024}),
        ({"model_type": "clap", "text_config": {}, "audio_config": {}}, "audio.stage2", {"heads": 8, "window": (8, 8)}),
        ({"model_type": "seamless_m4t"}, "speech", {"scheme": "conformer_relative", "d_model": 1024}),
        ({"model_type": "seamless_m4t_v2"}, "speech", {"scheme": "clipped_relative", "head_dim": 64}),
        ({"model_type": "seamless_m4t_v2"}, "text", {"padding_row": 0, "position_offset": 1, "max_len": 4097}),
        ({"model_type": "xglm"}, None, {"scheme": "sinusoidal", "padding_row": 1, "max_len": 2050}),
        ({"model_type": "trocr"}, None, {"scheme": "learned", "offset": 2, "max_len": 512}),
        ({"model_type": "trocr", "use_learned_position_embeddings": False}, None, {"spacing": "half"}),
        ({"model_type": "layoutlm"}, None, {"scheme": "learned", "positions": "explicit"}),
        ({"model_type": "speecht5", "encoder_max_relative_position": 9}, "encoder", {"left": 8, "right": 9}
         | {"scheme": "clipped_relative", "head_dim": 64, "distance": "query_minus_key"}),
        ({"model_type": "speecht5"}, "text-decoder", {"spacing": "half", "position_offset": 2, "max_len": 452}),
    ],
)  # fmt: skip
def test_model_types(config: dict[str, Any], part: str | None, expected: dict[str, Any]) -> None:
    found = read(config, part)
    assert {key: found.get(key) for key in expected} == expected


def test_positions_that_are_given_are_stronger() -> None:
    opt, m2m = {"model_type": "opt"}, {"model_type": "m2m_100"}
    assert read(opt, positions="explicit") | {"offset": 2, "max_len": 2048} == read(opt, positions="explicit")
    assert "position_offset" not in read(opt, positions="implicit")
    assert read(m2m, positions="explicit")["max_len"] == 1026
    with pytest.raises(
        ValueError, match="positions of model_type m2m_100 begin at 2: use --positions mask, or explicit"
    ):
        read(m2m, positions="implicit")


def test_a_reading_says_where_from() -> None:
    config = {"model_type": "mine", "vision_config": {"model_type": "vit", "hidden_size": 8, "patch_size": 32}}
    origin = read_config(config, overrides={"mode": "bilinear"}).origin
    assert origin == {
        "mode": "given",
        "d_model": "vision_config.hidden_size",
        "grid": "224 by default / vision_config.patch_size",
        "prefix": "model_type vit",
        "output": "model_type vit",
        "weights": "none given: as before training; -p weights=FOLDER reads them",
    }
    origin = read_config({"model_type": "roberta", "pad_token_id": 0}).origin
    assert origin["position_offset"] == "pad_token_id + 1"
    assert origin["d_model"] == "default of model_type roberta"


LLAVA = {
    "model_type": "llava",
    "text_config": {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4},
    "vision_config": {"model_type": "clip_vision_model", "hidden_size": 16},
}


def test_parts_of_a_config_whose_text_is_rotary() -> None:
    assert read(LLAVA)["scheme"] == "rope"
    assert read(LLAVA) == read(LLAVA, "text")
    assert read(LLAVA, "vision")["scheme"] == "interpolated"
    assert ModelConfig.of(LLAVA, part="vision").scheme == "interpolated"
    audio = {"model_type": "x", "thinker_config": {**LLAVA, "audio_config": {"model_type": "qwen2_audio_encoder"}}}
    assert read(audio, "audio")["d_model"] == 1280
    assert read(audio, "thinker.audio") == read(audio, "audio")


@pytest.mark.parametrize(
    ("config", "part", "text"),
    [
        ({"model_type": "clip", "text_config": {}, "vision_config": {}}, None,
         r"has several encodings: choose one of text \(learned\), vision \(interpolated\) with --part"),
        ({"model_type": "t5"}, None, r"choose one of encoder \(t5_bias\), decoder \(t5_bias\) with --part"),
        ({"model_type": "t5"}, "text", "has no part 'text' with a known encoding: it has encoder, decoder"),
        (LLAVA, "audio", "has no part 'audio' with a known encoding: it has text, vision"),
        ({"model_type": "bert"}, "text", "has no part 'text' with a known encoding: it has no parts"),
        ({"model_type": "beit"}, None, "has no encoding of positions: use_absolute_position_embeddings is False, use_"),
        ({"model_type": "mpt", "attn_config": {"alibi": False}}, None, r"attn_config\.alibi is False"),
        ({"model_type": "wav2vec2"}, None, "cannot be read: its positions come from a convolution"),
        ({"model_type": "vits"}, None,
         r"has several encodings: choose one of keys \(clipped_relative\), values \(clipped_relative\) with --part"),
        ({"model_type": "speecht5"}, None, r"of encoder \(clipped_relative\), speech-encoder \(sinusoidal\), text-"),
        ({"model_type": "bert", "hidden_size": "x"}, None, "hidden_size must be a number above 0, got 'x'"),
        ({"model_type": "bert", "hidden_size": 7.5}, None, "hidden_size must be a whole number, got 7.5"),
        ({"model_type": "vit", "image_size": [1]}, None, "image_size must be a whole number, or two, got .1."),
        ({"model_type": "falcon", "alibi": 1}, None, "alibi must be true or false, got 1"),
        ({"model_type": "swin", "num_heads": 3}, "stage1", "num_heads must be a list of whole numbers, got 3"),
        ({"model_type": "wav2vec2-bert", "hidden_size": 65}, None, "65 features are not a multiple of 16 heads"),
        ({"model_type": "roberta", "pad_token_id": -1}, None, "pad_token_id must be a number above 0, got -1"),
    ],
)  # fmt: skip
def test_what_is_refused(config: dict[str, Any], part: str | None, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        read(config, part)


def test_a_table_is_found_by_how_its_name_ends() -> None:
    names = ("bert.embeddings.position_embeddings.weight", "bert.embeddings.word_embeddings.weight")
    assert name_of("embeddings.position_embeddings.weight", names, "F") == names[0]
    assert name_of("other.weight|position_embeddings.weight", names, "F") == names[0]
    layers = tuple(f"layers.{i}.mlp.{j}.weight" for i in range(2) for j in (0, 2))
    assert name_of("layers.1.mlp.", layers, "F") == "layers.1.mlp"
    with pytest.raises(ValueError, match=r"2 tensors of F may be meant: give one as -p key=NAME: layers\.0\.mlp\.0"):
        name_of("layers.*.mlp.0.weight", layers, "F")
    with pytest.raises(ValueError, match=r"none of the 2 tensors of F ends in wpe\.weight: give -p key=NAME"):
        name_of("wpe.weight", names, "F")


def test_every_row_is_of_a_scheme_and_its_parameters() -> None:
    rows = [(name, row) for name, rows in ENCODINGS.items() for row in rows if not row.lacks]
    for name, row in rows:
        used = {*row.parameters, *(("weights", "key") if row.tables else ())}
        assert used <= set(SCHEMES[row.scheme].parameters), name
    assert all(row.lacks for rows in ENCODINGS.values() for row in rows if not row.scheme)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [name for name in ENCODINGS if name not in DIFFUSION])
def test_what_an_absent_key_means_is_what_transformers_takes(name: str) -> None:
    from transformers import AutoConfig

    whole = json.loads(json.dumps(AutoConfig.for_model(name).to_dict(), default=str))
    if name in (
        "chmv2",
        "vitmatte",
    ):  # its tower is a config of its own, which a config without it takes as it is by default
        assert read(whole) == read({"model_type": name})
    else:
        assert values_of(whole) == values_of({"model_type": name})
