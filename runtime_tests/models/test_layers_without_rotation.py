"""Layers that attend without rotation are named in the manifest and the report: those of the model's own code."""

from pathlib import Path
from typing import Any

import pytest

import posenc_export
from posenc_export.bundle.manifest import Manifest
from posenc_export.proof.report.report import read_from
from posenc_models import ModelConfig, read_config

Config = dict[str, Any]
SMALL: Config = {
    **{"hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32, "vocab_size": 99},
    **{"intermediate_size": 64, "num_hidden_layers": 6, "pad_token_id": 0},
}
SMOLLM3: Config = {"model_type": "smollm3", **SMALL, "no_rope_layer_interval": 3}
LLAMA4: Config = {"model_type": "llama4_text", **SMALL, "num_local_experts": 2, "no_rope_layers": [1, 1, 0, 1, 0, 1]}
COHERE2: Config = {"model_type": "cohere2", **SMALL, "sliding_window_pattern": 3}
EXAONE4: Config = {"model_type": "exaone4", **SMALL, "sliding_window": 8, "sliding_window_pattern": 3}
GRANITE: Config = {
    **{"model_type": "granitemoe_swa", **SMALL, "num_hidden_layers": 3, "num_local_experts": 2},
    "layer_rope_theta": [1e4, 0, 1e4],
}
EXPECTED = [
    (SMOLLM3, "layers 2, 5"),
    (LLAMA4, "layers 2, 4"),
    (COHERE2, "layers 2, 5"),
    (EXAONE4, "layers 2, 5"),
    (GRANITE, "layer 1"),
]


def name_of(value: object) -> str | None:
    return str(value["model_type"]) if isinstance(value, dict) else ""


@pytest.mark.parametrize(("config", "words"), EXPECTED, ids=name_of)
def test_a_reading_names_them(config: Config, words: str) -> None:
    assert read_config(config).origin["without rotation"] == words
    assert read_config(config, layer=0).origin["without rotation"] == words


@pytest.mark.parametrize(("config", "words"), EXPECTED, ids=name_of)
def test_they_are_those_of_the_model_s_own_code(config: Config, words: str) -> None:
    pytest.importorskip("transformers")
    from posenc_models.asking import Question
    from posenc_models.asking.rotary import layers_of

    seen = layers_of(Question(config, "", None, read_config(config), (), ()))
    # Granite's experts refuse empty tensors: behind the attention, and in every layer alike
    assert len({layer.error for layer in seen}) == 1
    still = [str(number) for number, layer in enumerate(seen) if layer.like is None]
    assert words.split(maxsplit=1)[1] == ", ".join(still)


def test_all_of_them_are_named_where_there_are_many() -> None:
    numbers = ", ".join(str(number) for number in range(3, 80, 4))
    config = {"model_type": "cohere2", "num_hidden_layers": 80}
    assert read_config(config).origin["without rotation"] == f"layers {numbers}"


@pytest.mark.parametrize("model_type", ["llama", "qwen3_next"])
def test_layers_that_do_not_attend_are_none_of_them(model_type: str) -> None:
    assert "without rotation" not in read_config({"model_type": model_type}).origin


def test_a_model_without_any_rotation_says_which_key_it_is() -> None:
    with pytest.raises(ValueError, match="has no rotary encoding: position_embedding_type is 'nope'; no other"):
        read_config({"model_type": "granitemoehybrid", "position_embedding_type": "nope"})


@pytest.mark.exhaustive
def test_the_manifest_and_the_report_name_them(tmp_path: Path) -> None:
    config = ModelConfig.of({**LLAMA4, "max_position_embeddings": 32})
    result = posenc_export.export(config, to=tmp_path / "b", formats=["onnx"], mode="baked", runtimes=["ort-cpu"])
    assert result.passed
    manifest: Manifest = result.manifest
    assert manifest.origin["without rotation"] == "layers 2, 4"
    assert read_from(manifest).endswith("; layers 2, 4 do not rotate")
    assert "; layers 2, 4 do not rotate" in (tmp_path / "b" / "report.md").read_text(encoding="utf-8")
