"""V-JEPA 2 and its predictor: read as its own attentions rotate, which count places and are given them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import posenc
from helpers.hf.asked import ask, judge, verdict
from posenc_models import read_config

pytest.importorskip("transformers")
SMALL = {"model_type": "vjepa2", "hidden_size": 96, "num_attention_heads": 4}
PARTS = ["", "predictor"]


def test_the_encoder_is_the_model_itself_and_the_predictor_a_part() -> None:
    encoder, predictor = (read_config({"model_type": "vjepa2"}, part=part or None) for part in PARTS)
    shapes = [(reading.parameters["head_dim"], reading.parameters["axes_dim"]) for reading in (encoder, predictor)]
    assert shapes == [(64, (20, 20, 20)), (32, (10, 10, 10))]
    assert encoder.spec.get("positions", "implicit") == "implicit"
    assert predictor.spec["positions"] == "explicit"
    assert encoder.parameters["layout"] == predictor.parameters["layout"] == "axis_tiled"


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("how", [{}, {"tensor_layout": "bshd"}, {"output": "cos_sin", "width": "full"}])
def test_its_own_code_agrees_in_every_form(part: str, how: dict[str, Any]) -> None:
    asked = ask(SMALL, part, overrides=how)
    assert asked.model.words == "VJEPA2RopeAttention.apply_rotary_embeddings"
    assert verdict(asked)[0] == "right"


@pytest.mark.parametrize("part", PARTS)
def test_its_own_code_disagrees_with_pairs_that_turn_together(part: str) -> None:
    for wrong in ({"layout": "interleaved"}, {"axis_order": (0, 2, 1)}, {"first": (1.0,)}, {"head_dim": 98}):
        assert verdict_of(part, wrong) == "wrong", wrong


def verdict_of(part: str, overrides: dict[str, Any]) -> str:
    """Return whether the model agrees with a changed reading; one whose heads have another size is wrong, too."""
    from posenc_models.asking.model import Disagrees

    try:
        return verdict(ask(SMALL, part, overrides=overrides))[0]
    except Disagrees:
        return "wrong"


def test_frames_come_before_rows_and_these_before_columns() -> None:
    from transformers.models.vjepa2 import VJEPA2Config, modeling_vjepa2

    frames, side = 3, 5
    attention: Any = modeling_vjepa2.VJEPA2RopeAttention(VJEPA2Config(crop_size=16 * side), 48, 2)
    ours = np.indices((frames, side, side)).reshape(3, -1)
    counted = attention.get_position_ids(torch.zeros(1, ours.shape[1], 1))
    np.testing.assert_array_equal(np.stack(counted), ours)
    # the predictor's are those of the patches that it has, in the order in which it is given them
    chosen = torch.tensor([[7, 70, 3], [0, 74, 26]])
    counted = attention.get_position_ids(torch.zeros(2, 3, 1), masks=chosen)
    np.testing.assert_array_equal(np.stack(counted)[:, :, 0], ours[:, chosen.numpy()])


def test_scores_of_a_whole_attention_are_those_of_our_heads() -> None:
    from transformers.models.vjepa2 import VJEPA2Config, modeling_vjepa2

    sizes: dict[str, Any] = {"crop_size": 80, "hidden_size": 48, "attn_implementation": "eager"}
    config = VJEPA2Config(num_attention_heads=2, **sizes)
    attention: Any = modeling_vjepa2.VJEPA2RopeAttention(config, 48, 2).eval()
    x = torch.randn(1, 3 * 5 * 5, 48)
    with torch.no_grad():
        expected = attention(x)[1]
        q, k = (part(x).view(1, 75, 2, 24).transpose(1, 2) for part in (attention.query, attention.key))
    parameters = read_config(config.to_dict()).parameters
    module = posenc.build("rope_nd", posenc.Spec("dynamic"), **parameters).module
    ours = module(*(heads.unflatten(2, (3, 5, 5)) for heads in (q, k)))
    rotated_q, rotated_k = (heads.flatten(2, 4) for heads in ours)
    actual = (rotated_q @ rotated_k.mT * attention.scaling).softmax(-1)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"hidden_size": 100, "num_attention_heads": 16}, "100 features are not a multiple of 16 heads"),
        ({"num_attention_heads": "x"}, "num_attention_heads must be"),
    ],
)
def test_settings_that_its_code_refuses_are_refused_in_a_line(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        read_config({"model_type": "vjepa2", **settings})
    assert "\n" not in str(caught.value)


def test_the_defaults_are_read_as_the_model_takes_them() -> None:
    for part in PARTS:
        assert judge({"model_type": "vjepa2"}, part)[0] == "right"
