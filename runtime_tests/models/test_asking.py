"""The model itself is asked, in this process: what its own code gives is what was read, or is not."""

from dataclasses import replace

import numpy as np
import pytest

from helpers.models.rotary import CONFIGS, DEEPSEEK, SMALL, Config, feeds_of, question
from helpers.shared import EPS
from posenc.ports import Feeds
from posenc.scheme import build
from posenc.spec import Spec
from posenc_models import read_config
from posenc_models.asking import CannotAsk, OwnModel, Question, model_of
from posenc_models.asking.rotary import layers_of

pytest.importorskip("transformers")


def error(model: OwnModel, asked: Question, feeds: Feeds) -> float:
    """Return by how much a model is off from the float64 reference of what was read: of the largest number."""
    reference = build(asked.reading.scheme, Spec("dynamic"), **asked.reading.parameters).reference(feeds, None)
    outputs = model.call(feeds)
    return max(float(np.abs(outputs[k] - v).max() / np.abs(v).max()) for k, v in reference.items())


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_model_gives_what_was_read(kind: str) -> None:
    asked = question(CONFIGS[kind])
    model = model_of(asked)
    for last in (9, 63, 64, 300):
        assert error(model, asked, feeds_of(asked, last)) < 2 * 4 * EPS * last + 8 * EPS
    assert model.library.startswith("transformers ")
    assert model.words


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("halves", {"layout": "interleaved"}),
        ("halves", {"rope_theta": 20000.0}),
        ("neighbours", {"layout": "halves"}),
        ("features swapped", {"layout": "halves"}),
        ("neighbours, a part of a head", {"rotary_dim": 12}),
        ("three positions", {"sections": (4, 2, 2)}),
    ],
)
def test_another_reading_is_off(kind: str, change: dict[str, object]) -> None:
    asked = question(CONFIGS[kind], **change)
    assert error(model_of(asked), asked, feeds_of(asked, 300)) > 0.1


def test_a_width_that_is_not_the_models_shows_in_the_shape() -> None:
    content = CONFIGS["halves"]
    asked = question(content, head_dim=8)
    assert model_of(asked).call(feeds_of(asked, 9))["q_rotated"].shape[-1] == 16


def test_what_the_model_does_with_features_is_a_permutation() -> None:
    model = model_of(question(DEEPSEEK))
    assert model.permutation == (0, 4, 1, 5, 2, 6, 3, 7)
    assert model_of(question(CONFIGS["neighbours"])).permutation == ()


def test_layers_are_asked_one_by_one() -> None:
    content = {**CONFIGS["complex numbers"], "num_hidden_layers": 5}
    layers = layers_of(question(content))
    assert [layer.like for layer in layers] == [0, 0, 0, None, 0]
    assert "layers 3 do not rotate" in model_of(question(content)).note
    with pytest.raises(CannotAsk, match="layer 3 does not rotate"):
        model_of(replace(question(content), layer=3))
    with pytest.raises(CannotAsk, match="has layers 0 to 4, not 5"):
        model_of(replace(question(content), layer=5))


def test_lists_of_other_modules_are_no_layers() -> None:
    """Gemma 3n has lists of projections before its layers."""
    content = {
        **{**SMALL, "model_type": "gemma3n_text", "head_dim": 16, "num_hidden_layers": 5, "num_kv_shared_layers": 0},
        **{"vocab_size_per_layer_input": 50, "hidden_size_per_layer_input": 8, "laurel_rank": 4},
        "layer_types": [*["sliding_attention"] * 4, "full_attention"],
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
            "full_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
        "activation_sparsity_pattern": [0.0] * 5,
    }
    reading = read_config(content, "full_attention")
    encoding = build("rope", Spec("dynamic"), **reading.parameters)
    asked = Question(content, "", None, reading, encoding.inputs, encoding.outputs, layer_type="full_attention")
    assert [layer.like for layer in layers_of(asked)] == [0, 0, 0, 0, 4]
    assert error(model_of(asked), asked, feeds_of(asked, 300)) < 1e-3


