"""Every rope type against transformers' own modules and float64, baked and dynamic, in both formats."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from transformers import AutoConfig
from transformers.models.gpt_neox import modeling_gpt_neox
from transformers.models.gptj import modeling_gptj
from transformers.models.llama import modeling_llama
from transformers.models.phi3 import modeling_phi3
from transformers.models.qwen2 import modeling_qwen2
from transformers.models.qwen2_vl import modeling_qwen2_vl
from transformers.models.qwen3_vl import modeling_qwen3_vl

import posenc
from conftest import DATA
from posenc.hf import ModelConfig, load_config, read_config
from posenc.rope_types import ROPE_TYPES, Rope
from posenc_export.bundle.folder import Bundle
from posenc_export.exporter import Order, export, write
from posenc_export.runtimes import RUNTIMES
from posenc_export.targets.module import from_config, resolve
from posenc_export.validation.checks import Context
from posenc_export.validation.run import Options, on_runtime, validate

EPS = 2.0**-23
MAX_LEN = 96
MODULES = {
    "llama": modeling_llama.LlamaRotaryEmbedding,
    "qwen2": modeling_qwen2.Qwen2RotaryEmbedding,
    "gpt_neox": modeling_gpt_neox.GPTNeoXRotaryEmbedding,
    "phi3": modeling_phi3.Phi3RotaryEmbedding,
}


def llama(head_dim: int, **rope: Any) -> dict[str, Any]:
    heads = {"hidden_size": 4 * head_dim, "num_attention_heads": 4, "head_dim": head_dim}
    return {"model_type": "llama", **heads, "max_position_embeddings": 128, **rope}


def scaled(head_dim: int, rope_theta: float, rope_type: str, **scaling: Any) -> dict[str, Any]:
    return llama(head_dim, rope_theta=rope_theta, rope_scaling={"rope_type": rope_type, **scaling})


def longrope(pairs: int, **rest: Any) -> dict[str, Any]:
    short, long = [1 + 0.01 * i for i in range(pairs)], [1 + 0.3 * i**1.5 for i in range(pairs)]
    given = {"short_factor": short, "long_factor": long, "original_max_position_embeddings": 40, **rest}
    return scaled(2 * pairs, 10000.0, "longrope", **given)


def published(name: str, **changed: Any) -> dict[str, Any]:
    return {**load_config(DATA / "configs" / f"{name}.json"), **changed}


NEW = {"rope_type": "linear", "factor": 2.5, "rope_theta": 5e5}
CONFIGS: list[Any] = [
    ("default", llama(64, rope_theta=500000.0)),
    ("default", llama(32, rope_theta=1000000.0, rope_scaling=None)),
    ("default", published("gpt-neox-20b")),
    ("linear", published("llama-linear")),
    ("linear", llama(64, rope_theta=10000.0, rope_scaling={"type": "linear", "factor": 4})),
    ("linear", llama(16, rope_parameters=NEW)),
    ("dynamic", published("llama-dynamic-ntk", max_position_embeddings=40)),
    ("dynamic", scaled(64, 5e5, "dynamic", factor=4.0) | {"max_position_embeddings": 64}),
    ("dynamic", scaled(16, 1e4, "dynamic", factor=8) | {"max_position_embeddings": 20}),
    ("yarn", published("qwen2.5-7b-yarn")),
    ("yarn", scaled(64, 150000.0, "yarn", factor=8.0, original_max_position_embeddings=16)),
    ("yarn", scaled(32, 1e4, "yarn", factor=32.0, truncate=False, beta_fast=8.0, beta_slow=2.0)),
    ("yarn", scaled(32, 1e4, "yarn", factor=40.0, mscale=0.707, mscale_all_dim=1.0)),
    ("yarn", scaled(32, 1e4, "yarn", factor=4.0, attention_factor=1.25, beta_fast=1.0, beta_slow=1.0)),
    ("yarn", scaled(32, 1e4, "yarn", factor=4.0, truncate=False, beta_fast=2.0, beta_slow=2.0)),
    ("longrope", published("longrope-small", original_max_position_embeddings=40)),
    ("longrope", longrope(16)),
    ("longrope", longrope(8, factor=4.0, attention_factor=1.5)),
    ("llama3", published("llama-3.1-8b")),
    ("llama3", scaled(64, 5e5, "llama3", factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0)),
    ("llama3", scaled(16, 1e4, "llama3", factor=2.0, low_freq_factor=0.5, high_freq_factor=9.0)),
    ("proportional", scaled(64, 1e6, "proportional", partial_rotary_factor=0.25)),
    ("proportional", scaled(32, 1e4, "proportional", factor=8.0)),
    ("proportional", scaled(16, 1e5, "proportional", factor=2.0, partial_rotary_factor=0.5)),
]


NTK = {"rope_type": "dynamic", "factor": 2.0, "max_position_embeddings": 4096}
LONG = {"rope_type": "longrope", "factor": 2.0, "original_max_position_embeddings": 4096}
LONG |= {"short_factor": (1.0,) * 8, "long_factor": (1.0, 1.1, 1.3, 1.5, 2.0, 2.0, 3.0, 4.0)}


def theirs(config: dict[str, Any], positions: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Run a fresh module of transformers: its dynamic types remember earlier calls."""
    made = AutoConfig.for_model(**json.loads(json.dumps(config)))
    module = MODULES[config["model_type"]](made)
    cos, sin = module(torch.zeros(1), positions)
    return cos.numpy(), sin.numpy()


