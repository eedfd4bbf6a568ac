"""Every type of layers of a config in one graph, `--layer-type all`: what is read, refused, and what the model says."""

import json
from typing import Any

import pytest

from helpers.hf.asked import Asked, built_in, verdict
from posenc.encoding import NoTables
from posenc_models import ModelConfig, Reading, read_config
from posenc_models.asking import Question, model_of

Config = dict[str, Any]
GEMMA3: Config = {
    "model_type": "gemma3_text",
    **{"hidden_size": 64, "num_hidden_layers": 6, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32},
    **{"intermediate_size": 64, "vocab_size": 99, "sliding_window_pattern": 3},
    "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
}
GEMMA4: Config = {
    **{key: value for key, value in GEMMA3.items() if key != "rope_scaling"},
    **{"model_type": "gemma4_text", "global_head_dim": 64, "hidden_size_per_layer_input": 8},
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
}
MODERNBERT: Config = {"model_type": "modernbert", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 2}
OLMO3: Config = {
    **{"model_type": "olmo3", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 2, "rope_theta": 5e5},
    "rope_scaling": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8192},
}
REMOTE: Config = {
    "head_dim": 16,
    "rope_parameters": {"near": {"rope_theta": 1e4}, "far": {"rope_theta": 1e6}, "no_rope": None},
}


def types_of(reading: Reading) -> dict[str, Any]:
    types: dict[str, Any] = json.loads(reading.parameters["layer_types"])
    return types


def read_all(config: Config, **overrides: Any) -> Reading:
    return read_config(config, "all", overrides)


@pytest.mark.parametrize(
    ("config", "bases"),
    [
        (GEMMA3, {"sliding_attention": 1e4, "full_attention": 1e6}),
        ({"model_type": "gemma3", "text_config": GEMMA3}, {"sliding_attention": 1e4, "full_attention": 1e6}),
        (GEMMA4, {"sliding_attention": 1e4, "full_attention": 1e6}),
        (MODERNBERT, {"full_attention": 160000.0, "sliding_attention": 1e4}),
        (OLMO3, {"sliding_attention": 5e5, "full_attention": 5e5}),
        ({**REMOTE, "model_type": "of nobody"}, {"near": 1e4, "far": 1e6}),
    ],
)
def test_each_type_has_its_own_base(config: Config, bases: dict[str, float]) -> None:
    reading = read_all(config, **({"layout": "halves"} if config.get("model_type") == "of nobody" else {}))
    assert reading.scheme == "rope_layers"
    assert {name: values["rope_theta"] for name, values in types_of(reading).items()} == bases
    for name, values in types_of(reading).items():
        alone = read_config(config, name, {"layout": "halves"}).parameters
        assert {**values, "layout": "halves"} == json.loads(json.dumps(alone))
        assert f"{name}.rope_theta" in reading.origin


def test_widths_and_scaling_differ_too() -> None:
    types = types_of(read_all(GEMMA4))
    assert [values["head_dim"] for values in types.values()] == [32, 64]
    types = types_of(read_all(OLMO3))
    assert [values["rope_type"] for values in types.values()] == ["default", "yarn"]


@pytest.mark.parametrize(
    ("config", "how", "text"),
    [
        ({"model_type": "llama"}, {}, "^layer type 'all' was given, and layers of this config have no types: leave"),
        ({"model_type": "bert"}, {}, "^layer type 'all' was given, and all layers of this config are alike$"),
        ({"model_type": "cohere2"}, {}, "^layer type 'all' was given, and layers of type sliding_attention alone rot"),
        (
            {"model_type": "qwen2", "layer_types": ["full_attention", "sliding_attention"], "num_hidden_layers": 2},
            {},
            "^layers of types full_attention, sliding_attention rotate alike: leave --layer-type out$",
        ),
        (GEMMA3, {"layer": 3}, "^layer 3 and layer type 'all' were given: give one of the two$"),
        (REMOTE, {"overrides": {}}, "and so neither which features"),
    ],
)
def test_what_is_refused(config: Config, how: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text) as refusal:
        read_config(config, "all", **how)
    assert "\n" not in str(refusal.value)


def test_a_type_that_no_layer_has_is_refused_by_those_that_there_are() -> None:
    with pytest.raises(ValueError, match=r"^unknown layer type 'other': the config has sliding_attention, full_att"):
        read_config(GEMMA3, "other")


def answered(config: Config, **overrides: Any) -> Asked:
    view = ModelConfig.of(config, "all")
    reading = read_config(view, overrides=overrides)
    encoding = built_in(reading, ["dynamic"])
    question = Question(config, "", view.layer, reading, encoding.inputs, encoding.outputs, {}, str(view.layer_type))
    return Asked(encoding, model_of(question))


@pytest.mark.parametrize(
    ("config", "width"),
    [
        (GEMMA4, "half"),
        pytest.param(GEMMA3, "full", marks=pytest.mark.exhaustive),
        pytest.param(MODERNBERT, "full", marks=pytest.mark.exhaustive),
        pytest.param(OLMO3, "half", marks=pytest.mark.exhaustive),
    ],
)
def test_the_model_agrees_with_each_type(config: Config, width: str) -> None:
    pytest.importorskip("transformers")
    agreed = answered(config, width=width)
    assert [port.name[:3] for port in agreed.encoding.outputs] == ["cos", "sin"] * 2
    assert verdict(agreed)[0] == "right"


def test_the_model_disagrees_where_two_bases_are_exchanged() -> None:
    pytest.importorskip("transformers")
    types = types_of(read_all(GEMMA3))
    exchanged = dict(zip(types, reversed(types.values()), strict=True))
    word, why = verdict(answered(GEMMA3, layer_types=json.dumps(exchanged)))
    assert word == "wrong"
    assert why.startswith("cos_sliding_attention[")


def test_tables_of_several_bases_are_none() -> None:
    with pytest.raises(NoTables, match="its table is of one base, and there is one for each type of layers"):
        built_in(read_all(GEMMA3), ["baked"]).tables()
