"""What configs of diffusers are read as, against the models' own modules."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from helpers.hf.reading import read, values_of
from helpers.shared import EPS, Cli, one_of_each
from posenc_export.proof.exporter import ExportOptions, export_target
from posenc_export.proof.exporter.settings import spec_for, split
from posenc_export.proof.judging.verdict import ValidateOptions
from posenc_export.write.targets import Target
from posenc_export.write.targets.hf_config import config_target
from posenc_models import ModelConfig, read_config
from posenc_models.config.encodings.diffusion import DIFFUSION

diffusers = pytest.importorskip("diffusers")
STEPS = torch.tensor([0.0, 1.0, 0.5, 7.0, 15.0])
HEIGHT, WIDTH, FRAMES = 5, 3, 2
NEAR = 24
"""Roundings of angles of float32: of a step up to 15, or of a place, times a frequency that has some itself."""


@dataclass(frozen=True)
class Model:
    """A class of diffusers in small, one of its encodings, and what the model's own module gives for that."""

    name: str
    part: str
    own: Callable[[Any], Tensor]
    call: Callable[[nn.Module], Tensor]
    sizes: dict[str, Any] = field(default_factory=dict)

    def made(self) -> Any:
        return getattr(diffusers, self.name)(**self.sizes).eval()


def of_steps(path: str) -> Callable[[Any], Tensor]:
    """What a model's projection of steps gives."""

    def own(model: Any) -> Tensor:
        values: Tensor = model.get_submodule(path)(STEPS)
        return values

    return own


def embedded(module: nn.Module) -> Tensor:
    values: Tensor = module(STEPS)
    return values


def steps(name: str, path: str, sizes: dict[str, Any], part: str = "timestep") -> Model:
    return Model(name, part, of_steps(path), embedded, sizes)


def on_grid(width: int) -> Callable[[nn.Module], Tensor]:
    """What a module adds to patches of an image, line by line."""

    def call(module: nn.Module) -> Tensor:
        values: Tensor = module(torch.zeros(1, HEIGHT, WIDTH, width))
        return values.flatten(1, 2)

    return call


def cropped(model: Any) -> Tensor:
    patch = model.pos_embed.patch_size
    values: Tensor = model.pos_embed.cropped_pos_embed(HEIGHT * patch, WIDTH * patch)
    return values


def of_size(model: Any) -> Tensor:
    """What a model adds to an image of nothing, of another size than it was made for."""
    nn.init.zeros_(model.pos_embed.proj.bias)
    values: Tensor = model.pos_embed(torch.zeros(1, 4, HEIGHT * 2, WIDTH * 2))
    return values


def of_video(model: Any) -> Tensor:
    patch = model.patch_embed
    frames = (FRAMES - 1) * patch.temporal_compression_ratio + 1
    values: Tensor = patch._get_positional_embeddings(HEIGHT * 2, WIDTH * 2, frames)
    return values[:, patch.max_text_seq_length :].float()


def on_video(module: nn.Module) -> Tensor:
    values: Tensor = module(torch.zeros(1, FRAMES, HEIGHT, WIDTH, 32))
    return values.flatten(1, 3)


BLOCKS = {"block_out_channels": (16, 32), "norm_num_groups": 4}
DOWN, UP = ("DownBlock2D", "DownBlock2D"), ("UpBlock2D", "UpBlock2D")
UNET = {**BLOCKS, "down_block_types": DOWN, "up_block_types": UP}
CONDITIONED = {**UNET, "cross_attention_dim": 8, "attention_head_dim": 4, "sample_size": 8}
SDXL = {**CONDITIONED, "addition_embed_type": "text_time", "addition_time_embed_dim": 12}
SDXL |= {"projection_class_embeddings_input_dim": 32}
SMALL = {"num_layers": 1, "num_attention_heads": 2, "attention_head_dim": 16, "in_channels": 4, "sample_size": 16}
SD3 = {**SMALL, "joint_attention_dim": 8, "caption_projection_dim": 32, "pooled_projection_dim": 8}
SD3 |= {"pos_embed_max_size": 12, "out_channels": 4}
PIXART = {**SMALL, "cross_attention_dim": 32, "caption_channels": 8, "norm_num_groups": 2}
DIT = {**SMALL, "norm_num_groups": 2, "num_embeds_ada_norm": 10}
VIDEO = {**SMALL, "sample_width": 8, "sample_height": 8, "text_embed_dim": 8, "time_embed_dim": 8}
del VIDEO["sample_size"]