def test_each_rope_type_has_three_configurations() -> None:
    names = [name for name, _ in CONFIGS]
    assert set(names) == set(ROPE_TYPES)
    assert min(map(names.count, set(names))) >= 3


@pytest.mark.parametrize("mode", ["baked", "dynamic"])
@pytest.mark.parametrize(("name", "config"), CONFIGS, ids=[f"{n}-{i}" for i, (n, _) in enumerate(CONFIGS)])
def test_graphs_match_transformers(tmp_path: Path, name: str, config: dict[str, Any], mode: Any) -> None:
    form = posenc.Form(mode, "exact", "explicit", MAX_LEN)
    source = ModelConfig.of(config, path=tmp_path / "config.json")
    given = ("output=cos_sin", "width=full")
    outcome = export(lambda: from_config(source, form, given, 0), Order(validate=False), tmp_path / "bundle")
    verdicts = validate(Bundle.open(outcome.folder), Options())
    assert [(v.subject, v.check, v.detail) for v in verdicts if v.status == "fail"] == []
    manifest = outcome.manifest
    assert manifest.params["rope_type"] == name
    assert manifest.origin["rope_type"]
    lengths = (MAX_LEN,) if mode == "baked" else (7, 40, 41, MAX_LEN)
    for runtime, file in (("ort-cpu", "model.onnx"), ("torchscript-cpu", "model.pt")):
        runner = RUNTIMES[runtime].open(outcome.folder / file, manifest.inputs, manifest.outputs)
        for length in lengths:
            positions = np.arange(length)[None]
            ours = runner.run({"positions": positions})
            factor = max(1.0, float(np.abs(ours["cos"]).max()))
            for key, reference in zip(("cos", "sin"), theirs(config, torch.from_numpy(positions)), strict=True):
                # What float32 costs the module of transformers: its angles, and the rounding of the product.
                allowed = (4 * EPS * length + EPS) * factor
                np.testing.assert_allclose(ours[key], reference, rtol=0, atol=allowed, err_msg=f"{runtime} {length}")


@pytest.mark.parametrize("base", [1e4, 5e5, 1e6])
def test_cos_and_sin_to_two_to_the_24th(base: float) -> None:
    module = posenc.build("rope", posenc.Form("dynamic"), head_dim=128, rope_theta=base, output="cos_sin").module
    rng = np.random.default_rng(0)
    positions = np.concatenate([rng.integers(0, 2**24, 60000), 2**24 - 1 - np.arange(5000), np.arange(5000)])
    cos, sin = module(torch.from_numpy(positions[None]))
    angle = positions[:, None] * base ** (-np.arange(0, 128, 2) / 128)
    assert np.abs(cos[0].numpy() - np.cos(angle)).max() <= 3e-7
    assert np.abs(sin[0].numpy() - np.sin(angle)).max() <= 3e-7


def test_a_baked_cache_of_131072_positions_is_64_mib_and_right_to_half_an_ulp() -> None:
    form = posenc.Form(max_len=131072)
    module = posenc.build("rope", form, head_dim=128, output="cos_sin").module
    assert sum(b.nbytes for b in module.buffers()) == 131072 * 128 * 4
    positions = np.linspace(0, 131071, 4001).astype(np.int64)
    cos, sin = module(torch.from_numpy(positions[None]))
    angle = positions[:, None] * 1e4 ** (-np.arange(0, 128, 2) / 128)
    for ours, truth in ((cos[0].numpy(), np.cos(angle)), (sin[0].numpy(), np.sin(angle))):
        ulp = np.spacing(np.abs(truth).astype(np.float32)).astype(np.float64)
        assert (np.abs(ours - truth) / ulp).max() <= 0.5 + 1e-3


