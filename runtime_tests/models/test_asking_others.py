"""Models asked about what is not rotary: what is read is what their code gives, and a wrong reading is seen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from helpers.hf import asked
from helpers.hf.asked import ask, judge, verdict
from helpers.shared import Cli, one_of_each
from posenc_models.asking import SCHEMES, CannotAsk
from posenc_models.asking.model import Disagrees
from posenc_models.config.encodings import ENCODINGS
from posenc_models.config.encodings.diffusion import DIFFUSION

pytest.importorskip("transformers")
SOUND = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
VIT = {**SOUND, "image_size": 32, "patch_size": 8}
TOWER = {"embed_dim": 16, "hidden_size": 24, "num_heads": 2, "depth": 1}
ROPES = {
    "num_heads": 4,
    "num_attention_heads": 8,
    "rope_scaling": {"type": "axial"},
    "rope_parameters": {"rope_theta": 3e2},
}
BART = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 40}
SWIN = {"image_size": 32, "patch_size": 2, "embed_dim": 8, "depths": [1, 1], "num_heads": [2, 4], "window_size": 4}
DEBERTA = {**SOUND, "relative_attention": True, "position_buckets": 8, "max_relative_positions": 20, "vocab_size": 40}
LEARNED = {"position_embedding_type": "learned"}
FALCON = {**SOUND, "num_attention_heads": 4, "alibi": True, "new_decoder_architecture": False, "vocab_size": 40}


@dataclass(frozen=True)
class Config:
    """A config, one of its encodings, and a parameter with which it would be another."""

    name: str
    wrong: Mapping[str, Any]
    part: str = ""
    sizes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def content(self) -> dict[str, Any]:
        return {"_class_name" if self.name in DIFFUSION else "model_type": self.name, **self.sizes}

    @property
    def adapter(self) -> str:
        """The module that asks."""
        rows = [row for row in ENCODINGS[self.name] if row.part == self.part and row.scheme]
        return SCHEMES[rows[0].scheme]

    def __str__(self) -> str:
        return "-".join(filter(None, (self.name, self.part, *self.wrong)))


CONFIGS = [
    Config("bart", {"offset": 1}, "encoder", BART),
    Config("m2m_100", {"layout": "interleaved"}, "", BART),
    Config("vit", {"mode": "bilinear"}, "", VIT),
    Config("swinv2", {"pretrained_window": (12, 12)}, "stage2", SWIN),
    Config("t5", {"max_distance": 64}, "encoder"),
    Config("wav2vec2-conformer", {"base": 5000.0}, "", SOUND),
    Config("vits", {"beyond": "clip"}, "values", {**SOUND, "window_size": 3, "ffn_dim": 16}),
    Config("qwen2_vl_vision", {"layout": "interleaved"}, "", TOWER),
    Config("FluxTransformer2DModel", {"flip_sin_to_cos": False}, "timestep", {"num_layers": 1, "num_single_layers": 1}),
    Config(
        "marian", {"layout": "interleaved"}, "", {"d_model": 16, "encoder_layers": 1, "max_position_embeddings": 99}
    ),
    Config("speech_to_text", {"padding_row": 2}, "encoder"),
    Config("speecht5", {"layout": "halves"}, "text-encoder"),
    Config("dinov2", {"align_corners": True}, "", VIT),
    Config("deit", {"prefix": 3}, "", VIT),
    Config("siglip2_vision_model", {"antialias": False}, "", {**SOUND, "num_patches": 16}),
    Config("detr", {"order": "column_first"}),
    Config("deformable_detr", {"shift": 0.0}),
    Config("grounding-dino", {"temperature": 10000.0}),
    Config("rt_detr", {"order": "column_first"}),
    Config("vit_mae", {"order": "row_first"}, "encoder"),
    Config("detr", {"order": "row_first"}, "", LEARNED),
    Config("swin", {"window": (3, 3)}, "stage1", SWIN),
    Config("beit", {"class_token": False}, "shared", {**VIT, "use_shared_relative_position_bias": True}),
    Config("t5", {"bidirectional": True}, "decoder"),
    Config("longt5", {"num_buckets": 16}, "encoder"),
    Config("deberta-v2", {"num_buckets": 16}, "relative", DEBERTA),
    Config("bloom", {"bias_max": 4.0}),
    Config("falcon", {"scale": 1.0}, "", FALCON),
    Config("mpt", {"bias_max": 4.0}),
    Config("xlnet", {"attention": "uni"}),
    Config("gemma3n_audio", {"past": 11}),
    Config("wav2vec2-bert", {"left": 63, "right": 9}, "", SOUND),
    Config("speecht5", {"distance": "key_minus_query"}, "encoder"),
    Config("sam_vision_model", {"window": (13, 13)}, "window"),
    Config("glm4v_vision", {"rope_theta": 300.0}, "", ROPES),
    Config("lfm3_vl_vision", {"rope_theta": 10000.0}, "", {**SOUND, "num_hidden_layers": 4}),
    Config("mlcd_vision_model", {"head_dim": 4}, "", VIT),
    Config("sam", {"inputs": "as_given"}, "prompt"),
    Config("DiTTransformer2DModel", {"base_size": 64}, "patches", {"num_layers": 1}),
    Config("SD3Transformer2DModel", {"crop": 64}, "patches", {"num_layers": 1}),
    Config("CogVideoXTransformer3DModel", {"temporal_interpolation_scale": 2.0}, "patches", {"num_layers": 1}),
]
PARAMS = one_of_each(
    [pytest.param(config, id=str(config)) for config in CONFIGS], lambda param: param.values[0].adapter
)


@pytest.mark.parametrize("config", PARAMS)
def test_what_is_read_is_what_the_model_s_own_code_gives(config: Config) -> None:
    word, words = judge(config.content, config.part)
    assert word == "right", words


@pytest.mark.parametrize("config", PARAMS)
def test_another_parameter_is_seen_to_be_wrong(config: Config) -> None:
    try:
        word, words = verdict(ask(config.content, config.part, overrides=config.wrong))
    except Disagrees as error:
        word, words = "wrong", str(error)
    assert word == "wrong", words


def test_every_scheme_that_a_row_names_is_asked_about() -> None:
    schemes = {row.scheme for rows in ENCODINGS.values() for row in rows if row.scheme}
    assert schemes <= set(SCHEMES)


def test_biogpt_s_positions_go_on_where_there_is_padding() -> None:
    assert judge({"model_type": "biogpt", **SOUND, "vocab_size": 40})[0] == "right"


def test_decision_transformer_has_a_row_for_each_time_and_none_for_each_token() -> None:
    content = {"model_type": "decision_transformer", "hidden_size": 16, "n_head": 1, "max_ep_len": 20}
    assert judge(content) == ("right", "DecisionTransformerModel, Embedding, 2 calls")


@pytest.mark.parametrize(
    ("content", "part", "words"),
    [
        ({"model_type": "deberta", "relative_attention": True, "position_buckets": 8}, "relative", "in no buckets"),
        ({"model_type": "wav2vec2-conformer", "position_embeddings_type": "relative_key"}, None, "'relative_key'"),
        ({"model_type": "mpt", "attn_config": {"alibi_bias_max": 4}}, None, "alibi_bias_max is not 8"),
    ],
)
def test_what_a_model_s_code_does_not_have_is_refused(content: dict[str, Any], part: str | None, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ask(content, part or "")


def test_a_table_whose_rows_come_with_its_weights_cannot_be_asked_about() -> None:
    with pytest.raises(CannotAsk, match="its code computes none"):
        ask({"model_type": "qwen2_audio_encoder", "encoder_layers": 1})


def test_what_a_model_has_no_place_for_disagrees() -> None:
    content = {"model_type": "bert", **SOUND, "vocab_size": 40, "max_position_embeddings": 12}
    with pytest.raises(Disagrees, match=r"its .*position_embeddings.weight is \(12, 16\), what was read \(14, 16\)"):
        ask(content, overrides={"offset": 2})


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("content", "answers"),
    [
        ({"model_type": "deit", **VIT}, "DeiTEmbeddings"),
        ({"model_type": "xlnet", "d_model": 16, "n_head": 2, "n_layer": 1}, "relative_positional_encoding"),
    ],
)
def test_a_file_is_held_against_the_model(content: dict[str, Any], answers: str, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(content))
    options = ("--dynamic", "-f", "onnx", "--runtime", "ort-cpu", "--require", "model")
    result = cli("export", "--from-hf", ".", *options)
    assert result.exit_code == 0, result.output
    assert answers in result.output


@pytest.mark.exhaustive
def test_every_default_configuration_that_is_read_is_right_or_says_why_it_is_not_asked() -> None:
    wrong = {name: words for name, word, words in asked.defaults() if word == "wrong"}
    undecided = {name for name, word, _ in asked.defaults(NOT_ASKED) if word != "not decided"}
    assert not wrong
    assert not undecided


NOT_ASKED = ("qwen2_audio_encoder", "audioflamingo3_encoder", "voxtral_encoder")
"""Model types whose rows of sines are in their weights alone."""
