"""Rotation by the axes of a grid in models: the numbers of the modules of diffusers and transformers."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import posenc
from helpers.grids import CLOSE, SPECS, near
from posenc.spec import Spec

embeddings: Any = pytest.importorskip("diffusers.models.embeddings")
transformers: Any = pytest.importorskip("transformers")
SIZES = (3, 6, 5)
FLOAT32 = 2e-6
"""How near to float64 angles of float32 are, up to 30."""


def grid(sizes: tuple[int, ...]) -> Tensor:
    """Return the places of a grid, row by row: (axes, places)."""
    return torch.from_numpy(np.indices(sizes).reshape(len(sizes), -1))


def cos_sin(spec: Spec, places: Tensor, **params: Any) -> tuple[Tensor, Tensor]:
    """Return cosines and sines of places (axes, places), a column a feature: (places, features) each."""
    explicit = Spec(spec.mode, spec.method, "explicit", 90)
    encoding = posenc.build("rope_nd", explicit, output="cos_sin", width="full", **params)
    cos, sin = encoding.module(places[:, None])
    return cos[0], sin[0]


@SPECS
def test_flux(spec: Spec) -> None:
    from diffusers.models.transformers.transformer_flux import FluxPosEmbed

    places = torch.cat([torch.zeros(1, 30, dtype=torch.int64), grid((6, 5))])
    expected = FluxPosEmbed(10000, [16, 56, 56])(places.T)
    for actual, theirs in zip(cos_sin(spec, places, head_dim=128), expected, strict=True):
        near(actual, theirs, CLOSE[spec.method])


@SPECS
def test_flux_rotates_alike(spec: Spec) -> None:
    from diffusers.models.transformers.transformer_flux import FluxPosEmbed

    q = torch.randn(2, 4, *SIZES, 128)
    tables = FluxPosEmbed(10000, [16, 56, 56])(grid(SIZES).T)
    expected = embeddings.apply_rotary_emb(q.flatten(2, 4), tables)
    near(posenc.build("rope_nd", spec).module(q, q)[0].flatten(2, 4), expected, 3e-6)


@SPECS
def test_flux_2_has_four_axes(spec: Spec) -> None:
    from diffusers.models.transformers.transformer_flux2 import Flux2PosEmbed

    places = grid((2, 3, 4, 5))
    expected = Flux2PosEmbed(2000, [32, 32, 32, 32])(places.T)
    params = {"head_dim": 128, "axes_dim": (32, 32, 32, 32), "rope_theta": (2000.0,)}
    for actual, theirs in zip(cos_sin(spec, places, **params), expected, strict=True):
        near(actual, theirs, CLOSE[spec.method])


@SPECS
def test_wan(spec: Spec) -> None:
    from diffusers.models.transformers.transformer_wan import WanRotaryPosEmbed

    frames, height, width = SIZES
    module = WanRotaryPosEmbed(128, (1, 2, 2), 64)
    expected = module(torch.zeros(1, 16, frames, 2 * height, 2 * width))  # (1, places, 1, features)
    ours = cos_sin(spec, grid(SIZES), head_dim=128, axes_dim=(44, 42, 42))
    for actual, theirs in zip(ours, expected, strict=True):
        near(actual, theirs.flatten(0, 2), CLOSE[spec.method])


@SPECS
def test_hunyuan_video(spec: Spec) -> None:
    from diffusers.models.transformers.transformer_hunyuan_video import HunyuanVideoRotaryPosEmbed

    frames, height, width = SIZES
    module = HunyuanVideoRotaryPosEmbed(2, 1, [16, 56, 56], 256.0)
    expected = module(torch.zeros(1, 16, frames, 2 * height, 2 * width))
    ours = cos_sin(spec, grid(SIZES), head_dim=128, rope_theta=(256.0,))
    for actual, theirs in zip(ours, expected, strict=True):
        near(actual, theirs, FLOAT32)


def tower(module: type[nn.Module], config: Any, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Return what a tower's module of angles gives: (places, features) each."""
    made: Any = module(config)
    cos, sin = made(torch.zeros(1, 1, 1), positions)
    return cos.reshape(-1, cos.shape[-1]), sin.reshape(-1, sin.shape[-1])


@SPECS
def test_pixtral(spec: Spec) -> None:
    from transformers.models.pixtral.modeling_pixtral import PixtralVisionRotaryEmbedding

    config = transformers.PixtralVisionConfig(hidden_size=128, num_attention_heads=4)
    expected = tower(PixtralVisionRotaryEmbedding, config, grid((7, 5)).T)
    params = {"head_dim": 32, "axes_dim": (16, 16), "frequencies": "alternate", "layout": "halves"}
    for actual, theirs in zip(cos_sin(spec, grid((7, 5)), **params), expected, strict=True):
        near(actual, theirs, FLOAT32)