def rotated(form: posenc.Form, q: torch.Tensor, k: torch.Tensor, positions: torch.Tensor, **params: Any) -> Any:
    return posenc.build("rope", form, **params).module(q, k, positions)


EXPLICIT = posenc.Form("dynamic", "exact", "explicit")


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


def test_interleaved_rotation_is_that_of_gpt_j() -> None:
    q, k = torch.randn(2, 9, 4, 64), torch.randn(2, 9, 4, 64)
    positions = torch.arange(9)[None].expand(2, -1)
    params = {"head_dim": 64, "layout": "interleaved", "tensor_layout": "bshd"}
    cos, sin = posenc.build("rope", EXPLICIT, **params, output="cos_sin").module(positions)
    for ours, x in zip(rotated(EXPLICIT, q, k, positions, **params), (q, k), strict=True):
        assert torch.equal(ours, modeling_gptj.apply_rotary_pos_emb(x, sin, cos))
    table = modeling_gptj.create_sinusoidal_positions(9, 64)
    np.testing.assert_allclose(torch.cat([sin, cos], -1)[0], table, rtol=0, atol=4 * EPS * 9)


@pytest.mark.parametrize("form", [EXPLICIT, posenc.Form("baked", positions="explicit", max_len=4000)])
@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_norms_are_kept_scores_depend_on_the_distance_and_position_0_is_the_identity(
    form: posenc.Form, layout: str
) -> None:
    q, k = torch.randn(1, 1, 1, 64), torch.randn(1, 1, 1, 64)

    def at(n: int, m: int) -> tuple[torch.Tensor, torch.Tensor]:
        module = posenc.build("rope", form, head_dim=64, layout=layout).module
        return module(q, k, torch.tensor([[n]]))[0], module(q, k, torch.tensor([[m]]))[1]

    assert all(torch.equal(a, b) for a, b in zip(at(0, 0), (q, k), strict=True))
    largest = float(q.norm() * k.norm())
    for n, m in ((5, 3), (1000, 998), (3999, 3997)):
        turned_q, turned_k = at(n, m)
        assert abs(float(turned_q.norm() / q.norm()) - 1) < 8 * EPS
        score, near = float((turned_q * turned_k).sum()), float((at(2, 0)[0] * at(2, 0)[1]).sum())
        assert abs(score - near) < 32 * EPS * largest  # 64 products of features that are each off by a few eps


@pytest.mark.parametrize("model", ["qwen2_vl", "qwen3_vl"])
@pytest.mark.parametrize("form", [EXPLICIT, posenc.Form("baked", positions="explicit", max_len=300)])
def test_mrope_is_that_of_qwen_vl(model: str, form: posenc.Form) -> None:
    sections = (4, 6, 6) if model == "qwen2_vl" else (6, 5, 5)
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": list(sections)}
    config = AutoConfig.for_model(f"{model}_text", hidden_size=128, num_attention_heads=4, head_dim=32,
                                  rope_parameters=rope)  # fmt: skip
    module: Any = {
        "qwen2_vl": modeling_qwen2_vl.Qwen2VLRotaryEmbedding,
        "qwen3_vl": modeling_qwen3_vl.Qwen3VLTextRotaryEmbedding,
    }[model](config)
    positions = torch.randint(0, 300, (3, 2, 11))
    read = read_config(config.to_dict())
    assert read.scheme == "mrope"
    assert read.parameters["sections"] == sections
    ours = posenc.build("mrope", form, **read.parameters, output="cos_sin", width="full").module(positions)
    for one, reference in zip(ours, module(torch.zeros(1), positions), strict=True):
        np.testing.assert_allclose(one, reference, rtol=0, atol=4 * EPS * 300)


