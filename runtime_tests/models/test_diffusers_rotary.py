"""Every rotary class of diffusers replaced: what the page's table says, a sample of it, whole models, and ONNX."""

import copy
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from helpers.hf.diffusers_rotary import answers, classes
from helpers.made_parts import part_of
from helpers.shared import EPS, one_of_each
from posenc_models import replace_rotary
from posenc_models.replacing.diffusion.columns import Stand
from scripts.rotary_survey import DIFFUSERS
from scripts.rotary_survey import PAGE as SURVEY

pytestmark = pytest.mark.filterwarnings("ignore")

PAGE = part_of(SURVEY, DIFFUSERS)
LEAST = 29
"""Rotary classes of diffusers that are replaced."""
ROW = re.compile(r"^\| (\w+\.\w+) \| (replaced|refused|cannot be built) \| (.*) \|$", re.MULTILINE)
ROWS = {name: (word, why) for name, word, why in ROW.findall(PAGE)}
SMALL = {"num_attention_heads": 2, "num_layers": 1}


def of_flux() -> tuple[Any, dict[str, Any]]:
    sizes = {**SMALL, "num_single_layers": 1, "in_channels": 4, "attention_head_dim": 16, "joint_attention_dim": 32}
    model = diffusers.FluxTransformer2DModel(**sizes, pooled_projection_dim=32, axes_dims_rope=(4, 4, 8))
    ids = torch.cat([torch.zeros(24, 1), torch.cartesian_prod(torch.arange(4.0), torch.arange(6.0))], 1)
    call = {"img_ids": ids, "txt_ids": torch.zeros(5, 3), "timestep": torch.tensor([0.5])}
    states = {"hidden_states": torch.randn(1, 24, 4), "encoder_hidden_states": torch.randn(1, 5, 32)}
    return model, {**call, **states, "pooled_projections": torch.randn(1, 32)}


def of_qwen() -> Any:
    sizes = {**SMALL, "in_channels": 16, "out_channels": 4, "attention_head_dim": 16, "joint_attention_dim": 16}
    return diffusers.QwenImageTransformer2DModel(**sizes, axes_dims_rope=(8, 4, 4))


def of_wan() -> tuple[Any, dict[str, Any]]:
    sizes = {**SMALL, "in_channels": 4, "out_channels": 4, "attention_head_dim": 12, "text_dim": 16, "ffn_dim": 32}
    model = diffusers.WanTransformer3DModel(**sizes, freq_dim=16)
    states = {"hidden_states": torch.randn(1, 4, 2, 16, 12), "encoder_hidden_states": torch.randn(1, 7, 16)}
    return model, {**states, "timestep": torch.tensor([3])}


def of_z_image() -> tuple[Any, dict[str, Any]]:
    sizes = {"dim": 32, "n_layers": 1, "n_refiner_layers": 1, "n_heads": 2, "n_kv_heads": 2, "in_channels": 4}
    model = diffusers.ZImageTransformer2DModel(**sizes, cap_feat_dim=16, axes_dims=[4, 4, 8], axes_lens=[128, 64, 64])
    return model, {"x": [torch.randn(4, 1, 8, 6)], "t": torch.tensor([0.5]), "cap_feats": [torch.randn(5, 16)]}


MODELS = {"flux": of_flux, "wan": of_wan, "z_image": of_z_image}


class Called(nn.Module):
    """A rotary module with a single input, as a model calls it."""

    def __init__(self, rotary: nn.Module) -> None:
        super().__init__()
        self.rotary = rotary

    def forward(self, x: Tensor) -> Any:
        return self.rotary(x)


def test_the_table_has_every_class() -> None:
    cells = re.search(r"^\| rotary module classes of diffusers \| (.*) \|$", PAGE, re.MULTILINE)
    assert cells is not None
    total, *counts = map(int, cells[1].split(" | "))
    words = [word for word, _ in ROWS.values()]
    assert counts == [words.count(word) for word in ("replaced", "refused", "cannot be built")]
    assert set(ROWS) == set(classes())
    assert len(ROWS) == total
    assert counts[0] >= LEAST
    assert f"diffusers {version('diffusers')}" in PAGE


SAMPLE = ["transformer_hunyuanimage.HunyuanImageRotaryPosEmbed", "transformer_anyflow_far.AnyFlowCausalRotaryPosEmbed"]


@pytest.mark.parametrize(
    "name",
    [*SAMPLE, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in sorted(set(classes()) - set(SAMPLE)))],
)
def test_a_class_is_what_the_table_says(name: str) -> None:
    word, why = next(answers([name]))[1:]
    # the last digits of float32 angles differ between machines
    assert (word, why.partition("; ")[0]) == (ROWS[name][0], ROWS[name][1].partition("; ")[0])


@pytest.mark.parametrize("name", MODELS)
def test_a_whole_model_gives_the_same(name: str) -> None:
    torch.manual_seed(0)
    model, call = MODELS[name]()
    before = model.eval()
    after = copy.deepcopy(before)
    assert replace_rotary(after)
    assert any(isinstance(module, Stand) for module in after.modules())
    with torch.no_grad():
        theirs, ours = (torch.stack(list(m(**call, return_dict=False)[0])) for m in (before, after))
    scale = float(theirs.abs().max())
    assert float((ours - theirs).abs().max()) <= 1e-5 * scale


