"""The sines and cosines of DETR and its kin, against what they compute, and in float64; masks of images."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers.models.deformable_detr.modeling_deformable_detr import DeformableDetrSinePositionEmbedding
from transformers.models.detr.modeling_detr import DetrSinePositionEmbedding
from transformers.models.grounding_dino.modeling_grounding_dino import GroundingDinoSinePositionEmbedding

import posenc
from helpers.grids import CLOSE, DYNAMIC, OTHERS, SPECS, Parameters, near
from posenc.ports import Mask, Port
from posenc.sincos.series import SeriesSinCos
from posenc.spec import Spec
from posenc_export.bundle.case import Case
from posenc_export.proof.exporter import ExportOptions, export_target
from posenc_export.write.targets.feeds import feeds_for
from posenc_export.write.targets.scheme import scheme_target


@dataclass(frozen=True)
class Model:
    """What a model computes of a mask, in float64 where it can, and the parameters it has here."""

    call: Callable[[Tensor], Tensor]
    params: Parameters


def detr(kind: Any, normalize: bool = True) -> Callable[[Tensor], Tensor]:
    module = kind(12, 10000, normalize=normalize)
    return lambda mask: module((len(mask), 3, *mask.shape[1:]), "cpu", torch.float64, mask)


class Config:
    """What Grounding DINO's embedding reads of its config."""

    d_model = 24
    positional_embedding_temperature = 20


MODELS = {
    "detr": Model(detr(DetrSinePositionEmbedding), {}),
    "detr-counts": Model(detr(DetrSinePositionEmbedding, normalize=False), {"normalize": False}),
    "deformable-detr": Model(detr(DeformableDetrSinePositionEmbedding), {"shift": -0.5}),
    "grounding-dino": Model(
        lambda mask: GroundingDinoSinePositionEmbedding(Config)(torch.zeros(1), mask), {"temperature": 20.0}
    ),
}


def masks() -> Tensor:
    """Images of 9 x 13, 5 x 7 and 1 x 1, padded to one size, and one with a hole."""
    mask = torch.zeros(4, 9, 13, dtype=torch.int64)
    for i, (height, width) in enumerate([(9, 13), (5, 7), (1, 1), (9, 12)]):
        mask[i, :height, :width] = 1
    mask[3, 2:4, 3:5] = 0
    return mask


@SPECS
@pytest.mark.parametrize("name", MODELS)
def test_padded_images_of_a_model(spec: Spec, name: str) -> None:
    model, mask = MODELS[name], masks()
    ours = posenc.build("sine_2d", spec, dim=24, **model.params).module(mask)
    assert ours.shape == (4, 24, 9, 13)
    # Where a whole row or column is padding, Deformable DETR divides by 1e-6.
    valid = ((mask.sum(1, keepdim=True) > 0) & (mask.sum(2, keepdim=True) > 0)).unsqueeze(1).expand(ours.shape)
    near(ours[valid], model.call(mask)[valid], OTHERS if name == "grounding-dino" else CLOSE[spec.method])


@SPECS
@pytest.mark.parametrize("layout", ["bdhw", "bhwd"])
def test_a_whole_image_has_the_rows_of_a_full_mask(spec: Spec, layout: str) -> None:
    ones = torch.ones(1, 9, 13, dtype=torch.int64)
    for params in [model.params for model in MODELS.values()]:
        masked = posenc.build("sine_2d", spec, dim=24, tensor_layout=layout, **params).module(ones)
        of_shape = posenc.build("sine_2d", replace(spec, positions="implicit"), dim=24, tensor_layout=layout, **params)
        x = torch.zeros((2, 24, 9, 13) if layout == "bdhw" else (2, 9, 13, 24))
        assert torch.equal(of_shape.module(x), masked)


@pytest.mark.parametrize("name", MODELS)
def test_the_reference_is_the_formula_of_the_models(name: str) -> None:
    mask = masks()[:2, :5, :7]
    encoding = posenc.build("sine_2d", Spec("dynamic"), dim=24, **MODELS[name].params)
    expected = encoding.reference({"pixel_mask": mask.numpy()}, None)["y"]
    near(MODELS[name].call(mask).double(), expected, OTHERS if name == "grounding-dino" else 1e-12)


def test_order_and_scale() -> None:
    mask = masks()
    first, last = (
        posenc.build("sine_2d", DYNAMIC, dim=8, scale=1.0, order=order).module(mask)
        for order in ("row_first", "column_first")
    )
    assert torch.equal(first, torch.cat([last[:, 4:], last[:, :4]], 1))
    near(first[0, 0, 4], np.full(13, math.sin(5 / (9 + 1e-6))), 1e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_series_is_as_near_as_rounding(dtype: torch.dtype) -> None:
    circles = torch.cat([torch.linspace(-3, 20, 100_001, dtype=torch.float64), torch.arange(-1, 1.01, 1 / 1024)])
    cos, sin = SeriesSinCos(dtype)(circles)
    angles = circles.to(torch.float64) * (2 * math.pi)
    allowed = torch.finfo(dtype).eps / 4 + 3e-14
    assert (cos - angles.cos()).abs().max() <= allowed
    assert (sin - angles.sin()).abs().max() <= allowed


def grid_mask(*sizes: int) -> Port:
    (port,) = posenc.build("sine_2d", DYNAMIC, dim=8).inputs
    assert isinstance(port.carries, Mask)
    return port


def test_masks_of_a_grid_are_rectangles() -> None:
    port = grid_mask()
    for padding, corner in (("right", (0, 0)), ("left", (4, 5))):
        case = Case("masks", {"batch": 3, "height": 5, "width": 6}, padding=padding)  # type: ignore[arg-type]
        mask = feeds_for((port,), case, 0)["pixel_mask"]
        assert [one.sum() for one in mask] == [30, 20, 12]
        assert mask[2][corner] == 1
        assert mask[2].sum(0).max() == 3
        assert mask[2].sum(1).max() == 4
    whole = feeds_for((port,), Case("masks", {"batch": 3, "height": 5, "width": 1}, padding="none"), 0)
    assert whole["pixel_mask"].all()
    narrow = feeds_for((port,), Case("masks", {"batch": 3, "height": 5, "width": 1}, padding="right"), 0)
    assert narrow["pixel_mask"].sum((1, 2)).tolist() == [5, 4, 3]


@pytest.mark.parametrize("mode", [pytest.param("dynamic", marks=pytest.mark.exhaustive), "baked"])
def test_padded_images_in_onnx_runtime(tmp_path: Path, mode: Any) -> None:
    options = ExportOptions(formats=("onnx",))
    result = export_target(lambda: scheme_target("sine_2d", Spec(mode, max_len=40), {"dim": 8}, 0), options, tmp_path)
    assert [(v.subject, v.check, v.detail) for v in result.verdicts if v.status == "fail"] == []
    assert {case.padding for case in result.manifest.cases} == {"left", "right", "none", "holes"}
    cases = [case for case in result.manifest.cases if not case.refused]
    assert all(case.eager_tolerance.bits and case.tolerance.atol < 5e-8 for case in cases)
    assert sum(case.refused for case in result.manifest.cases) == (1 if mode == "baked" else 0)