def test_rope_2d_is_that_of_qwen2_vl_and_timm() -> None:
    places = torch.stack(torch.meshgrid(torch.arange(14), torch.arange(14), indexing="ij")).flatten(1)[:, None]
    form = posenc.Form("dynamic", positions="explicit")
    config = AutoConfig.for_model("qwen2_vl").vision_config
    head_dim = config.embed_dim // config.num_heads
    vision = modeling_qwen2_vl.Qwen2VLVisionRotaryEmbedding(config)
    cos, sin = posenc.build("rope_2d", form, head_dim=head_dim, output="cos_sin", width="full").module(places)
    for one, reference in zip((cos, sin), vision(torch.zeros(1), places[:, 0].T), strict=True):
        np.testing.assert_allclose(one[0], reference, rtol=0, atol=4 * EPS * 14)
    cos, sin = posenc.build(
        "rope_2d", form, head_dim=32, layout="interleaved", output="cos_sin", width="full"
    ).module(places)  # fmt: skip
    golden = np.load(DATA / "timm_rope_cat_14x14.npy")  # RotaryEmbeddingCat(32, in_pixels=False): sin, then cos
    np.testing.assert_allclose(torch.cat([sin, cos], -1)[0], golden, rtol=0, atol=4 * EPS * 14)


def test_a_grid_is_its_places_told_one_by_one() -> None:
    q, k = torch.randn(2, 3, 4, 5, 16), torch.randn(2, 1, 4, 5, 16)
    places = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(5), indexing="ij")).flatten(1)
    for form in (posenc.Form("dynamic"), posenc.Form(max_len=8)):
        grid = posenc.build("rope_2d", form, head_dim=16).module(q, k)
        explicit = posenc.Form(form.mode, positions="explicit", max_len=8)
        told = posenc.build("rope_2d", explicit, head_dim=16).module(
            q.flatten(2, 3), k.flatten(2, 3), places[:, None].expand(-1, 2, -1)
        )
        for a, b in zip(grid, told, strict=True):
            assert torch.equal(a.flatten(2, 3), b)


def test_xpos_fades_with_the_distance_and_no_other_way() -> None:
    q, k = torch.randn(1, 1, 1, 32, dtype=torch.float64), torch.randn(1, 1, 1, 32, dtype=torch.float64)
    for center in (0, 300, "length"):
        module = posenc.build("xpos", posenc.Form("dynamic", positions="offset", dtype="fp64"), head_dim=32,
                              center=center).module  # fmt: skip

        def score(n: int, m: int, module: Any = module) -> float:
            # Both ends in one call: the center of center=length is that of the call.
            rows = n - m + 1
            a, b = module(q.expand(1, 1, rows, 32), k.expand(1, 1, rows, 32), torch.tensor([m]))
            return float((a[0, 0, -1] * b[0, 0, 0]).sum())

        assert score(40, 10) == pytest.approx(score(1030, 1000), rel=1e-9)
        zeta = (np.arange(0, 32, 2) / 32 + 0.4) / 1.4
        angle = 30 * 1e4 ** (-np.arange(0, 32, 2) / 32)
        z = (q[..., 0::2] + 1j * q[..., 1::2]).numpy() * np.exp(1j * angle) * zeta ** (30 / 512)
        w = (k[..., 0::2] + 1j * k[..., 1::2]).numpy()
        assert score(40, 10) == pytest.approx(float((z * w.conj()).real.sum()), rel=1e-9)


def test_dynamic_ntk_has_no_memory_and_longrope_switches() -> None:
    ntk = posenc.build("rope", EXPLICIT, head_dim=16, rope_type="dynamic", factor=2.0, max_position_embeddings=40,
                       output="cos_sin").module  # fmt: skip
    short = torch.arange(40)[None]
    before = ntk(short)[0]
    ntk(torch.arange(200)[None])
    assert torch.equal(ntk(short)[0], before)
    factors = {"short_factor": (1.0,) * 8, "long_factor": (2.0,) * 8, "original_max_position_embeddings": 40}
    both = posenc.build("rope", EXPLICIT, head_dim=16, rope_type="longrope", factor=1.0, **factors,
                        output="cos_sin").module  # fmt: skip
    assert not torch.equal(both(torch.arange(41)[None])[0][:, :40], both(short)[0])
    for max_len, divisor in ((40, 1.0), (41, 2.0)):
        baked = posenc.build("rope", posenc.Form(max_len=max_len), head_dim=16, rope_type="longrope", factor=1.0,
                             **factors, output="cos_sin").module  # fmt: skip
        assert float(baked(torch.tensor([[1]]))[0][0, 0, 0]) == pytest.approx(math.cos(1 / divisor), abs=1e-6)


