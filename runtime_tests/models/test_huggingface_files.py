"""A model's folder, as a view and from the command line; bad usage of --from-hf and of what goes with it."""

import json
from pathlib import Path
from typing import Any

import pytest

from helpers.shared import Cli
from posenc_export.bundle.folder import Bundle
from posenc_models import ModelConfig, load_config, read_config

LLAMA = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}


def write_config(folder: Path, config: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def test_a_view_is_read_as_its_config(tmp_path: Path) -> None:
    nested = {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}
    folder = write_config(tmp_path, {"text_config": {**LLAMA, "rope_parameters": nested, "n_positions": 9}})
    view = ModelConfig.load(folder, "full_attention")
    assert (view.path, view.scheme, view.max_position_embeddings) == (folder / "config.json", "rope", 9)
    reading = read_config(view)
    assert reading.origin["rope_theta"] == "text_config.rope_parameters.full_attention.rope_theta"
    assert reading == read_config(load_config(folder), "full_attention")
    assert read_config(view, "sliding_attention").parameters["rope_theta"] == 1e4


@pytest.mark.exhaustive
def test_the_command_line_reads_a_model_s_folder(cli: Cli, tmp_path: Path) -> None:
    folder = write_config(tmp_path / "a model", {**LLAMA, "rope_theta": 5e5, "max_position_embeddings": 77})
    result = cli("export", "--from-hf", str(folder), "--baked", "-p", "head_dim=16", "-f", "onnx", "-q")
    assert result.exit_code == 0, result.output
    manifest = Bundle.open(tmp_path / "rope-baked").manifest
    assert manifest.max_len == 77
    assert manifest.params["rope_theta"] == 5e5
    assert manifest.params["head_dim"] == 16
    assert manifest.origin == {
        "config": (folder / "config.json").as_posix(),
        "head_dim": "given",
        "rope_type": "default",
        "rope_theta": "rope_theta",
    }


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["--from-hf", "none"], "none does not exist: give a config.json, or a model's folder that has one"),
        (["--from-hf", "text"], "config.json is not JSON"),
        (["--from-hf", "list"], "holds a list: expected the object"),
        (["--from-hf", "alibi"], "has no rotary encoding: alibi is True"),
        (["--from-hf", "llama", "-p", "hed_dim=8"], "rope has no parameter 'hed_dim': did you mean 'head_dim'"),
        (["sinusoidal", "--from-hf", "llama"], "describes rope, not sinusoidal: leave SCHEME out"),
        (["--from-hf", "llama", "-i", "x: float32[batch]"], "--from-hf has its own"),
        (["--layer-type", "full_attention"], "--layer-type chooses among the layers of a config"),
        (["--from-hf", "llama", "--layer-type", "full"], "all layers of this config are alike"),
        (["rope", "--rotary-op", "onnx", "--opset", "20"], "--rotary-op onnx needs opset 23, got --opset 20"),
        (["rope", "--rotary-op", "onnx", "-f", "torchscript"], "--rotary-op onnx is an operator of ONNX"),
        (
            ["rope", "--rotary-op", "onnx", "--dtype", "fp64"],
            "--rotary-op onnx has no fp64: expected fp32, fp16 or bf16",
        ),
        (["--rotary-op", "microsoft"], "--rotary-op microsoft is for what rotates q and k: nothing here does"),
        (["--require", "ort-cpu", "-f", "torchscript"], "--require ort-cpu needs onnx: here is only torchscript"),
        (
            ["--runtime", "torchscript-cpu", "-f", "onnx"],
            "--runtime torchscript-cpu needs torchscript: here is only onnx",
        ),
        (["rope", "-p", "short_factor=1,a"], "short_factor must be a list of float, got '1,a'"),
    ],
)
def test_bad_usage_is_one_line(cli: Cli, tmp_path: Path, args: list[str], text: str) -> None:
    write_config(tmp_path / "llama", {**LLAMA, "rope_theta": 1e4})
    write_config(tmp_path / "alibi", {"model_type": "mine", "alibi": True})
    write_config(tmp_path / "list", [])
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "config.json").write_text("{not json", encoding="utf-8")
    result = cli("export", *args)
    assert result.exit_code == 2, result.output
    assert text in " ".join(result.output.split())
    assert "Traceback" not in result.output
    assert not list(tmp_path.glob("*-baked*"))