def test_a_layer_type_chooses_a_layer() -> None:
    content = {
        **{**SMALL, "model_type": "gemma3_text", "head_dim": 16, "rope_local_base_freq": 100.0},
        "layer_types": ["sliding_attention", "full_attention"],
    }
    for layer_type, base in (("sliding_attention", 100.0), ("full_attention", 10000.0)):
        reading = read_config(content, layer_type)
        encoding = build("rope", Spec(), **reading.parameters)
        asked = Question(content, "", None, reading, encoding.inputs, encoding.outputs, layer_type=layer_type)
        assert reading.parameters["rope_theta"] == base
        assert error(model_of(asked), asked, feeds_of(asked, 300)) < 1e-3


COMPRESSED: Config = {
    **{**SMALL, "model_type": "deepseek_v4", "head_dim": 32, "num_key_value_heads": 1, "qk_rope_head_dim": 8},
    **{"q_lora_rank": 8, "o_lora_rank": 8, "o_groups": 2, "n_routed_experts": 2},
    **{"index_n_heads": 2, "index_head_dim": 16},
    "layer_types": ["heavily_compressed_attention", "compressed_sparse_attention"],
}


@pytest.mark.parametrize("change", [{}, {"layout": "halves"}, {"rope_theta": 10000.0}, {"head_dim": 16}])
def test_the_last_features_of_a_head_are_ours(change: dict[str, object]) -> None:
    """A head of 32 features, of which the last 8 are rotated: they count as a head."""
    layer_type = "compressed_sparse_attention"
    reading = read_config(COMPRESSED, layer_type, overrides=change)
    encoding = build("rope", Spec("dynamic"), **reading.parameters)
    asked = Question(COMPRESSED, "", None, reading, encoding.inputs, encoding.outputs, layer_type=layer_type)
    off = error(model_of(asked), asked, feeds_of(asked, 300))
    assert off > 0.1 if change else off < 2 * 4 * EPS * 300


def test_a_type_that_no_layer_has_is_refused() -> None:
    names = "compressed_sparse_attention, heavily_compressed_attention"
    with pytest.raises(ValueError, match=f"unknown layer type 'sliding_attention': the config has {names}$"):
        read_config(COMPRESSED, "sliding_attention")
    with pytest.raises(ValueError, match=f"choose one of {names} with --layer-type"):
        read_config(COMPRESSED)
    sliding = {**COMPRESSED, "layer_types": ["sliding_attention", "compressed_sparse_attention"]}
    assert read_config(sliding, "sliding_attention").parameters["rope_theta"] == 10000.0


def test_a_width_is_no_number_of_layers() -> None:
    asked = question({**CONFIGS["halves"], "depthwise_separable_out_channel": 1024, "max_depthwise": 5000})
    assert model_of(asked).words


def test_sizes_of_cosines_and_sines_are_ours() -> None:
    for layout, width in (("halves", "half"), ("interleaved", "full")):
        kind = "halves" if layout == "halves" else "neighbours"
        asked = question(CONFIGS[kind], output="cos_sin", width=width)
        feeds = {"positions": np.arange(300)[None]}
        assert error(model_of(asked), asked, feeds) < 4 * EPS * 300


REFUSED: list[tuple[Config, str]] = [
    ({**SMALL, "model_type": "nosuch"}, r"transformers \S+ has no model type 'nosuch'$"),
    ({**SMALL, "model_type": "nosuch", "auto_map": {"AutoModel": "x.Y"}}, r"\(auto_map\) is never run$"),
    ({**SMALL, "model_type": ["llama"]}, "no model_type"),
    ({**SMALL, "model_type": "llama", "num_hidden_layers": 2**40}, "num_hidden_layers is 1,099,511,627,776: a model"),
    ({**CONFIGS["a table of an attention's own"], "n_layer": 1001}, "n_layer is 1,001: a model is made of at most"),
    ({**SMALL, "model_type": "llama", "depths": [2, 10**9]}, "depths is 1,000,000,000: a model"),
    ({**SMALL, "model_type": "llama", "vocab_size": 2**40}, "vocab_size is 1,099,511,627,776: a model"),
    ({**SMALL, "model_type": "llama", "hidden_size": "wide"}, "LlamaConfig of transformers .* refuses the config: "),
    ({**SMALL, "model_type": "llama", "hidden_size": 66}, "refuses the config: "),
]


@pytest.mark.parametrize(("content", "words"), REFUSED)
def test_what_cannot_be_asked_is_one_line(content: Config, words: str) -> None:
    asked = replace(question(CONFIGS["halves"]), content=content)
    with pytest.raises(CannotAsk, match=words) as caught:
        model_of(asked)
    assert "\n" not in str(caught.value)