@pytest.mark.parametrize(
    ("scheme", "params", "text"),
    [
        ("rope", {"head_dim": 63}, "head_dim must be an even number of at least 2, got 63"),
        ("rope", {"head_dim": 64, "rotary_dim": 7}, "rotary_dim must be an even number of at least 2, got 7"),
        ("rope", {"head_dim": 64, "rotary_dim": 66}, r"rotary_dim \(66\) must be at most head_dim \(64\)"),
        ("rope", {"rope_theta": 1.0}, "rope_theta must be a finite number above 1, got 1.0"),
        ("rope", {"rope_type": "linear"}, "rope_type=linear needs factor: give -p factor=VALUE"),
        ("rope", {"rope_type": "linear", "factor": 0.0}, "factor must be above 0, got 0.0"),
        ("rope", {"rope_type": "linear", "factor": -2.0}, "factor must be above 0, got -2.0"),
        ("rope", {"factor": 2.0}, "rope_type=default takes no factor: it takes nothing more"),
        ("rope", {"rope_type": "lin"}, "rope_type must be default or linear .*, got 'lin'"),
        ("rope", {"head_dim": "64"}, "head_dim must be int, got '64'"),
        ("rope", {"rope_type": "linear", "factor": True}, "factor must be float, got True"),
        ("rope", {"output": "rows"}, "output must be rotate or cos_sin, got 'rows'"),
        ("mrope", {"head_dim": 16, "sections": (2, 3, 3), "section_layout": "interleaved"}, "at most a third"),
        ("mrope", {"sections": 8}, "sections must be a list of int, got 8"),
        ("xpos", {"center": 40000}, "center must be at most 34560, from where position 0 still fits fp32, got 40000"),
        ("xpos", {"gamma": 1e300}, "gamma is too large for anything to fade"),
        (
            "rope",
            {"head_dim": 2, "rope_type": "dynamic", "factor": 2.0, "max_position_embeddings": 9},
            "rope_type=dynamic needs at least 4 rotated features, got 2",
        ),
        (
            "rope",
            {"head_dim": 8, "rope_type": "longrope", "original_max_position_embeddings": 9, "factor": 2.0}
            | {"short_factor": (1.0,) * 4, "long_factor": (1.0,) * 3},
            "long_factor must have 4 numbers, one a pair of 8 features, got 3",
        ),
        (
            "rope",
            {"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 4.0, "high_freq_factor": 1.0}
            | {"original_max_position_embeddings": 9},
            r"high_freq_factor \(1.0\) must be greater than low_freq_factor \(4.0\)",
        ),
        (
            "rope",
            {"rope_type": "proportional", "partial_rotary_factor": 1.5},
            "partial_rotary_factor must be at most 1, got 1.5",
        ),
        ("mrope", {"head_dim": 16, "sections": (2, 2, 2)}, "sum to the 8 pairs that turn, got 2,2,2"),
        ("mrope", {"head_dim": 16, "sections": (4, 4)}, "sections must be at least three"),
        (
            "mrope",
            {"head_dim": 16, "sections": (2, 4, 2), "section_layout": "interleaved"},
            "height and width at most a third, got 2,4,2",
        ),
        (
            "mrope",
            {"rope_type": "dynamic", "factor": 2.0, "max_position_embeddings": 9},
            "rope_type=dynamic depends on a call's length",
        ),
        ("rope_2d", {"head_dim": 18}, "head_dim must be a multiple of 4"),
        ("xpos", {"gamma": 0.0}, "gamma must be a finite number above 0, got 0.0"),
        ("xpos", {"center": -1}, "center must be at least 0, or length, got -1"),
        ("xpos", {"scale_base": 4.0}, "max_len must be at most .*: from there on the scale of a key does not fit fp32"),
    ],
)
def test_what_is_refused(scheme: str, params: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        posenc.build(scheme, posenc.Form("dynamic"), **params)


def test_positions_and_heads_of_the_wrong_shape() -> None:
    module = posenc.build("rope", EXPLICIT, head_dim=16).module
    x = torch.zeros(1, 1, 3, 16)
    with pytest.raises(ValueError, match="positions have 1 axes, expected 2"):
        module(x, x, torch.arange(3))
    with pytest.raises(ValueError, match="heads have 8 features, this encoding has 16"):
        module(x[..., :8], x, torch.arange(3)[None])
    with pytest.raises(IndexError, match=r"positions must be in 0\.\.16777215"):
        module(x, x, torch.tensor([[0, 1, 2**24]]))
    for form in ("explicit", "offset", "implicit"):
        told = {"explicit": torch.zeros(1, 1, dtype=torch.int64), "offset": torch.zeros(1, dtype=torch.int64)}
        decode = posenc.build("rope", posenc.Form("dynamic", positions=form), head_dim=16).module
        for called in (decode, torch.jit.script(decode)):
            with pytest.raises(Exception, match="q has 1 tokens, k or positions 3: expected as many"):
                called(x[:, :, :1], x, *([told[form]] if form in told else []))
    baked = posenc.build("rope", posenc.Form(max_len=3, positions="implicit"), head_dim=16).module
    with pytest.raises(ValueError, match="length 4 is beyond the 3 positions"):
        baked(torch.zeros(1, 1, 4, 16), torch.zeros(1, 1, 4, 16))


def test_what_has_no_form_says_so() -> None:
    with pytest.raises(ValueError, match="mrope has no implicit form: each token has several positions"):
        posenc.build("mrope", posenc.Form("dynamic", positions="implicit"))
    with pytest.raises(ValueError, match="rope_2d has no offset form"):
        posenc.build("rope_2d", posenc.Form("dynamic", positions="offset"))
    with pytest.raises(ValueError, match="output=cos_sin takes --positions explicit, or --baked"):
        posenc.build("rope", posenc.Form("dynamic", positions="implicit"), output="cos_sin")


def test_frequencies_are_pure() -> None:
    rope = Rope("linear", 8, 1e4, {"factor": 2.0})
    np.testing.assert_array_equal(rope.at(5).inv_freq, rope.at(50000).inv_freq)
    assert rope.at(5).inv_freq.dtype == np.float64


DAMAGE: list[Any] = [
    # scheme, parameters, method, the constant that is changed, and how: none of this shows at the usual lengths
    ("rope", {}, "exact", "mid_sin", lambda a: np.add.at(a, (300,), 1.0)),
    ("rope", {}, "exact", "mid_cos", lambda a: np.add.at(a, (100,), 1e-5)),
    ("rope", {}, "exact", "high_cos", lambda a: np.add.at(a, (200,), 1.0)),
    ("rope", {}, "exact", "low_sin", lambda a: np.add.at(a, (63,), 1e-5)),
    ("rope", NTK, "exact", "exponent", lambda a: np.multiply(a, 1.001, out=a)),
    ("rope", NTK, "exact", "slope", lambda a: np.multiply(a, 1.001, out=a)),
    ("rope", LONG, "exact", None, lambda a: np.add(a, 1, out=a)),
    ("rope", LONG, "trig", None, lambda a: np.add(a, 100, out=a)),
    ("rope", LONG, "trig", "inv_freq", lambda a: np.add.at(a, (slice(8, None),), 1e-4)),
    ("mrope", {"sections": (4, 2, 2)}, "exact", "mid_sin", lambda a: np.add.at(a, (300,), 1.0)),
    ("sinusoidal", {}, "exact", "high_sin", lambda a: np.add.at(a, (200,), 1.0)),
]


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_that_only_far_positions_show_is_caught(
    tmp_path: Path, case: tuple[str, dict[str, Any], Any, str | None, Any]
) -> None:
    scheme, params, method, name, damage = case
    texts = [f"{k}={','.join(map(str, v)) if isinstance(v, tuple) else v}" for k, v in params.items()]
    texts.append("d_model=16" if scheme == "sinusoidal" else "head_dim=16")
    form = posenc.Form("dynamic", method, "explicit", 64)
    write(resolve(scheme, form, tuple(texts), (), 0), Order(("onnx",), validate=False), tmp_path)
    path = tmp_path / "model.onnx"
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        values = onnx.numpy_helper.to_array(tensor).copy()
        if name in tensor.name if name else values.dtype == np.int64 and values.shape == () and values == 4096:
            damage(values)
            tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
            break
    else:
        raise AssertionError([(t.name, list(t.dims)) for t in model.graph.initializer])
    bundle = Bundle.open(tmp_path)
    context = Context(bundle.manifest, bundle.manifest.artifacts[0], path)
    ort = RUNTIMES["ort-cpu"]
    assert {v.status for v in on_runtime(bundle, context, ort, Options()) if v.check == "agrees"} == {"pass"}
    onnx.save(model, path)
    assert {v.status for v in on_runtime(bundle, context, ort, Options()) if v.check == "agrees"} == {"fail"}
