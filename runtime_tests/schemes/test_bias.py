"""Biases on attention scores against the implementations that users know, and integers against integers."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import posenc
from posenc.schemes import deberta_buckets, t5_bias
from posenc.schemes.alibi import slopes_of
from posenc.spec import Spec
from posenc_export.proof.exporter import ExportOptions, export_target
from posenc_export.write.targets.hf_config import config_target
from posenc_models import ModelConfig

MILLION = 10**6
HEAD_COUNTS = (1, 2, 3, 6, 8, 12, 14, 16, 25, 32, 71, 112)


def module_of(scheme: str, spec: Spec, **params: Any) -> Callable[..., Tensor]:
    module: Callable[..., Tensor] = posenc.build(scheme, spec, **params).module
    return module


def heads_of(heads: int, length: int, head_dim: int = 4) -> Tensor:
    return torch.zeros(1, heads, length, head_dim)


# ---- ALiBi -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("heads", HEAD_COUNTS)
def test_slopes_are_those_of_bloom(heads: int) -> None:
    bloom = pytest.importorskip("transformers.models.bloom.modeling_bloom")
    theirs = bloom._get_alibi_slopes(heads, torch.device("cpu")).double().numpy()
    # float32 powers of a rounded base: one rounding a factor
    np.testing.assert_allclose(slopes_of(heads, 8.0), theirs, rtol=2 * heads * 2.0**-24)


@pytest.mark.parametrize("heads", [4, 12])
def test_the_bias_of_keys_is_that_of_bloom(heads: int) -> None:
    bloom = pytest.importorskip("transformers.models.bloom.modeling_bloom")
    mask = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1], [1, 1, 1, 0, 0]])
    theirs = bloom.build_alibi_tensor(mask, heads, torch.float32).view(3, heads, 1, 5)
    ours = module_of("alibi", Spec("dynamic", positions="mask"), heads=heads, form="key", output="bias")
    for seq in (1, 3, 5):
        expected = theirs.expand(3, heads, seq, 5)
        torch.testing.assert_close(ours(torch.zeros(3, heads, seq, 4), mask), expected, atol=0, rtol=1e-5)


@pytest.mark.parametrize(("heads", "most"), [(4, 8), (12, 8), (16, 4), (7, 16)])
def test_the_bias_to_the_last_key_is_that_of_mpt(heads: int, most: int) -> None:
    mpt = pytest.importorskip("transformers.models.mpt.modeling_mpt")
    theirs = mpt.build_mpt_alibi_tensor(heads, 9, alibi_bias_max=most)
    params: dict[str, Any] = {"heads": heads, "form": "last_key", "output": "bias", "bias_max": float(most)}
    ours = module_of("alibi", Spec("dynamic"), **params)(heads_of(heads, 3), heads_of(heads, 9))
    torch.testing.assert_close(ours, theirs.expand(heads, 3, 9)[None], atol=0, rtol=1e-6)


@pytest.mark.parametrize("heads", [8, 12, 32])
def test_falcon_rounds_the_slopes_alike_and_more(heads: int) -> None:
    falcon = pytest.importorskip("transformers.models.falcon.modeling_falcon")
    mask = torch.ones(1, 2048, dtype=torch.int64)
    theirs = falcon.build_alibi_tensor(mask, heads, torch.float32).view(1, heads, 1, 2048)
    params: dict[str, Any] = {"heads": heads, "form": "key", "output": "bias", "bfloat16_slopes": True}
    ours = module_of("alibi", Spec("dynamic"), **params)(heads_of(heads, 1), heads_of(heads, 2048))
    exact_at = [1, 2, 64, 128]  # positions that bfloat16 holds, times a slope: nothing else is rounded
    torch.testing.assert_close(ours[..., exact_at], theirs[..., exact_at], atol=0, rtol=0)
    torch.testing.assert_close(ours, theirs, atol=0, rtol=2.0**-7)  # position and product, half an eps of 2^-7 each
    if heads > 8:
        assert float((ours - theirs).abs().max()) > 1


def test_forms_differ_by_a_number_a_row() -> None:
    q, k = heads_of(6, 4), heads_of(6, 9)
    forms = {
        form: module_of("alibi", Spec("dynamic"), heads=6, form=form, output="bias")(q, k)
        for form in ("distance", "key", "last_key")
    }
    seen = torch.ones(4, 9, dtype=torch.bool).tril(5)
    softmax = {name: bias.masked_fill(~seen, -torch.inf).softmax(-1) for name, bias in forms.items()}
    torch.testing.assert_close(softmax["key"], softmax["distance"])
    torch.testing.assert_close(softmax["last_key"], softmax["distance"])


def test_in_bfloat16_the_product_is_rounded_once() -> None:
    bias = module_of("alibi", Spec("dynamic", dtype="bf16"), heads=12, output="bias")
    ours = bias(torch.zeros(1, 12, 1, 4).bfloat16(), torch.zeros(1, 12, 8192, 4).bfloat16())[0, :, 0].double()
    exact = -slopes_of(12, 8.0)[:, None] * np.arange(8191, -1, -1)
    np.testing.assert_allclose(ours.numpy(), exact, rtol=2.0**-8 * 1.001)


# ---- T5 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("count", "far"), [(32, 128), (8, 20), (64, 1024), (12, 50), (320, 800), (10, 40)])
def test_buckets_are_those_of_transformers(count: int, far: int, bidirectional: bool) -> None:
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5").T5Attention
    single, growing = t5_bias._shares(count, far, bidirectional)
    distance = np.arange(MILLION + 1)
    ours = t5_bias.buckets(distance, single, growing, far)
    relative = torch.from_numpy(distance)
    theirs = t5._relative_position_bucket(-relative, bidirectional, count, far).numpy()
    np.testing.assert_array_equal(ours, theirs)
    after = t5._relative_position_bucket(relative, bidirectional, count, far).numpy()
    np.testing.assert_array_equal(np.where(distance > 0, (ours + count // 2) * bidirectional, 0), after)


def test_an_edge_that_float32_misses() -> None:
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5").T5Attention
    distance = np.arange(53, 56)
    assert t5_bias.buckets(distance, 24, 24, 81).tolist() == [39, 40, 40]  # 54 = 24 * 1.5^2
    assert t5._relative_position_bucket(-torch.from_numpy(distance), False, 48, 81).tolist() == [39, 39, 40]


@pytest.mark.parametrize(("single", "growing", "far"), [(8, 8, 128), (16, 16, 128), (2, 3, 50), (24, 24, 81)])
def test_edges_are_those_of_fractions(single: int, growing: int, far: int) -> None:
    for i, first in enumerate(t5_bias.edges(single, growing, far)):
        reached = Fraction(far, single) ** i
        assert Fraction(first, single) ** growing >= reached
        assert first == single or Fraction(first - 1, single) ** growing < reached


@pytest.mark.parametrize("bidirectional", [True, False])
def test_the_whole_bias_is_that_of_transformers(tmp_path: Path, bidirectional: bool) -> None:
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    config = t5.T5Config(num_heads=4, d_model=8, d_kv=2, is_decoder=not bidirectional)
    theirs = t5.T5Attention(config, has_relative_attention_bias=True)
    torch.save(theirs.state_dict(), tmp_path / "t5.pt")
    params = {"weights": str(tmp_path / "t5.pt"), "key": "relative_attention_bias.weight"}
    ours = module_of("t5_bias", Spec("dynamic"), bidirectional=bidirectional, **params)
    for seq, past in ((1, 204), (5, 200), (7, 0), (150, 0)):
        with torch.no_grad():
            expected = theirs.compute_bias(seq, past + seq, past_seen_tokens=past)
        torch.testing.assert_close(ours(heads_of(4, seq), heads_of(4, past + seq)), expected, atol=0, rtol=0)


@pytest.mark.parametrize("scheme", ["t5_bias", "alibi"])
@pytest.mark.parametrize("mode", ["baked", "dynamic"])
def test_every_way_to_give_positions_gives_the_same_bias(scheme: str, mode: Any) -> None:
    def ours(positions: Any, *inputs: Tensor) -> Tensor:
        torch.manual_seed(0)
        return module_of(scheme, Spec(mode, positions=positions, max_len=200), heads=4, output="bias")(*inputs)

    q, k, places = heads_of(4, 5), heads_of(4, 160), torch.arange(160)[None]
    expected = ours("implicit", q, k)
    torch.testing.assert_close(ours("offset", q, k, torch.tensor([155])), expected, atol=0, rtol=0)
    torch.testing.assert_close(ours("explicit", places[:, 155:], places), expected, atol=0, rtol=0)
    torch.testing.assert_close(ours("mask", q, torch.ones_like(places)), expected, atol=0, rtol=0)


# ---- DeBERTa ---------------------------------------------------------------------------------------------------------

DEBERTA = [(256, 512), (32, 128), (64, 2048), (9, 30), (5, 12), (255, 512)]
MISPLACED = 50
"""So many distances of a million, at most, are put beside their bucket by the float32 logarithm of transformers."""


@pytest.mark.parametrize(("count", "far"), DEBERTA)
def test_log_buckets_are_those_of_transformers(count: int, far: int) -> None:
    deberta = pytest.importorskip("transformers.models.deberta_v2.modeling_deberta_v2")
    distance = np.arange(MILLION + 1)
    ours = deberta_buckets.buckets(distance, count // 2, far)
    theirs = deberta.make_log_bucket_position(torch.from_numpy(distance), count, far).long().numpy()
    off = np.flatnonzero(ours != theirs)
    assert len(off) <= MISPLACED
    assert off.min(initial=MILLION) > 64 * far  # where models have long clamped the bucket
    assert np.abs(ours - theirs).max() <= 1
    assert ours[far - 1] == 2 * (count // 2) - 1, "num_buckets is of each direction: max_distance - 1 is in the last"


@pytest.mark.parametrize(("mid", "far"), [(8, 40), (128, 512), (4, 30)])
def test_log_edges_are_those_of_fractions(mid: int, far: int) -> None:
    for c, first in enumerate(deberta_buckets.edges(mid, far, 3 * far).tolist()):
        reached = Fraction(far - 1, mid) ** c
        assert Fraction(first - 1, mid) ** (mid - 1) <= reached < Fraction(first, mid) ** (mid - 1)


def test_indices_are_those_of_deberta() -> None:
    deberta = pytest.importorskip("transformers.models.deberta_v2.modeling_deberta_v2")
    for mode in ("baked", "dynamic"):
        ours = module_of("deberta_buckets", Spec(mode, max_len=700))
        offset = module_of("deberta_buckets", Spec(mode, positions="offset", max_len=700))
        for seq, seq_k in ((700, 700), (1, 1), (3, 600)):
            q, k = heads_of(1, seq, 1), heads_of(1, seq_k, 1)
            expected = deberta.build_relative_position(q, k, 256, 512)
            assert torch.equal(offset(q, k, torch.tensor([0])), expected)
            if seq == seq_k:
                assert torch.equal(ours(q, k), expected)


@pytest.mark.exhaustive
def test_a_report_says_in_what_falcon_is_known_to_differ(tmp_path: Path) -> None:
    config = {"model_type": "falcon", "alibi": True, "hidden_size": 284, "num_attention_heads": 71}
    target = config_target(ModelConfig.of(config), Spec(max_len=40), {"output": "bias"}, 0)
    result = export_target(lambda: target, ExportOptions(("torchscript",)), tmp_path / "falcon")
    assert result.passed
    (note,) = result.manifest.notes
    assert note in (result.folder / "report.md").read_text(encoding="utf-8")
    falcon = pytest.importorskip("transformers.models.falcon.modeling_falcon")
    mask = torch.ones(1, 2048, dtype=torch.int64)
    theirs = falcon.build_alibi_tensor(mask, 71, torch.float64).view(71, 2048).numpy()
    spec = Spec("dynamic", positions="mask")
    exact = posenc.build("alibi", spec, heads=71, form="key", output="bias", bfloat16_slopes=True)
    fed = {"q": np.zeros((1, 71, 1, 4), np.float32), "attention_mask": mask.numpy()}
    ours = exact.reference(fed, None)["bias"][0, :, 0]
    off = np.abs(theirs - ours)
    assert 7.7 < off.max() < 7.8
    assert 2.0**-8 < (off[:, 1:] / ours[:, 1:]).max() < 2.0**-7
    assert "2^-7" in note
    assert "7.8" in note
