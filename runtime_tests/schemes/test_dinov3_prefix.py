"""Cosines and sines of DINOv3's class and register tokens too: all tokens rotated at once, and those pass."""

from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
from torch import Tensor
from transformers import DINOv3ViTConfig, DINOv3ViTModel
from transformers.models.dinov3_vit import modeling_dinov3_vit as dinov3

import posenc
from helpers.combinations import run
from helpers.grids import DYNAMIC, SPECS, near
from posenc.encoding import Encoding
from posenc.parameters import Value
from posenc.spec import Spec, UnsupportedSpec

REGISTERS, PREFIX = 4, 5
SIZES: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}


def built(spec: Spec, prefix: int = PREFIX, **params: Any) -> Encoding:
    """Return the encoding of heads of 32."""
    return posenc.build("dinov3", spec, head_dim=32, output="cos_sin", prefix=prefix, **params)


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return all tokens rotated: (batch, heads, prefix + places, features), (1, prefix + places, features)."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


@SPECS
@pytest.mark.parametrize("sizes", [(6, 9), (1, 7)])
def test_all_tokens_are_rotated_at_once_as_the_model_rotates_patches(spec: Spec, sizes: tuple[int, int]) -> None:
    cos, sin = built(spec, width="full").module(torch.zeros(2, *sizes, 3))
    tokens = PREFIX + sizes[0] * sizes[1]
    q, k = torch.randn(2, 4, tokens, 32), torch.randn(2, 4, tokens, 32)
    config = DINOv3ViTConfig(hidden_size=128, num_attention_heads=4, patch_size=4)
    theirs = dinov3.DINOv3ViTRopePositionEmbedding(config).eval()(torch.zeros(1, 3, 4 * sizes[0], 4 * sizes[1]))
    rotate: Any = dinov3.apply_rotary_pos_emb
    for x, expected in zip((q, k), rotate(q, k, *theirs), strict=True):
        ours = rotated(x, cos, sin)
        assert torch.equal(ours[:, :, :PREFIX], x[:, :, :PREFIX]), "they pass, to the last bit"
        near(ours, expected, 8e-6)


def test_the_model_with_all_tokens_rotated_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = DINOv3ViTModel(DINOv3ViTConfig(**SIZES, patch_size=4, num_register_tokens=REGISTERS)).eval()
    module, pixels = built(DYNAMIC, width="full").module, torch.randn(2, 3, 20, 28)
    with torch.no_grad():
        expected = model(pixels).last_hidden_state
        assert expected.shape[1] == PREFIX + 5 * 7
        cos, sin = module(torch.zeros(1, 5, 7, 1))
        by_ours = lambda q, k, *_, **__: (rotated(q, cos, sin), rotated(k, cos, sin))  # noqa: E731
        monkeypatch.setattr(dinov3, "apply_rotary_pos_emb", by_ours)
        near(model(pixels).last_hidden_state, expected, 1e-5)
        by_none = lambda q, k, *_, **__: (q, k)  # noqa: E731
        monkeypatch.setattr(dinov3, "apply_rotary_pos_emb", by_none)
        assert (model(pixels).last_hidden_state - expected).abs().max() > 1e-3


@SPECS
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16", "fp64"])
@pytest.mark.parametrize("params", [{}, {"width": "full", "layout": "interleaved"}], ids=["half", "full"])
def test_behind_the_prefix_are_the_rows_of_the_grid(spec: Spec, dtype: Any, params: dict[str, Any]) -> None:
    spec = Spec(spec.mode, max_len=9, dtype=dtype)
    x = torch.zeros(2, 3, 4, 1, dtype=getattr(torch, spec.torch_dtype))
    plain = built(spec, prefix=0, **params).module(x)
    for rows, grid, constant in zip(built(spec, **params).module(x), plain, (1.0, 0.0), strict=True):
        assert rows.dtype == grid.dtype
        assert torch.equal(rows[:, PREFIX:], grid.flatten(1, 2))
        assert rows[:, :PREFIX].eq(constant).all()


@pytest.mark.exhaustive
@pytest.mark.parametrize(("mode", "dtype"), [("dynamic", "fp32"), ("baked", "fp32"), ("dynamic", "fp16")])
def test_files_agree_at_every_size(tmp_path: Path, mode: Any, dtype: Any) -> None:
    spec = Spec(mode, "exact", "implicit", 20, dtype)
    params: dict[str, Value] = {"head_dim": 16, "output": "cos_sin", "prefix": PREFIX}
    result = run("dinov3", spec, params, tmp_path, formats=("onnx",))
    assert [(v.subject, v.check, v.detail) for v in result.verdicts if v.status == "fail"] == []
    cases = [case for case in result.manifest.cases if not case.refused]
    assert all(case.eager_tolerance.bits for case in cases)
    assert {case.sizes["height"] > case.sizes["width"] for case in cases} == {True, False}
    assert str(result.manifest.outputs[0]).endswith("[1, 5+height*width, 8]")
    session = onnxruntime.InferenceSession(result.folder / "model.onnx")
    x = torch.zeros(1, 0, 3, 1, dtype=getattr(torch, spec.torch_dtype))
    cos, sin = session.run(None, {"x": x.numpy()})
    assert (cos.shape, cos.min(), sin.max()) == ((1, PREFIX, 8), 1, 0), "an image without patches has these tokens"


def test_what_a_prefix_does_not_go_with() -> None:
    with pytest.raises(UnsupportedSpec, match="prefix=5 takes output=cos_sin: q and k are grids of patches") as refusal:
        posenc.build("dinov3", DYNAMIC, prefix=5)
    assert "\n" not in str(refusal.value)
    with pytest.raises(ValueError, match="prefix must be at least 0, got -1"):
        built(DYNAMIC, prefix=-1)
