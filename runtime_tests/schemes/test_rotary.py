"""Rotation: the bits of transformers' own functions, right far out, and the invariants of each scheme."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig
from transformers.models.ernie4_5_vl_moe import modeling_ernie4_5_vl_moe
from transformers.models.gpt_neox import modeling_gpt_neox
from transformers.models.gptj import modeling_gptj
from transformers.models.hunyuan_vl import modeling_hunyuan_vl
from transformers.models.llama import modeling_llama
from transformers.models.nanochat import modeling_nanochat
from transformers.models.qwen2_vl import modeling_qwen2_vl
from transformers.models.qwen3_vl import modeling_qwen3_vl

import posenc
import posenc_export
from helpers.shared import DATA, EPS, EXPLICIT, Running
from posenc.rope_types import ROPE_TYPES
from posenc_models import read_config


@pytest.mark.parametrize("spec", [EXPLICIT, posenc.Spec("baked", positions="explicit", max_len=300)])
def test_features_of_a_pair_turn_apart_as_in_hunyuan_vl(spec: posenc.Spec) -> None:
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 6, 4, 4]}
    config: Any = AutoConfig.for_model("hunyuan_vl_text", num_attention_heads=4, head_dim=32, rope_parameters=rope)
    positions = torch.randint(0, 300, (4, 2, 11))
    parameters = read_config(config.to_dict()).parameters
    assert (parameters["sections"], parameters["section_layout"]) == ((2, 6, 4, 4), "features")
    ours = posenc.build("mrope", spec, **parameters, output="cos_sin", width="full").module(positions)
    theirs = modeling_hunyuan_vl.HunYuanVLRotaryEmbedding(config)(torch.zeros(1), positions)
    for one, reference in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, reference, rtol=0, atol=4 * EPS * 300)
    q, k = torch.randn(2, 4, 11, 32), torch.randn(2, 2, 11, 32)
    rotated = posenc.build("mrope", spec, **parameters).module(q, k, positions)
    for one, reference in zip(rotated, modeling_hunyuan_vl.apply_rotary_pos_emb(q, k, *ours), strict=True):
        assert torch.equal(one, reference)


@pytest.mark.parametrize("base", [1e4, 5e5, 1e6])
def test_cos_and_sin_to_two_to_the_24th(base: float) -> None:
    module = posenc.build("rope", posenc.Spec("dynamic"), head_dim=128, rope_theta=base, output="cos_sin").module
    rng = np.random.default_rng(0)
    positions = np.concatenate([rng.integers(0, 2**24, 60000), 2**24 - 1 - np.arange(5000), np.arange(5000)])
    cos, sin = module(torch.from_numpy(positions[None]))
    angle = positions[:, None] * base ** (-np.arange(0, 128, 2) / 128)
    assert np.abs(cos[0].numpy() - np.cos(angle)).max() <= 3e-7
    assert np.abs(sin[0].numpy() - np.sin(angle)).max() <= 3e-7


def test_a_baked_cache_of_131072_positions_is_64_mib_and_right_to_half_an_ulp() -> None:
    spec = posenc.Spec(max_len=131072)
    module = posenc.build("rope", spec, head_dim=128, output="cos_sin").module
    assert sum(b.nbytes for b in module.buffers()) == 131072 * 128 * 4
    positions = np.linspace(0, 131071, 4001).astype(np.int64)
    cos, sin = module(torch.from_numpy(positions[None]))
    angle = positions[:, None] * 1e4 ** (-np.arange(0, 128, 2) / 128)
    for ours, reference in ((cos[0].numpy(), np.cos(angle)), (sin[0].numpy(), np.sin(angle))):
        ulp = np.spacing(np.abs(reference).astype(np.float32)).astype(np.float64)
        assert (np.abs(ours - reference) / ulp).max() <= 0.5 + 1e-3


def rotated(spec: posenc.Spec, q: torch.Tensor, k: torch.Tensor, positions: torch.Tensor, **params: Any) -> Any:
    return posenc.build("rope", spec, **params).module(q, k, positions)


def test_rotation_is_apply_rotary_pos_emb_bit_for_bit() -> None:
    q, k = torch.randn(2, 4, 9, 64), torch.randn(2, 2, 9, 64)
    positions = torch.tensor([list(range(9)), [0, 0, 0, *range(6)]])
    cos, sin = posenc.build("rope", EXPLICIT, head_dim=64, output="cos_sin", width="full").module(positions)
    expected = modeling_llama.apply_rotary_pos_emb(q, k, cos, sin)
    for ours, reference in zip(rotated(EXPLICIT, q, k, positions, head_dim=64), expected, strict=True):
        assert torch.equal(ours, reference)


def test_partial_rotation_is_that_of_gpt_neox() -> None:
    q, k = torch.randn(2, 4, 9, 32), torch.randn(2, 4, 9, 32)
    positions = torch.arange(9)[None].expand(2, -1)
    params = {"head_dim": 32, "rotary_dim": 8}
    cos, sin = posenc.build("rope", EXPLICIT, **params, output="cos_sin", width="full").module(positions)
    expected = modeling_gpt_neox.apply_rotary_pos_emb(q, k, cos, sin)
    for ours, reference in zip(rotated(EXPLICIT, q, k, positions, **params), expected, strict=True):
        assert torch.equal(ours, reference)


def test_backward_rotation_is_that_of_nanochat() -> None:
    q, k = torch.randn(2, 4, 9, 32), torch.randn(2, 2, 9, 32)
    positions = torch.tensor([list(range(9)), [0, 0, 0, *range(6)]])
    params = {"head_dim": 32, "direction": "backward"}
    # the model's own rotation of what its module gives: cosines and sines are those of the angle itself
    cos, sin = posenc.build("rope", EXPLICIT, **params, output="cos_sin", width="full").module(positions)
    expected = modeling_nanochat.apply_rotary_pos_emb(q, k, cos, sin)
    for ours, reference in zip(rotated(EXPLICIT, q, k, positions, **params), expected, strict=True):
        assert torch.equal(ours, reference)
    forward = posenc.build("rope", EXPLICIT, head_dim=32, output="cos_sin", width="full").module(positions)
    assert all(torch.equal(a, b) for a, b in zip((cos, sin), forward, strict=True))


@pytest.mark.parametrize("mode", ["baked", "dynamic"])
@pytest.mark.parametrize("kind", ["linear", "dynamic", "longrope"])
@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_backward_undoes_forward(mode: Any, kind: str, layout: str) -> None:
    scaling = {"rope_type": kind, **ROPE_TYPES[kind].samples[0]}
    q, k = torch.randn(1, 2, 50, 16), torch.randn(1, 1, 50, 16)
    positions = torch.arange(50)[None]
    spec = posenc.Spec(mode, positions="explicit", max_len=50)
    parameters: dict[str, Any] = {"head_dim": 16, "layout": layout, **scaling}
    there_q, there_k = rotated(spec, q, k, positions, **parameters)
    back = rotated(spec, there_q, there_k, positions, **parameters, direction="backward")
    factor = float((back[0] * q).sum() / (q * q).sum())  # that of the cosines, twice
    for ours, x in zip(back, (q, k), strict=True):
        assert (ours - factor * x).abs().max() < 16 * EPS * factor * x.abs().max()


def test_interleaved_rotation_is_that_of_gpt_j() -> None:
    q, k = torch.randn(2, 9, 4, 64), torch.randn(2, 9, 4, 64)
    positions = torch.arange(9)[None].expand(2, -1)
    params = {"head_dim": 64, "layout": "interleaved", "tensor_layout": "bshd"}
    cos, sin = posenc.build("rope", EXPLICIT, **params, output="cos_sin").module(positions)
    for ours, x in zip(rotated(EXPLICIT, q, k, positions, **params), (q, k), strict=True):
        assert torch.equal(ours, modeling_gptj.apply_rotary_pos_emb(x, sin, cos))
    table = modeling_gptj.create_sinusoidal_positions(9, 64)
    np.testing.assert_allclose(torch.cat([sin, cos], -1)[0], table, rtol=0, atol=4 * EPS * 9)


@pytest.mark.parametrize("mode", ["baked", "dynamic"])
@pytest.mark.parametrize("scaling", [{}, {"rope_type": "dynamic", "factor": 2.0, "max_position_embeddings": 8}])
def test_cosines_and_sines_from_a_start_or_a_mask_are_those_of_the_positions(mode: Any, scaling: Any) -> None:
    def built(positions: Any) -> Any:
        spec = posenc.Spec(mode, positions=positions, max_len=40)
        module = posenc.build("rope", spec, head_dim=16, output="cos_sin", width="full", **scaling).module
        return lambda *inputs: [module(*inputs), torch.jit.script(module)(*inputs)]

    x, start = torch.zeros(2, 5, 3), torch.tensor([7])
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    for ours, positions in (
        (built("offset")(x, start), torch.arange(7, 12)[None]),
        (built("mask")(mask), torch.tensor([[0, 0, 0, 1, 2], [0, 1, 2, 3, 4]])),
    ):
        for cos_sin, expected in zip(ours, built("explicit")(positions), strict=True):
            assert all(torch.equal(a, b) for a, b in zip(cos_sin, expected, strict=True))


FORMATS = ("onnx", "torchscript", "pt2", "header", "header-c99")


@pytest.mark.exhaustive
@pytest.mark.parametrize("positions", ["offset", "mask"])
def test_cosines_and_sines_from_a_start_or_a_mask_in_every_format(
    tmp_path: Path, positions: Any, running: Running
) -> None:
    result = posenc_export.export("rope", to=tmp_path / "b", mode="dynamic", positions=positions, max_len=60,
                                  formats=FORMATS, head_dim=16, output="cos_sin")  # fmt: skip
    assert [(v.subject, v.check, v.detail) for v in result.verdicts if v.status == "fail"] == []
    agreeing = {v.subject for v in result.verdicts if v.check == "agrees" and v.status == "pass"}
    assert agreeing == running(FORMATS)
    assert result.manifest.family == "cos_sin"


@pytest.mark.parametrize("spec", [EXPLICIT, posenc.Spec("baked", positions="explicit", max_len=4000)])
@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_norms_are_kept_scores_depend_on_the_distance_and_position_0_is_the_identity(
    spec: posenc.Spec, layout: str
) -> None:
    q, k = torch.randn(1, 1, 1, 64), torch.randn(1, 1, 1, 64)

    def at(n: int, m: int) -> tuple[torch.Tensor, torch.Tensor]:
        module = posenc.build("rope", spec, head_dim=64, layout=layout).module
        return module(q, k, torch.tensor([[n]]))[0], module(q, k, torch.tensor([[m]]))[1]

    assert all(torch.equal(a, b) for a, b in zip(at(0, 0), (q, k), strict=True))
    largest = float(q.norm() * k.norm())
    for n, m in ((5, 3), (1000, 998), (3999, 3997)):
        q_at_n, k_at_m = at(n, m)
        assert abs(float(q_at_n.norm() / q.norm()) - 1) < 8 * EPS
        score, near = float((q_at_n * k_at_m).sum()), float((at(2, 0)[0] * at(2, 0)[1]).sum())
        assert abs(score - near) < 32 * EPS * largest  # 64 products of features that are each off by a few eps


@pytest.mark.parametrize("model", ["qwen2_vl", "qwen3_vl", "ernie4_5_vl_moe"])
@pytest.mark.parametrize("spec", [EXPLICIT, posenc.Spec("baked", positions="explicit", max_len=300)])
def test_mrope_is_that_of_each_model(model: str, spec: posenc.Spec) -> None:
    sections = {"qwen2_vl": (4, 6, 6), "qwen3_vl": (6, 5, 5), "ernie4_5_vl_moe": (4, 6, 6)}[model]
    # ERNIE's configs have time last
    written = [*sections[1:], sections[0]] if model == "ernie4_5_vl_moe" else list(sections)
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": written}
    config = AutoConfig.for_model(f"{model}_text", hidden_size=128, num_attention_heads=4, head_dim=32,
                                  rope_parameters=rope)  # fmt: skip
    module: Any = {
        "qwen2_vl": modeling_qwen2_vl.Qwen2VLRotaryEmbedding,
        "qwen3_vl": modeling_qwen3_vl.Qwen3VLTextRotaryEmbedding,
        "ernie4_5_vl_moe": modeling_ernie4_5_vl_moe.Ernie4_5_VLMoeTextRotaryEmbedding,
    }[model](config)
    positions = torch.randint(0, 300, (3, 2, 11))
    rotary = read_config(config.to_dict())
    assert rotary.scheme == "mrope"
    assert rotary.parameters["sections"] == sections
    ours = posenc.build("mrope", spec, **rotary.parameters, output="cos_sin", width="full").module(positions)
    for one, reference in zip(ours, module(torch.zeros(1), positions), strict=True):
        np.testing.assert_allclose(one, reference, rtol=0, atol=4 * EPS * 300)


def test_rope_2d_is_that_of_qwen2_vl_and_timm() -> None:
    places = torch.stack(torch.meshgrid(torch.arange(14), torch.arange(14), indexing="ij")).flatten(1)[:, None]
    spec = posenc.Spec("dynamic", positions="explicit")
    config = AutoConfig.for_model("qwen2_vl").vision_config
    head_dim = config.embed_dim // config.num_heads
    vision = modeling_qwen2_vl.Qwen2VLVisionRotaryEmbedding(config)
    cos, sin = posenc.build("rope_2d", spec, head_dim=head_dim, output="cos_sin", width="full").module(places)
    for one, reference in zip((cos, sin), vision(torch.zeros(1), places[:, 0].T), strict=True):
        np.testing.assert_allclose(one[0], reference, rtol=0, atol=4 * EPS * 14)
    parameters: Any = {"head_dim": 32, "layout": "interleaved", "output": "cos_sin", "width": "full"}
    cos, sin = posenc.build("rope_2d", spec, **parameters).module(places)
    golden = np.load(DATA / "timm_rope_cat_14x14.npy")  # RotaryEmbeddingCat(32, in_pixels=False): sin, then cos
    np.testing.assert_allclose(torch.cat([sin, cos], -1)[0], golden, rtol=0, atol=4 * EPS * 14)


def test_a_grid_is_its_places_one_by_one() -> None:
    q, k = torch.randn(2, 3, 4, 5, 16), torch.randn(2, 1, 4, 5, 16)
    places = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(5), indexing="ij")).flatten(1)
    for spec in (posenc.Spec("dynamic"), posenc.Spec(max_len=8)):
        grid = posenc.build("rope_2d", spec, head_dim=16).module(q, k)
        explicit = posenc.Spec(spec.mode, positions="explicit", max_len=8)
        by_places = posenc.build("rope_2d", explicit, head_dim=16).module(
            q.flatten(2, 3), k.flatten(2, 3), places[:, None].expand(-1, 2, -1)
        )
        for a, b in zip(grid, by_places, strict=True):
            assert torch.equal(a.flatten(2, 3), b)


def test_xpos_fades_with_the_distance_and_no_other_way() -> None:
    q, k = torch.randn(1, 1, 1, 32, dtype=torch.float64), torch.randn(1, 1, 1, 32, dtype=torch.float64)
    spec = posenc.Spec("dynamic", positions="offset", dtype="fp64")
    for center in (0, 300, "length"):
        module = posenc.build("xpos", spec, head_dim=32, center=center).module

        def score(n: int, m: int, module: Any = module) -> float:
            # Both ends in one call: the center of center=length is that of the call.
            rows = n - m + 1
            a, b = module(q.expand(1, 1, rows, 32), k.expand(1, 1, rows, 32), torch.tensor([m]))
            return float((a[0, 0, -1] * b[0, 0, 0]).sum())

        assert score(40, 10) == pytest.approx(score(1030, 1000), rel=1e-9)
        zeta, angle = (np.arange(0, 32, 2) / 32 + 0.4) / 1.4, 30 * 1e4 ** (-np.arange(0, 32, 2) / 32)
        z = (q[..., 0::2] + 1j * q[..., 1::2]).numpy() * np.exp(1j * angle) * zeta ** (30 / 512)
        w = (k[..., 0::2] + 1j * k[..., 1::2]).numpy()
        assert score(40, 10) == pytest.approx(float((z * w.conj()).real.sum()), rel=1e-9)