def test_wrong_frequencies_would_be_seen() -> None:
    torch.manual_seed(0)
    before, call = of_flux()
    other = copy.deepcopy(before)
    other.pos_embed.theta = 100
    with torch.no_grad():
        theirs, off = (m.eval()(**call, return_dict=False)[0] for m in (before, other))
    assert float((off - theirs).abs().max()) > 1e-4 * float(theirs.abs().max())


def test_ids_of_any_kind_are_within_a_rounding_of_float64() -> None:
    model, _ = of_flux()
    replace_rotary(model)
    ids = torch.linspace(-90, 300, 150).view(50, 3)
    cos, sin = model.pos_embed(ids)
    dims = zip(ids.double().numpy().T, (4, 4, 8), strict=True)
    # the pairs of an axis of d features at theta^(-2k/d), every column twice
    angles = [np.multiply.outer(places, 1e4 ** (-np.arange(0, d, 2) / d)) for places, d in dims]
    expected = np.repeat(np.exp(1j * np.concatenate(angles, -1)), 2, -1)
    assert np.abs(cos.numpy() + 1j * sin.numpy() - expected).max() <= 1e-7


def test_a_module_that_is_called_otherwise_is_refused_in_a_line() -> None:
    model = of_qwen()
    rope = model.pos_embed
    with pytest.raises(
        ValueError, match=r"pos_embed \(QwenEmbedRope\) cannot be replaced: expected forward\(ids\)"
    ) as caught:
        replace_rotary(model)
    assert str(caught.value).endswith(
        "it has forward(video_fhw, device, max_txt_seq_len); keep it, or replace it by hand"
    )
    assert model.pos_embed is rope


def test_a_module_that_fails_when_it_is_asked_is_refused_in_a_line() -> None:
    model, _ = of_wan()
    model.rope.patch_size = (2, 2)  # images, of which a model of videos knows nothing
    with pytest.raises(
        ValueError, match=r"asked for cos and sin it raised ValueError: .*; replace it by hand"
    ) as caught:
        replace_rotary(model)
    assert "\n" not in str(caught.value)


def test_what_a_checkpoint_holds_is_refused() -> None:
    model, _ = of_flux()
    model.pos_embed.register_buffer("scale", torch.ones(3))
    with pytest.raises(ValueError, match="a checkpoint holds its scale, which ours have not; replace it by hand"):
        replace_rotary(model)


def test_frequencies_that_are_not_powers_are_refused() -> None:
    model, _ = of_wan()
    rope: Any = model.rope
    rope.freqs_cos, rope.freqs_sin = (torch.cos(rope.freqs_sin * 1.01), torch.sin(rope.freqs_sin * 1.01))
    with pytest.raises(ValueError, match=r"rope \(WanRotaryPosEmbed\) cannot be replaced: ") as caught:
        replace_rotary(model)
    assert "\n" not in str(caught.value)
    assert model.rope is rope


def test_a_module_that_is_off_at_far_places_alone_is_refused() -> None:
    model, _ = of_wan()
    rope: Any = model.rope
    rope.freqs_cos[900:] = 0.5
    with pytest.raises(ValueError, match=r"differ from the exact ones by .* at angles up to 1000"):
        replace_rotary(model)


def test_casting_a_model_keeps_the_angles() -> None:
    torch.manual_seed(0)
    model, call = of_wan()
    replace_rotary(model)
    rope: Any = model.rope
    expected = rope(call["hidden_states"])
    model.to(torch.bfloat16)
    assert all(torch.equal(a, b) for a, b in zip(rope(call["hidden_states"]), expected, strict=True))


ONNX = {
    "flux": ("pos_embed", torch.zeros(5, 3), {0: Dim("n")}, torch.linspace(-9, 300, 150).view(50, 3)),
    "wan": (
        "rope",
        torch.zeros(1, 4, 3, 8, 6),
        {2: Dim("f"), 3: 2 * Dim("h"), 4: 2 * Dim("w")},
        torch.zeros(1, 4, 5, 12, 14),
    ),
}


@pytest.mark.parametrize("name", one_of_each(ONNX, lambda _: ""))
def test_a_module_exports_to_onnx_at_any_size(name: str, tmp_path: Path) -> None:
    path, example, dynamic, x = ONNX[name]
    model, _ = MODELS[name]()
    expected = model.get_submodule(path)(x)
    replace_rotary(model)
    program = torch.onnx.export(
        Called(model.get_submodule(path)), (example,), dynamo=True, dynamic_shapes=[dynamic], verbose=False
    )
    assert program is not None
    program.save(tmp_path / "rotary.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "rotary.onnx")
    outputs = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    for output, value in zip(outputs, expected, strict=True):
        assert output.shape == value.shape
        assert np.abs(output - value.numpy()).max() <= EPS
