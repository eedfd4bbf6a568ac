"""Vision towers that are read as rope_nd or dinov3: from changed settings, held against their own code; refusals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from helpers.hf.asked import ask, judge, verdict
from posenc_models import read_config
from posenc_models.config.encodings.grids import GRIDS

pytest.importorskip("transformers")
Config = Mapping[str, Any]
NEOMME = {
    "full_attention": {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5},
    "sliding_attention": {"rope_type": "default", "rope_theta": 70.0, "partial_rotary_factor": 0.75},
}
MEMORY = {
    **{"memory_attention_hidden_size": 96, "memory_attention_num_attention_heads": 2},
    **{"memory_attention_downsample_rate": 2, "memory_attention_rope_feat_sizes": [5, 6]},
    "rope_parameters": {"rope_type": "axial", "rope_theta": 77.0},
}
WIDE = {"hidden_size": 96, "num_attention_heads": 4}
CHANGED: Mapping[str, Config] = {
    "dinov3_vit": {**WIDE, "rope_theta": 7.0, "num_register_tokens": 4, "patch_size": [4, 8]},
    "sapiens2": {**WIDE, "rope_theta": 50.0, "num_key_value_attention_heads": 2},
    "chmv2": {"backbone_config": {"model_type": "dinov3_vit", **WIDE, "rope_theta": 70.0}},
    "eomt_dinov3": {**WIDE, "rope_parameters": {"rope_type": "default", "rope_theta": 60.0}},
    "pixtral": {**WIDE, "head_dim": 32, "rope_theta": 99.0},
    "kimi_k25_vision": {**WIDE, "rope_parameters": {"rope_theta": 99.0}},
    "step3p5_vision": {"width": 64, "heads": 2, "hidden_size": 96, "num_attention_heads": 4, "rope_theta": 99.0},
    "inkling2_vision": {**WIDE, "rope_scaling": {"type": "default", "rope_theta": 99.0}},
    "muse_glimmer_vision": {**WIDE, "rope_parameters": {"rope_type": "axial"}, "rope_theta": 99.0},
    "muse_spark_vision": {**WIDE, "rope_theta": 99.0},
    "llama4_vision_model": {**WIDE, "rope_parameters": {"rope_type": "default", "rope_theta": 99.0}},
    "efficientloftr": {
        **{"hidden_size": 128, "out_features": [64, 64, 128, 128], "num_attention_heads": 4},
        **{"partial_rotary_factor": 2.0, "rope_theta": 99.0},
    },
    "sam3_vit_model": {
        **WIDE,
        "image_size": [84, 112],
        "window_size": 5,
        "global_attn_indexes": [1],
        "rope_theta": 99.0,
    },
    **dict.fromkeys(("sam2_video", "sam3_tracker_video"), MEMORY),
    "edgetam_video": {**MEMORY, "memory_attention_rope_theta": 50.0},
    "gemma4_vision": {**WIDE, "head_dim": 32, "rope_theta": 99.0},
    "minimax_m3_vl_vision": {"hidden_size": 128, "num_attention_heads": 4, "rope_theta": 99.0},
    "vjepa2": {**WIDE, "pred_hidden_size": 64, "pred_num_attention_heads": 4},
    "neomme": {"head_dim": 32, "rope_parameters": NEOMME},
}
"""Settings of each type, unlike its defaults."""
OTHERS: Mapping[str, tuple[Any, ...]] = {
    "axis_order": ((0, 1), (1, 0)),
    "first": ((0.0,), (1.0,)),
    "scale": ((1.0,), (0.5,)),
    "order": ("axis_by_axis", "by_turns"),
    "frequencies": ("own", "alternate"),
    "layout": ("halves", "interleaved", "axis_halves", "axis_tiled"),
    "rope_theta": ((33.0,), 33.0),
}
"""Values of parameters, one of which is wrong for each tower."""


def parts_of(name: str) -> list[str]:
    """Return the parts of a type's own: "" for a type with one encoding."""
    return list(dict.fromkeys(row.part for row in GRIDS[name] if not row.lacks))


PARTS = [pytest.param(name, part, id=f"{name}-{part}") for name in GRIDS for part in parts_of(name)]
QUICK = ("dinov3_vit", "pixtral", "llama4_vision_model")
SOME = [
    param if param.values[0] in QUICK else pytest.param(*param.values, marks=pytest.mark.exhaustive, id=param.id)
    for param in PARTS
]


def test_each_type_has_settings() -> None:
    assert set(CHANGED) == set(GRIDS)


@pytest.mark.parametrize(("name", "part"), SOME)
def test_changed_settings_are_read_as_the_tower_takes_them(name: str, part: str) -> None:
    content = {"model_type": name, **CHANGED[name]}
    usual, changed = (read_config(settings, part=part or None) for settings in ({"model_type": name}, content))
    # the base of V-JEPA 2 stands in its code
    for key in ("head_dim", "axes_dim" if name == "vjepa2" else "rope_theta"):
        assert usual.parameters[key] != changed.parameters[key]
    assert judge(content, part)[0] == "right"


