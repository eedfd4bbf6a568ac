"""A file of another exporter is held against what its config's model does in float32."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import posenc_export
from helpers.foreign_files import ROWS, Embedding, embedding_file
from helpers.shared import one_of_each
from posenc_export.proof.report.result import ValidateResult
from posenc_models import ModelConfig

SIZES = {"hidden_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512, "rope_theta": 10000.0}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 512,
    "rope_theta": 500000.0,
}
CONFIGS: dict[str, dict[str, object]] = {
    "llama": {"max_position_embeddings": 2048},
    "yarn": {"max_position_embeddings": 2048, "rope_parameters": YARN},
    "llama3": {"max_position_embeddings": 4096, "rope_parameters": LLAMA3},
}
WRONG = ("attention factor", "theta", "no scaling", "positions from 1", "neighbours", "keys stay")


def config_of(name: str) -> dict[str, object]:
    return {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **SIZES, **CONFIGS[name]}


class Rotated(nn.Module):
    """Queries and keys, rotated by the model's own module; `fault` is what is wrong with it."""

    def __init__(self, name: str, fault: str = "") -> None:
        super().__init__()
        from transformers import LlamaConfig
        from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

        config: dict[str, Any] = {**SIZES, **CONFIGS[name]}
        rotary: Any = LlamaRotaryEmbedding(LlamaConfig(**config))
        self.rotary, self.fault = rotary, fault
        if fault == "theta":
            rotary.inv_freq = rotary.inv_freq**1.02
        if fault == "no scaling":
            rotary.inv_freq = 1 / 10000.0 ** (torch.arange(0, 32, 2) / 32)
        if fault == "attention factor":
            rotary.attention_scaling *= 1.01

    def forward(self, q: Tensor, k: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        places = position_ids + 1 if self.fault == "positions from 1" else position_ids
        parts: tuple[Tensor, Tensor] = self.rotary(q, places)
        cos, sin = (part[:, None] for part in parts)

        def turned(x: Tensor) -> Tensor:
            if self.fault == "neighbours":
                return x * cos + torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2) * sin
            return x * cos + torch.cat([-x[..., 16:], x[..., :16]], -1) * sin

        return turned(q), k if self.fault == "keys stay" else turned(k)


@cache
def written(folder: Path, name: str, fault: str = "") -> Path:
    path = folder / f"{name}{WRONG.index(fault) if fault else ''}.onnx"
    batch, seq = torch.export.Dim("batch"), torch.export.Dim("seq", max=8192)
    torch.onnx.export(
        Rotated(name, fault),
        (torch.randn(2, 4, 5, 32), torch.randn(2, 2, 5, 32), torch.arange(10).view(2, 5)),
        path,
        dynamo=True,
        verbose=False,
        dynamic_shapes=({0: batch, 2: seq}, {0: batch, 2: seq}, {0: batch, 1: seq}),
        input_names=["q", "k", "position_ids"],
        output_names=["query", "key"],
    )
    return path


def proved(path: Path, name: str) -> ValidateResult:
    return posenc_export.prove(path, ModelConfig.of(config_of(name)), runtimes="ort-cpu")


@pytest.mark.parametrize("name", one_of_each(["yarn", "llama", "llama3"], lambda name: ""))
def test_a_right_file_is_certified(tmp_path: Path, name: str) -> None:
    result = proved(written(tmp_path, name), name)
    assert result.passed, str(result)
    assert result.manifest.model is not None, "the model was asked"
    assert any("angles as models compute them, in float32" in note for note in result.manifest.notes)
    assert any("names of the file: position_ids is positions" in note for note in result.manifest.notes)
    # a model has a number of heads, and PyTorch broadcasts one token over several positions, too
    said = str(result)
    assert "q with 5 of seq where the others have 1" in said
    assert "half-safe: converted to half precision it is off by" in said


