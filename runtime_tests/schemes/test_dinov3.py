"""DINOv3's rotation of patches: transformers' and timm's numbers, Meta's periods, sizes, and what is refused."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor
from transformers import DINOv3ViTConfig
from transformers.models.dinov3_vit import modeling_dinov3_vit as dinov3

import posenc
from helpers.combinations import run
from helpers.grids import BAKED, CLOSE, DYNAMIC, SPECS, near
from helpers.shared import DATA
from posenc.spec import Spec, UnsupportedSpec
from posenc_export.common.errors import BadInput

SIZES = [(6, 9), (14, 14), (1, 7)]
FLOAT32 = 1e-6
"""How near to float64 coordinates of float32 are, as transformers and timm compute them."""


def cos_sin(spec: Spec, sizes: tuple[int, int], **params: Any) -> tuple[Tensor, Tensor]:
    """Return cosines and sines of a grid: (height * width, ...) each."""
    encoding = posenc.build("dinov3", spec, output="cos_sin", **params)
    cos, sin = encoding.module(torch.zeros(2, *sizes, 3))
    assert cos.shape[:3] == (1, *sizes)
    return cos.flatten(0, 2), sin.flatten(0, 2)


def of_transformers(height: int, width: int) -> tuple[Tensor, Tensor]:
    """Return what the model computes of an image of patches of 4 x 4, with heads of 32."""
    config = DINOv3ViTConfig(hidden_size=128, num_attention_heads=4, patch_size=4)
    module = dinov3.DINOv3ViTRopePositionEmbedding(config).eval()
    cos, sin = module(torch.zeros(1, 3, 4 * height, 4 * width))
    return cos, sin


@SPECS
@pytest.mark.parametrize("sizes", SIZES)
def test_cosines_and_sines_of_transformers(spec: Spec, sizes: tuple[int, int]) -> None:
    ours = cos_sin(spec, sizes, head_dim=32, width="full")
    for actual, expected in zip(ours, of_transformers(*sizes), strict=True):
        near(actual, expected, FLOAT32)


@SPECS
def test_cosines_and_sines_of_timm(spec: Spec) -> None:
    golden = np.load(DATA / "timm_rope_dinov3_6x9.npy")  # RotaryEmbeddingDinoV3(32): sin, then cos
    cos, sin = cos_sin(spec, (6, 9), head_dim=32, width="full")
    near(torch.cat([sin, cos], -1), golden, FLOAT32)


@SPECS
def test_rotation_is_that_of_the_model(spec: Spec) -> None:
    q, k = torch.randn(2, 4, 6, 9, 32), torch.randn(2, 4, 6, 9, 32)
    ours = posenc.build("dinov3", spec, head_dim=32).module(q, k)
    prefix = torch.randn(2, 4, 5, 32)  # the class and four registers, which pass
    tokens = [torch.cat([prefix, x.flatten(2, 3)], 2) for x in (q, k)]
    rotate: Any = dinov3.apply_rotary_pos_emb
    for actual, expected in zip(ours, rotate(*tokens, *of_transformers(6, 9)), strict=True):
        assert torch.equal(expected[:, :, :5], prefix)
        near(actual.flatten(2, 3), expected[:, :, 5:], 8 * FLOAT32)


@SPECS
@pytest.mark.parametrize("params", [{}, {"rope_theta": 30.0}, {"min_period": 0.5, "max_period": 90.0}], ids=len)
def test_angles_of_float64(spec: Spec, params: dict[str, float]) -> None:
    quarter, height, width = 8, 5, 83
    if "min_period" in params:
        # As Meta's code has it: up to the ratio by equal factors, then down to the shortest.
        ratio = 90.0 / 0.5
        period = ratio ** np.linspace(0, 1, quarter) / ratio * 90.0
    else:
        period = params.get("rope_theta", 100.0) ** (2 * np.arange(quarter) / (2 * quarter))
    places = [((np.arange(n) + 0.5) / n * 2 - 1)[:, None] / period * 2 * math.pi for n in (height, width)]
    angles = np.concatenate([np.repeat(places[0], width, 0), np.tile(places[1], (height, 1))], 1)
    cos, sin = cos_sin(spec, (height, width), head_dim=4 * quarter, **params)
    near(cos, np.cos(angles), CLOSE[spec.method])
    near(sin, np.sin(angles), CLOSE[spec.method])


def test_a_single_pair_of_an_axis_has_the_shortest_period() -> None:
    encoding = posenc.build("dinov3", DYNAMIC, head_dim=4, min_period=0.7, max_period=5.0, output="cos_sin")
    x = torch.zeros(1, 2, 3, 1)
    expected = math.cos(2 * math.pi * -0.5 / 0.7)
    for cos in (encoding.module(x)[0].numpy(), encoding.reference({"x": x.numpy()}, None)["cos"]):
        assert cos[0, 0, 0, 0] == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_layouts_are_orders_of_the_same_numbers(layout: str) -> None:
    q = torch.randn(2, 3, 4, 5, 16)
    expected, _ = posenc.build("dinov3", DYNAMIC, head_dim=16).module(q, q)
    pairs = torch.arange(16).view(2, 8)
    order = pairs.T.flatten() if layout == "interleaved" else pairs.flatten()
    x = q[..., order].movedim(1, 3)
    for spec in (DYNAMIC, BAKED):
        params = {"layout": layout, "tensor_layout": "bshd"}
        actual, _ = posenc.build("dinov3", spec, head_dim=16, **params).module(x, x)
        near(actual, expected[..., order].movedim(1, 3), 1e-6)


def test_a_single_row_is_not_rotated_by_it() -> None:
    q = torch.randn(1, 1, 1, 1, 16)
    for spec in (DYNAMIC, BAKED):
        assert torch.equal(posenc.build("dinov3", spec, head_dim=16).module(q, q)[0], q)


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", ["dynamic", "baked"])
def test_files_agree_at_every_size_and_refuse_larger_ones(tmp_path: Path, mode: Any) -> None:
    result = run("dinov3", Spec(mode, "exact", "implicit", 40), {"head_dim": 16}, tmp_path, formats=("onnx",))
    assert [(v.subject, v.check, v.detail) for v in result.verdicts if v.status == "fail"] == []
    cases = [case for case in result.manifest.cases if not case.refused]
    assert all(case.eager_tolerance.bits for case in cases)
    assert {case.sizes["height"] > case.sizes["width"] for case in cases} == {True, False}
    # What a computed file refuses are keys of another grid.
    refused = [case for case in result.manifest.cases if case.refused]
    assert any(max(case.sizes["height"], case.sizes["width"]) > 40 for case in refused) == (mode == "baked")


@pytest.mark.parametrize("spec", [DYNAMIC, pytest.param(BAKED, marks=pytest.mark.exhaustive)], ids=["dynamic", "baked"])
def test_of_no_places_nothing_is_rotated(spec: Spec, tmp_path: Path) -> None:
    module = posenc.build("dinov3", spec, head_dim=8).module
    folder = run("dinov3", spec, {"head_dim": 8}, tmp_path, formats=("onnx",), validate=False).folder
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    for height, width in ((0, 3), (3, 0), (0, 0)):
        x = torch.zeros(2, 3, height, width, 8)
        outputs = [*module(x, x), *torch.jit.script(module)(x, x), *session.run(None, {"q": x.numpy(), "k": x.numpy()})]
        assert {tuple(y.shape) for y in outputs} == {tuple(x.shape)}


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"head_dim": 18}, "head_dim must be a multiple of 4, at least 4, got 18"),
        ({"rope_theta": 1.0}, "rope_theta must be a finite number above 1, got 1.0"),
        (
            {"min_period": 0.5},
            "give either rope_theta, or both min_period and max_period, got rope_theta=None, min_per",
        ),
        ({"rope_theta": 9.0, "min_period": 0.5, "max_period": 2.0}, "give either rope_theta, or both min_period"),
        ({"min_period": 0.0, "max_period": 2.0}, "min_period must be at least 1e-06, .*: got 0.0 and 2.0"),
        ({"min_period": 3.0, "max_period": 2.0}, "and max_period finite and at least that: got 3.0 and 2.0"),
        ({"min_period": 3.0, "max_period": math.inf}, "max_period finite and at least that: got 3.0 and inf"),
    ],
)
def test_what_is_refused(params: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text) as refusal:
        posenc.build("dinov3", DYNAMIC, **params)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("spec", [DYNAMIC, BAKED], ids=["dynamic", "baked"])
def test_a_header_has_no_table_of_it(spec: Spec, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="dinov3 cannot be exported to header: its angles change with the size of the g"):
        run("dinov3", spec, {"head_dim": 8}, tmp_path, formats=("header",))


def test_sizes_and_positions_that_it_does_not_take() -> None:
    for positions in ("offset", "explicit", "mask"):
        with pytest.raises(UnsupportedSpec, match=f"dinov3 has no {positions} form: .*--positions implicit"):
            posenc.build("dinov3", Spec("dynamic", positions=positions))
    q = torch.zeros(1, 1, 2, 10, 8)
    with pytest.raises(ValueError, match="length 10 is beyond the 9 positions"):
        posenc.build("dinov3", Spec(max_len=9), head_dim=8).module(q, q)
    with pytest.raises(ValueError, match=r"a table of every place of every size up to 9000 takes .*: give --max-len"):
        posenc.build("dinov3", Spec(max_len=9000))
