"""Configs whose layers differ: SAM's image encoder, those that copy it, and ViTDet, in windows and of all places."""

from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.hf.reading import read
from posenc_models import read_config

SAM = {"model_type": "sam_vision_model"}
OF_SAM = {"model_type": "sam", "vision_config": {"hidden_size": 64, "num_attention_heads": 4, "image_size": 512}}
VITDET = {"model_type": "vitdet", "image_size": [512, 1024], "patch_size": 16}
RELATIVE = {**VITDET, "use_relative_position_embeddings": True, "window_block_indices": [0, 1], "window_size": 7}


@pytest.mark.parametrize(
    ("config", "part", "expected"),
    [
        (OF_SAM, "vision.window", {"scheme": "decomposed_relative", "head_dim": 16, "window": 14}),
        (OF_SAM, "global", {"scheme": "decomposed_relative", "head_dim": 16, "window": (32, 32)}),
        (OF_SAM, "absolute", {"scheme": "interpolated", "grid": (32, 32), "prefix": 0}),
        ({**SAM, "window_size": 0}, "global", {"window": (64, 64)}),
        ({**SAM, "use_rel_pos": False}, None, {"scheme": "interpolated", "prefix": 0}),
        ({**SAM, "use_abs_pos": False, "global_attn_indexes": []}, None, {"scheme": "decomposed_relative"}),
        ({"model_type": "deepseek_ocr2_sam_vision_model"}, "absolute", {"grid": (64, 64), "antialias": True}),
        ({"model_type": "slanext_vision"}, "global", {"window": (32, 32), "head_dim": 64}),
        (VITDET, None, {"scheme": "interpolated", "grid": (14, 14)}),
        (RELATIVE, "absolute", {"scheme": "interpolated", "grid": (14, 14)}),
        (RELATIVE, "global", {"scheme": "decomposed_relative", "window": (32, 64)}),
        (RELATIVE, "window", {"scheme": "decomposed_relative", "window": 7}),
        ({"model_type": "seggpt"}, "relative", {"scheme": "decomposed_relative", "window": (56, 28), "head_dim": 64}),
        ({"model_type": "seggpt"}, "absolute", {"scheme": "interpolated", "grid": (14, 14), "prefix": 1}),
    ],
)
def test_what_each_part_is(config: dict[str, Any], part: str | None, expected: dict[str, Any]) -> None:
    found = read(config, part)
    assert {key: found.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("config", "part", "text"),
    [
        (
            OF_SAM,
            None,
            r"choose one of prompt \(fourier_features\), vision\.absolute \(interpolated\), "
            r"vision\.window \(decomposed_relative\), vision\.global \(decomposed_relative\) with --part$",
        ),
        ({**SAM, "global_attn_indexes": []}, "global", "no part 'global' with a known .*: it has absolute, window$"),
        ({**SAM, "num_hidden_layers": 2, "global_attn_indexes": [0, 1]}, "window", "it has absolute, global$"),
        ({**SAM, "use_rel_pos": False, "use_abs_pos": False}, None, "use_abs_pos is False, use_rel_pos is False"),
        ({**SAM, "window_size": "x"}, "window", "window_size must be a number above 0, got 'x'"),
        ({**SAM, "global_attn_indexes": 2}, None, "global_attn_indexes must be a list of whole numbers, got 2"),
        ({**SAM, "hidden_size": 65}, "window", "65 features are not a multiple of 12 heads"),
    ],
)
def test_what_is_refused(config: dict[str, Any], part: str | None, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        read(config, part)


def test_tables_are_those_of_the_layers_that_have_them(tmp_path: Path) -> None:
    names = [f"vision_encoder.layers.{i}.attn.rel_pos_{side}" for i in range(12) for side in "hw"]
    torch.save({name: torch.ones(27, 64) for name in names}, tmp_path / "w.pt")
    config: dict[str, Any] = {**SAM, "global_attn_indexes": [1, 11]}
    given = {"weights": str(tmp_path / "w.pt")}
    with pytest.raises(ValueError, match=r"2 tensors of .* may be meant: give one") as several:
        read_config(config, part="global", overrides=given)
    assert str(several.value).endswith("NAME: vision_encoder.layers.1.attn, vision_encoder.layers.11.attn")
    with pytest.raises(ValueError, match=r"10 tensors of .* may be meant"):
        read_config(config, part="window", overrides=given)
    one = read_config({**config, "global_attn_indexes": [11]}, part="global", overrides=given)
    assert one.parameters["key"] == "vision_encoder.layers.11.attn"