@pytest.mark.parametrize("fault", one_of_each(WRONG, lambda fault: ""))
def test_a_wrong_file_is_refused(tmp_path: Path, fault: str) -> None:
    result = proved(written(tmp_path, "yarn", fault), "yarn")
    failed = {verdict.check for verdict in result.verdicts if verdict.status == "fail"}
    assert failed >= {"agrees"}, str(result)


def test_a_file_is_tried_up_to_its_own_end(tmp_path: Path) -> None:
    path = embedding_file(tmp_path / "theirs.onnx")
    inputs = ("ids: int64[batch, seq] < 16", "input_ids=ids")
    result = posenc_export.prove(path, Embedding, inputs=inputs, runtimes="ort-cpu")
    assert result.passed, str(result)
    assert any(f"ends at {ROWS} positions, and refuses more" in note for note in result.manifest.notes)
    assert max(case.sizes["seq"] for case in result.manifest.cases) == ROWS


OTHERS: dict[str, dict[str, object]] = {
    "mistral": {},
    "qwen2": {"rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}},
    "qwen3": {"head_dim": 32},
    "gemma": {"head_dim": 32},
    "gemma2": {"head_dim": 32},
    "granite": {},
    "olmo": {},
    "olmo2": {},
    "starcoder2": {},
    "cohere": {},
    "helium": {"head_dim": 32},
    "arcee": {"rope_parameters": YARN},
}
"""Models whose rotary module turns whole heads, with keys beside the usual ones."""


class OfModel(nn.Module):
    """Queries and keys, rotated by the module and the function of a model's own file."""

    def __init__(self, name: str) -> None:
        super().__init__()
        from importlib import import_module

        from transformers import AutoConfig

        file = import_module(f"transformers.models.{name}.modeling_{name}")
        config: dict[str, Any] = {**SIZES, "max_position_embeddings": 2048, **OTHERS[name]}
        self.config = AutoConfig.for_model(name, **config)
        kind = next(getattr(file, word) for word in dir(file) if word.lower() == f"{name}rotaryembedding")
        rotary: Any = kind(self.config)
        self.rotary, self.apply_rotary = rotary, file.apply_rotary_pos_emb

    def forward(self, q: Tensor, k: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = self.rotary(q, position_ids)
        turned: tuple[Tensor, Tensor] = self.apply_rotary(q, k, cos, sin)
        return turned


NEVER_RUN = ("cohere", "helium")
"""The TorchScript-based exporter writes repeat_interleave of these as a Reshape that fails at every call."""


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "dynamo"), [(n, d) for n in OTHERS for d in (True, False) if d or n not in NEVER_RUN])
def test_right_files_of_both_exporters_of_torch_are_certified(tmp_path: Path, name: str, dynamo: bool) -> None:
    module, path = OfModel(name).eval(), tmp_path / "model.onnx"
    inputs = (torch.randn(2, 4, 5, 32), torch.randn(2, 2, 5, 32), torch.arange(10).view(2, 5))
    names: dict[str, Any] = {"input_names": ["q", "k", "position_ids"], "output_names": ["query", "key"]}
    if dynamo:
        batch, seq = torch.export.Dim("batch"), torch.export.Dim("seq", max=8192)
        shapes = ({0: batch, 2: seq}, {0: batch, 2: seq}, {0: batch, 1: seq})
        torch.onnx.export(module, inputs, path, dynamo=True, verbose=False, dynamic_shapes=shapes, **names)
    else:
        axes = {name: {0: "batch", 2: "seq"} for name in ("q", "k", "query", "key")}
        axes["position_ids"] = {0: "batch", 1: "seq"}
        torch.onnx.export(module, inputs, path, dynamo=False, dynamic_axes=axes, opset_version=17, **names)
    module.config.save_pretrained(tmp_path)
    result = posenc_export.prove(path, ModelConfig.load(tmp_path), runtimes="ort-cpu")
    assert result.passed, str(result)
    assert result.manifest.model is not None, "the model was asked"
