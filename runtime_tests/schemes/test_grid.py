"""Sines and cosines of grids, against what MAE, timm, diffusers, DETR and its kin compute, and in float64."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from diffusers.models.embeddings import PatchEmbed, get_2d_sincos_pos_embed, get_3d_sincos_pos_embed
from torch import Tensor
from transformers import ViTMAEConfig, ViTMAEModel
from transformers.models.rt_detr.modeling_rt_detr import RTDetrSinePositionEmbedding

import posenc
from helpers.grids import CLOSE, DYNAMIC, OTHERS, SPECS, near
from helpers.shared import ROOT
from posenc.ports import Array
from posenc.spec import Spec, UnsupportedSpec


def rows(name: str, spec: Spec, *sizes: int, **params: Any) -> Tensor:
    """The rows of a grid alone: (*sizes, dim)."""
    module = posenc.build(name, spec, output="rows", **params).module
    y: Tensor = module(torch.zeros(2, *sizes, params["dim"]))
    assert y.shape == (1, *sizes, params["dim"])
    return y[0]


# ---- sincos_2d -------------------------------------------------------------------------------------------------------


@SPECS
@pytest.mark.parametrize("layout", ["sines_first", "halves"])
@pytest.mark.parametrize("reverse", [False, True])
def test_the_values_of_timm(spec: Spec, layout: str, reverse: bool) -> None:
    golden = np.load(ROOT / "runtime_tests" / "data" / "timm_sincos2d.npz")
    expected = golden[f"sincos2d_5x7_{int(layout == 'halves')}{int(reverse)}"]
    sizes = (7, 5) if reverse else (5, 7)
    near(rows("sincos_2d", spec, *sizes, dim=32, layout=layout, order="row_first"), expected, CLOSE["trig"])


@SPECS
def test_the_table_of_mae(spec: Spec) -> None:
    config = ViTMAEConfig(
        hidden_size=24, image_size=28, patch_size=4, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    embeddings = ViTMAEModel(config).embeddings
    for made in (embeddings.patch_embeddings.projection, embeddings.position_embeddings):
        vars(made)["_is_hf_initialized"] = False  # zeros have come since
    embeddings.initialize_weights()
    expected = embeddings.position_embeddings[0, 1:]
    near(rows("sincos_2d", spec, 7, 7, dim=24), expected, CLOSE["trig"])
    near(rows("sincos_2d", spec, 7, 7, dim=24), get_2d_sincos_pos_embed(24, 7, base_size=7), OTHERS)


@SPECS
def test_the_encoder_of_rt_detr(spec: Spec) -> None:
    expected = RTDetrSinePositionEmbedding(24, 10000)(
        width=9, height=6, device=torch.device("cpu"), dtype=torch.float32
    )
    near(rows("sincos_2d", spec, 6, 9, dim=24, order="row_first"), expected, CLOSE[spec.method])


@SPECS
@pytest.mark.parametrize("sizes", [(16, 16), (15, 16), (7, 30), (90, 1), (90, 90)])
def test_the_crop_of_sd3(spec: Spec, sizes: tuple[int, int]) -> None:
    theirs = PatchEmbed(64, 64, 2, 3, 24, interpolation_scale=1.5, pos_embed_max_size=90)
    assert theirs.base_size == 32
    expected = theirs.cropped_pos_embed(2 * sizes[0], 2 * sizes[1])
    params = {"crop": 90, "base_size": 32, "interpolation_scale": 1.5}
    near(rows("sincos_2d", spec, *sizes, dim=24, **params), expected, OTHERS)


@SPECS
@pytest.mark.parametrize("sizes", [(32, 32), (5, 9), (1, 40)])
def test_coordinates_by_the_size_of_each_call(spec: Spec, sizes: tuple[int, int]) -> None:
    theirs = PatchEmbed(64, 64, 2, 3, 24, interpolation_scale=2.0)
    expected = get_2d_sincos_pos_embed(24, sizes, base_size=theirs.base_size, interpolation_scale=2.0)
    params = {"base_size": 32, "interpolation_scale": 2.0}
    near(rows("sincos_2d", spec, *sizes, dim=24, **params), expected, OTHERS)


def test_the_spacing_of_vit() -> None:
    y, x = np.indices((5, 8)).reshape(2, -1, 1)
    omega = 1.0 / (10000.0 ** (np.arange(6) / 5))
    expected = np.concatenate([np.sin(x * omega), np.cos(x * omega), np.sin(y * omega), np.cos(y * omega)], -1)
    near(rows("sincos_2d", DYNAMIC, 5, 8, dim=24, spacing="half"), expected, CLOSE["exact"])


def test_each_order_and_layout_by_hand() -> None:
    s, c, one, zero = math.sin(2.0), math.cos(2.0), 1.0, 0.0
    expected = {
        ("halves", "row_first"): [zero, zero, one, one, s, s / 1, c, c],
        ("interleaved", "row_first"): [zero, one, zero, one, s, c, s, c],
        ("sines_first", "row_first"): [zero, zero, s, s, one, one, c, c],
        ("halves", "column_first"): [s, s, c, c, zero, zero, one, one],
        ("sines_first", "column_first"): [s, s, zero, zero, c, c, one, one],
    }
    for (layout, order), values in expected.items():
        place = rows("sincos_2d", DYNAMIC, 1, 3, dim=8, base=1 + 1e-12, layout=layout, order=order)[0, 2]
        near(place, np.array(values), CLOSE["exact"])


# ---- sincos_3d -------------------------------------------------------------------------------------------------------


@SPECS
def test_the_video_of_cogvideox(spec: Spec) -> None:
    expected = get_3d_sincos_pos_embed(48, (9, 6), 4, 1.875, 1.5)
    params = {"spatial_interpolation_scale": 1.875, "temporal_interpolation_scale": 1.5}
    near(rows("sincos_3d", spec, 4, 6, 9, dim=48, **params), expected, OTHERS)


def test_the_video_of_v_jepa() -> None:
    """By its formula: half of the features of the frame, then the row, then the column."""

    def axis(at: Array, width: int) -> Array:
        angle = at.reshape(-1, 1) / 10000.0 ** (np.arange(width // 2) / (width / 2))
        return np.concatenate([np.sin(angle), np.cos(angle)], 1)

    frame, row, column = np.indices((3, 4, 5))
    expected = np.concatenate([axis(frame, 16), axis(row, 8), axis(column, 8)], 1)
    near(rows("sincos_3d", DYNAMIC, 3, 4, 5, dim=32, temporal=16, order="row_first"), expected, CLOSE["exact"])


# ---- refused ---------------------------------------------------------------------------------------------------------

NAMES = ("sincos_2d", "sincos_3d", "sine_2d")


@pytest.mark.parametrize(
    ("name", "params", "text"),
    [
        ("sincos_2d", {"dim": 6}, "dim must be a multiple of 4, at least 4, got 6"),
        ("sincos_2d", {"dim": 4, "spacing": "half"}, "dim must be a multiple of 4, at least 8, got 4"),
        ("sincos_2d", {"base": 1.0}, "base must be a finite number above 1, got 1.0"),
        ("sincos_2d", {"crop": 0}, "crop must be at least 1, got 0"),
        ("sincos_2d", {"base_size": 0}, "base_size must be at least 1, got 0"),
        ("sincos_2d", {"interpolation_scale": 0.0}, "interpolation_scale must be a finite number above 0, got 0.0"),
        ("sincos_2d", {"order": "h"}, "order must be row_first or column_first, got 'h'"),
        ("sincos_2d", {"base_size": 16}, "a table of every place of every size up to 2048 takes .*: give --max-len"),
        ("sincos_3d", {"dim": 0}, "dim must be at least 8, got 0"),
        ("sincos_3d", {"dim": 12}, "temporal must be even, and the rest of dim a multiple of 4.*: got 3 of 12"),
        ("sincos_3d", {"dim": 16, "temporal": 16}, "got 16 of 16"),
        ("sincos_3d", {"base": math.inf}, "base must be a finite number above 1, got inf"),
        ("sincos_3d", {"temporal_interpolation_scale": -1.0}, "temporal_interpolation_scale must be a finite number"),
        ("sincos_3d", {"spatial_interpolation_scale": math.nan}, "spatial_interpolation_scale must be a finite number"),
        ("sine_2d", {"dim": 2}, "dim must be a multiple of 4, at least 4, got 2"),
        ("sine_2d", {"temperature": 0.5}, "temperature must be a finite number above 1, got 0.5"),
        ("sine_2d", {"scale": 0.0}, "scale must be a finite number above 0, got 0.0"),
        ("sine_2d", {"shift": 2.0}, "shift must be within one place, from -1 to 1, got 2.0"),
    ],
)
def test_what_is_refused(name: str, params: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text) as refusal:
        posenc.build(name, **params)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", NAMES)
def test_grids_have_no_positions_that_are_given(name: str) -> None:
    for positions in ("offset", "explicit"):
        with pytest.raises(UnsupportedSpec, match=f"{name} has no {positions} form: .*--positions implicit"):
            posenc.build(name, Spec("dynamic", positions=positions))
    with pytest.raises(ValueError, match="position_offset must be 0: valid places are counted from 1, got 2"):
        posenc.build("sine_2d", Spec("dynamic", positions="mask", position_offset=2))


def test_a_larger_grid_than_there_is_is_refused() -> None:
    for params in ({"crop": 9}, {"crop": 9, "base_size": 4}):
        module = posenc.build("sincos_2d", DYNAMIC, dim=8, **params).module
        with pytest.raises(ValueError, match="length 10 is beyond the 9 positions"):
            module(torch.zeros(1, 10, 2, 8))
    with pytest.raises(IndexError):
        posenc.build("sine_2d", Spec(max_len=9), dim=8).module(torch.ones(1, 10, 2, dtype=torch.int64))
