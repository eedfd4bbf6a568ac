"""`--from-hf` of folders with configs that are not rotary: names of weights, forms, wrong usage."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import posenc_export
from helpers.shared import Cli
from posenc_export.bundle.folder import Bundle
from posenc_models import ModelConfig


def write(folder: Path, config: dict[str, Any]) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def test_a_model_s_folder_from_the_command_line(cli: Cli, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    sizes = {"hidden_size": 4, "max_position_embeddings": 9}
    folder = write(tmp_path / "model", {"model_type": "roberta", **sizes, "pad_token_id": 1})
    key = "roberta.embeddings.position_embeddings.weight"
    save_file({key: torch.ones(9, 4), "roberta.x": torch.ones(2)}, folder / "model.safetensors")
    given = ("-p", f"weights={folder}", "-f", "onnx", "--runtime", "ort-cpu")
    result = cli("export", "--from-hf", str(folder), *given)
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    assert "positions mask (model_type roberta), position_offset 2 (pad_token_id + 1)" in said
    assert "max_len 9 (max_position_embeddings - (pad_token_id + 1), and pad_token_id + 1 before)" in said
    manifest = Bundle.open(tmp_path / "learned-baked").manifest
    assert (manifest.positions, manifest.max_len, manifest.params["key"]) == ("mask", 9, key)
    assert manifest.origin["key"] == f"its name in {folder}"


@pytest.mark.exhaustive
def test_a_scheme_of_one_mode_has_that_unless_the_other_is_given(cli: Cli, tmp_path: Path) -> None:
    folder = write(tmp_path / "sam", {"model_type": "sam", "vision_config": {"num_pos_feats": 8}})
    of = ("--from-hf", str(folder), "--part", "prompt", "-f", "onnx", "--runtime", "ort-cpu")
    result = cli("export", *of)
    assert result.exit_code == 0, result.output
    assert "mode dynamic (fourier_features has no baked form)" in " ".join(result.output.split())
    assert Bundle.open(tmp_path / "fourier_features-dynamic").manifest.mode == "dynamic"
    refused = cli("export", *of, "--baked")
    assert refused.exit_code == 2
    assert "fourier_features has no baked form: coordinates are numbers" in " ".join(refused.output.split())
    assert posenc_export.export(ModelConfig.load(folder, part="prompt"), formats=["onnx"], runtimes=["ort-cpu"]).passed


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["--part", "text"], "--part chooses among the parts of a config: give --from-hf with it"),
        (["--from-hf", "t5"], "has several encodings: choose one of encoder (t5_bias), decoder (t5_bias) with --part"),
        (["--from-hf", "t5", "--part", "x"], "has no part 'x' with a known encoding: it has encoder, decoder"),
        (["--from-hf", "bert", "--layer-type", "full"], "all layers of this config are alike"),
        (["--from-hf", "bert", "-p", "weights=none"], "weights must be one of .npy"),
        (["--from-hf", "bert", "--dynamic"], "learned has no dynamic form"),
        (["rope", "--from-hf", "bert"], "describes learned, not rope: leave SCHEME out"),
    ],
)
def test_bad_usage_is_one_line(cli: Cli, tmp_path: Path, args: list[str], text: str) -> None:
    for name in ("t5", "bert"):
        write(tmp_path / name, {"model_type": name})
    result = cli("export", *args)
    assert result.exit_code == 2, result.output
    assert text in " ".join(result.output.split())
    assert "Traceback" not in result.output