@SPECS
def test_kimi_takes_columns_before_rows(spec: Spec) -> None:
    from transformers.models.kimi_k25.modeling_kimi_k25 import Kimi_K25VisionRotaryEmbedding

    config = transformers.Kimi_K25VisionConfig(hidden_size=128, num_attention_heads=4)
    expected = tower(Kimi_K25VisionRotaryEmbedding, config, grid((7, 5)).T)
    params = {"axes_dim": (16, 16), "order": "by_turns", "axis_order": (1, 0), "layout": "halves"}
    for actual, theirs in zip(cos_sin(spec, grid((7, 5)), head_dim=32, **params), expected, strict=True):
        near(actual, theirs, FLOAT32)


@SPECS
@pytest.mark.parametrize("sizes", [(2, 6, 5), (1, 7, 8), (3, 1, 2)])
def test_qwen_image_counts_rows_and_columns_from_the_center(spec: Spec, sizes: tuple[int, ...]) -> None:
    from diffusers.models.transformers.transformer_qwenimage import QwenEmbedRope

    module = QwenEmbedRope(10000, [16, 56, 56], scale_rope=True)
    expected, _ = module(sizes, torch.device("cpu"), 1)  # (places, pairs), complex
    encoding = posenc.build("rope_nd", spec, output="cos_sin", centered=(1, 2))
    cos, sin = encoding.module(torch.zeros(2, *sizes, 3))
    assert cos.shape == (1, *sizes, 64)
    for actual, theirs in ((cos, expected.real), (sin, expected.imag)):
        near(actual.flatten(0, 3), theirs, FLOAT32)


@SPECS
def test_a_grid_of_wan_as_large_as_x(spec: Spec) -> None:
    from diffusers.models.transformers.transformer_wan import WanRotaryPosEmbed

    frames, height, width = SIZES
    expected = WanRotaryPosEmbed(128, (1, 2, 2), 64)(torch.zeros(1, 16, frames, 2 * height, 2 * width))
    encoding = posenc.build("rope_nd", spec, axes_dim=(44, 42, 42), output="cos_sin", width="full")
    for actual, theirs in zip(encoding.module(torch.zeros(1, *SIZES, 8)), expected, strict=True):
        near(actual.flatten(0, 3), theirs.flatten(0, 2), CLOSE[spec.method])


@SPECS
def test_gemma_4_has_a_part_of_the_head_for_each_axis(spec: Spec) -> None:
    from transformers.models.gemma4 import modeling_gemma4 as gemma

    config = transformers.Gemma4VisionConfig(hidden_size=128, num_attention_heads=4, head_dim=32)
    rotary: Any = gemma.Gemma4VisionRotaryEmbedding
    expected = rotary(config)(torch.zeros(1, 1, 1), grid((7, 5)).T[None])  # (1, places, features)
    params: dict[str, Any] = {"head_dim": 32, "axes_dim": (16, 16), "rope_theta": (100.0,), "layout": "axis_halves"}
    for actual, theirs in zip(cos_sin(spec, grid((7, 5)), **params), expected, strict=True):
        near(actual, theirs[0], FLOAT32)
    q = torch.randn(1, 35, 4, 32)
    rotate: Any = gemma.apply_multidimensional_rope
    rotated = rotate(q, *expected, grid((7, 5)).T[None])
    ours = posenc.build("rope_nd", spec, tensor_layout="bshd", **params).module(*[q.unflatten(1, (7, 5))] * 2)[0]
    near(ours.flatten(1, 2), rotated, 4 * FLOAT32)


@SPECS
def test_ltx_counts_in_fractions_of_a_base_size(spec: Spec) -> None:
    from diffusers.models.transformers.transformer_ltx import LTXVideoRotaryPosEmbed

    sizes, base = (3, 6, 5), (20, 64, 48)
    module: Any = LTXVideoRotaryPosEmbed(48, *base)
    expected = module(torch.zeros(1, 90, 48), *sizes, (1.0, 1.0, 1.0))  # (1, places, features)
    params: dict[str, Any] = {"head_dim": 48, "axes_dim": (16, 16, 16), "frequencies": "rising", "order": "by_turns"}
    places = {"first": (-1.0,), "scale": tuple(2 / size for size in base)}
    for actual, theirs in zip(cos_sin(spec, grid(sizes), **params, **places), expected, strict=True):
        near(actual, theirs, 4e-3)  # their angles are float32, up to 15708


@pytest.mark.parametrize("mode", ["baked", "dynamic"])
def test_rising_frequencies_of_timm_and_ltx_are_those_of_float64(mode: Any) -> None:
    size, top, pairs = 14, 224.0, 8
    spec = Spec(mode, "exact", "explicit", 90)
    params: dict[str, Any] = {"head_dim": 32, "axes_dim": (16, 16), "frequencies": "rising", "rope_theta": (top / 2,)}
    encoding = posenc.build("rope_nd", spec, output="cos_sin", first=(-2.0,), scale=(4 / (size - 1),), **params)
    cos, sin = encoding.module(grid((size, size))[:, None])
    bands = math.pi * 2 ** np.linspace(0, math.log2(top) - 1, pairs)
    places = np.linspace(-1, 1, size)[:, None] * bands
    angles = np.concatenate([np.repeat(places, size, 0), np.tile(places, (size, 1))], 1)
    near(cos[0], np.cos(angles), 3e-7)
    near(sin[0], np.sin(angles), 3e-7)