@pytest.mark.parametrize(("name", "part"), SOME)
def test_the_tower_disagrees_with_any_other_reading(name: str, part: str) -> None:
    content = {"model_type": name, **CHANGED[name]}
    reading = read_config(content, part=part or None)
    for key in (key for key in OTHERS if key in reading.parameters):
        value = reading.parameters[key]
        wrong = next(choice for choice in OTHERS[key] if type(choice) is type(value) and choice != value)
        assert verdict(ask(content, part, overrides={key: wrong}))[0] == "wrong", key


@pytest.mark.parametrize(
    ("settings", "part", "words"),
    [
        ({"model_type": "pixtral", "rope_parameters": {"rope_type": "yarn"}}, "", "its rope type is not axial"),
        ({"model_type": "eomt_dinov3", "rope_parameters": {"rope_type": "axial"}}, "", "its rope type is not default"),
        ({"model_type": "sam3_vit_model", "rope_scaling": {"type": "linear"}}, "global", "its rope type is not axial"),
        (
            {"model_type": "neomme", "rope_parameters": {"full_attention": {"rope_type": "linear"}}},
            "full_attention",
            "its rope type is not default, and two axes of another are not read",
        ),
        ({"model_type": "neomme"}, None, "choose one of full_attention \\(rope_nd\\), sliding_attention"),
        ({"model_type": "neomme", "num_hidden_layers": 1}, "sliding_attention", "has no part 'sliding_attention'"),
        ({"model_type": "efficientloftr", "num_attention_heads": 4}, "", "64 x 4 features an axis are not half of 256"),
        ({"model_type": "dinov3_vit", "hidden_size": 385}, "", "385 features are not a multiple of 6 heads"),
        ({"model_type": "sam2_video", "memory_attention_rope_theta": "x"}, "", "memory_attention_rope_theta must be a"),
    ],
)
def test_settings_that_no_scheme_follows_are_refused_in_a_line(settings: Config, part: str | None, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        read_config(settings, part=part or None)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        {"model_type": "dinov3_vit"},
        {"model_type": "chmv2", "patch_size": 8},
        {"model_type": "chmv2", "backbone_config": {"model_type": "dinov3_vit"}},
    ],
)
def test_a_whole_model_of_a_tower_alone_is_read_without_a_part(content: Config) -> None:
    reading = read_config(content)
    assert (reading.scheme, reading.parameters["rope_theta"]) == ("dinov3", 100.0)
    assert "register tokens stand before the patches and are not rotated" in reading.notes[0]
    assert judge(content)[0] == "right"


BEFORE: Mapping[str, tuple[Config, int, str]] = {
    "dinov3_vit": (CHANGED["dinov3_vit"], 5, "num_register_tokens + 1"),
    "sapiens2": ({**WIDE, "num_register_tokens": 0}, 1, "num_register_tokens + 1"),
    "chmv2": ({}, 5, "default of model_type chmv2"),
}
"""Tokens before the patches, and where that is read."""


@pytest.mark.parametrize("width", ["half", "full"])
@pytest.mark.parametrize("name", BEFORE)
def test_cosines_and_sines_have_rows_for_the_tokens_before_the_patches(name: str, width: str) -> None:
    settings, before, origin = BEFORE[name]
    content, asked = {"model_type": name, **settings}, {"output": "cos_sin", "width": width}
    reading = read_config(content, overrides=asked)
    assert (reading.parameters["prefix"], reading.origin["prefix"], reading.notes) == (before, origin, ())
    assert verdict(ask(content, overrides=asked))[0] == "right"
    # another number is not the model's, and none are the patches alone
    assert verdict(ask(content, overrides={**asked, "prefix": before + 1})) == (
        "wrong",
        f"it has {before} tokens before the places of an image, ours {before + 1}",
    )
    patches = {**asked, "prefix": 0}
    assert "split them off" in read_config(content, overrides=patches).notes[0]
    assert verdict(ask(content, overrides=patches))[0] == "right"


def test_a_tower_that_rotates_what_stands_before_the_patches_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.models.dinov3_vit import modeling_dinov3_vit as dinov3

    monkeypatch.setattr(dinov3, "apply_rotary_pos_emb", lambda q, k, *_: (-q, -k))
    asked = ask({"model_type": "dinov3_vit", **CHANGED["dinov3_vit"]}, overrides={"output": "cos_sin"})
    assert verdict(asked) == ("wrong", "it rotates the 5 tokens before the places of an image")


def test_a_tower_whose_whole_cannot_be_made_is_asked_by_its_angles(monkeypatch: pytest.MonkeyPatch) -> None:
    from posenc_models.asking import CannotAsk, towers

    def refused(*_: object) -> None:
        raise CannotAsk("it requires the timm library")

    monkeypatch.setattr(towers, "built", refused)
    for name in ("eomt_dinov3", "edgetam_video"):
        assert judge({"model_type": name, **CHANGED[name]})[0] == "right"
    with pytest.raises(CannotAsk, match="it requires the timm library"):
        ask({"model_type": "pixtral", "hidden_act": 5})