MODELS = [
    steps("UNet2DModel", "time_proj", {**UNET, "flip_sin_to_cos": False, "freq_shift": 1, "attention_head_dim": 4}),
    steps("UNet2DConditionModel", "time_proj", CONDITIONED),
    steps("UNet2DConditionModel", "time_proj", SDXL),
    steps("UNet2DConditionModel", "add_time_proj", SDXL, "addition"),
    steps("SD3Transformer2DModel", "time_text_embed.time_proj", SD3),
    Model("SD3Transformer2DModel", "patches", cropped, on_grid(32), SD3),
    steps("PixArtTransformer2DModel", "adaln_single.emb.time_proj", PIXART),
    Model("PixArtTransformer2DModel", "patches", of_size, on_grid(32), PIXART),
    Model("PixArtTransformer2DModel", "patches", of_size, on_grid(32), {**PIXART, "interpolation_scale": 2}),
    steps("DiTTransformer2DModel", "transformer_blocks.0.norm1.emb.time_proj", DIT),
    Model("DiTTransformer2DModel", "patches", of_size, on_grid(32), DIT),
    steps("CogVideoXTransformer3DModel", "time_proj", VIDEO),
    Model("CogVideoXTransformer3DModel", "patches", of_video, on_video, VIDEO),
]
PARAMS = [pytest.param(model, id=f"{model.name}-{model.part}") for model in MODELS]


def target_of(model: Model, folder: Path) -> Target:
    """What is read from its folder."""
    config = ModelConfig.load(folder, part=model.part)
    settings = split({"mode": "dynamic"}, None, ExportOptions(), config)
    return config_target(config, spec_for(settings, config, {}), {}, 0)


@pytest.mark.parametrize("model", one_of_each(PARAMS, lambda param: param.values[0].own.__qualname__))
def test_values_are_those_of_the_model_s_own_module(model: Model, tmp_path: Path) -> None:
    own = model.made()
    own.save_config(tmp_path)
    target = target_of(model, tmp_path)
    with torch.no_grad():
        expected, values = model.own(own), model.call(target.encoding.module.eval())
    assert values.shape == expected.shape
    torch.testing.assert_close(values, expected, atol=NEAR * EPS, rtol=0)


@pytest.mark.exhaustive
@pytest.mark.parametrize("model", PARAMS)
def test_exported_they_pass(model: Model, tmp_path: Path) -> None:
    model.made().save_config(tmp_path)
    target = target_of(model, tmp_path)
    options = ExportOptions(formats=("onnx",), validation=ValidateOptions(runtimes=("ort-cpu",)))
    result = export_target(lambda: target, options, tmp_path / "bundle")
    assert result.passed, [verdict for verdict in result.verdicts if verdict.status == "fail"]


@pytest.mark.parametrize("name", DIFFUSION)
def test_what_an_absent_key_means_is_what_diffusers_takes(name: str) -> None:
    parameters = inspect.signature(getattr(diffusers, name).__init__).parameters
    defaults = {key: p.default for key, p in parameters.items() if p.default is not p.empty}
    whole = {"_class_name": name, **json.loads(json.dumps(defaults))}
    assert values_of(whole) == values_of({"_class_name": name})


def test_what_a_class_has() -> None:
    sdxl = {"_class_name": "UNet2DConditionModel", "addition_embed_type": "text_time", "addition_time_embed_dim": 256}
    assert read({"_class_name": "UNet2DConditionModel"})["dim"] == 320
    assert read(sdxl, "addition")["dim"] == 256
    with pytest.raises(ValueError, match=r"_class_name 'UNet2DCond.* has several encodings: choose one of timestep"):
        read(sdxl)
    with pytest.raises(ValueError, match=r"no encoding of positions: time_embedding_type is 'fourier'"):
        read({"_class_name": "UNet2DModel", "time_embedding_type": "fourier"})


@pytest.mark.exhaustive
def test_from_the_command_line(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"_class_name": "FluxTransformer2DModel"}')
    result = cli("export", "--from-hf", ".", "-f", "onnx", "--runtime", "ort-cpu", "--max-len", "16")
    assert result.exit_code == 0, result.output
    assert "dim 256 (_class_name FluxTransformer2DModel)" in " ".join(result.output.split())


def test_rotary_parts_are_named() -> None:
    flux = read_config({"_class_name": "FluxTransformer2DModel"})
    assert flux.scheme == "timestep"
    assert flux.origin["not used"].startswith("rotary: its rotary pairs go by the frame")
    rotary = {"_class_name": "CogVideoXTransformer3DModel", "use_rotary_positional_embeddings": True}
    assert "not used" in read_config(rotary).origin
    assert "not used" not in read_config({"_class_name": "CogVideoXTransformer3DModel"}, part="timestep").origin
    with pytest.raises(ValueError, match=r"'Flux2Transformer2DModel'\) cannot be read: its rotary pairs go by"):
        read_config({"_class_name": "Flux2Transformer2DModel"})


@pytest.mark.parametrize("name", DIFFUSION)
def test_classes_are_those_of_diffusers(name: str) -> None:
    assert inspect.isclass(getattr(diffusers, name))
