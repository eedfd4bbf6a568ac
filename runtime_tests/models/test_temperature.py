"""The temperature of attention that configs describe, `--part temperature`: what is read, and what the model says."""

from typing import Any

import pytest

from helpers.hf.asked import ask, feeds_of, verdict, worst
from posenc_models import ModelConfig, read_config

Config = dict[str, Any]
SMALL: Config = {
    **{"hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32, "num_hidden_layers": 4},
    "max_position_embeddings": 4096,
}
LLAMA4: Config = {**SMALL, "model_type": "llama4_text", "floor_scale": 20, "attn_scale": 0.25}
ROPE = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 30}
MINISTRAL3: Config = {
    **SMALL,
    **{"model_type": "ministral3", "rope_parameters": {**ROPE, "llama_4_scaling_beta": 0.5}},
}
MISTRAL4: Config = {
    **{"hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 2, "q_lora_rank": 16, "kv_lora_rank": 16},
    **{"qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, "max_position_embeddings": 4096},
    **{"model_type": "mistral4", "rope_parameters": {**ROPE, "llama_4_scaling_beta": 0.5}},
}
MISTRAL3: Config = {"model_type": "mistral3", "text_config": MINISTRAL3, "vision_config": {"model_type": "pixtral"}}
OF_LLAMA4: Config = {"model_type": "llama4", "text_config": LLAMA4}
MODELS = {"llama4_text": LLAMA4, "ministral3": MINISTRAL3, "mistral4": MISTRAL4, "mistral3": MISTRAL3}


@pytest.mark.parametrize(
    ("config", "expected", "length"),
    [
        (LLAMA4, {"beta": 0.25, "step": 20, "offset": 1}, 4096),
        (OF_LLAMA4, {"beta": 0.25, "step": 20, "offset": 1}, 4096),
        ({**LLAMA4, "attn_temperature_tuning": 4}, {"beta": 0.25, "step": 20, "offset": 1}, 4096),
        ({"model_type": "llama4_text"}, {"beta": 0.1, "step": 8192, "offset": 1}, 131072),
        (MINISTRAL3, {"beta": 0.5, "step": 30}, 4096),
        ({**MINISTRAL3, "rope_parameters": None, "rope_scaling": MINISTRAL3["rope_parameters"]},
         {"beta": 0.5, "step": 30}, 4096),
        ({"model_type": "ministral3"}, {"beta": 0.1, "step": 16384}, 262144),
        (MISTRAL3, {"beta": 0.5, "step": 30}, 4096),
        (MISTRAL4, {"beta": 0.5, "step": 30}, 4096),
        ({"model_type": "mistral4"}, {"beta": 0.1, "step": 8192}, 1048576),
    ],
)  # fmt: skip
def test_what_is_read(config: Config, expected: Config, length: int) -> None:
    reading = read_config(config, part="temperature")
    assert (reading.scheme, reading.parameters) == ("attention_temperature", expected)
    assert reading.max_position_embeddings == length
    assert set(expected) <= set(reading.origin)


@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
def test_the_rotation_is_what_is_read_without_the_option(config: Config) -> None:
    assert read_config(config).scheme == "rope"


def test_the_text_of_a_whole_model_is_its_rotation() -> None:
    assert ModelConfig.of(OF_LLAMA4, part="text").scheme == "rope"
    assert ModelConfig.of(OF_LLAMA4, part="text.temperature").scheme == "attention_temperature"


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({**LLAMA4, "attn_temperature_tuning": False}, "cannot be read: attn_temperature_tuning is off: queries are"),
        ({**LLAMA4, "floor_scale": "x"}, "floor_scale must be a number above 0, got 'x'"),
        ({**MINISTRAL3, "rope_parameters": ROPE}, r"rope_parameters\.llama_4_scaling_beta is missing: the factor of"),
        ({"model_type": "llama"}, "has no part 'temperature' with a known encoding: it has no parts"),
    ],
)
def test_what_is_refused(config: Config, text: str) -> None:
    with pytest.raises(ValueError, match=text) as refusal:
        read_config(config, part="temperature")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
def test_the_model_s_own_attention_agrees(config: Config) -> None:
    pytest.importorskip("transformers")
    answered = ask(config, "temperature")
    feeds, (port,) = feeds_of(answered.encoding, 1), answered.encoding.outputs
    # both sides of a step were looked at
    assert len(set(answered.model.call(feeds)[port.name].ravel().tolist())) > 1
    assert verdict(answered)[0] == "right"


@pytest.mark.parametrize("wrong", [{"step": 21}, {"step": 5}, {"offset": 0}, {"beta": 0.26}])
def test_the_model_disagrees_with_another_factor(wrong: Config) -> None:
    pytest.importorskip("transformers")
    answered = ask(LLAMA4, "temperature", overrides=wrong)
    feeds = {"positions": feeds_of(answered.encoding, 1)["positions"] * 0 + 19}
    feeds["positions"][..., 0] = 60
    assert worst(answered, feeds, answered.model.call(feeds))


def test_it_has_no_layers_to_choose_among() -> None:
    with pytest.raises(ValueError, match="layer 3 was given, and all layers of this config are alike"):
        ModelConfig.of(LLAMA4, part="temperature", layer=3)
