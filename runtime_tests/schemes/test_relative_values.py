"""Rows of clipped distances for values, against Shaw's formula and VITS; SpeechT5's rows, of query minus key."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import posenc
from posenc.encoding import Encoding
from posenc.ports import SEQ, Array, Port, Values, fixed
from posenc.spec import Positions, Spec
from posenc.where import KEYS
from posenc_export.bundle.case import Case
from posenc_export.common.arrays import call_on_arrays
from posenc_export.proof.exporter import ExportOptions, export_target
from posenc_export.write.targets.feeds import feeds_for
from posenc_export.write.targets.scheme import scheme_target

MODES = ("baked", "dynamic")
LENGTHS = ((1, 1), (1, 30), (2, 3), (6, 9))


def encoding(spec: Spec, **params: Any) -> Encoding:
    return posenc.build("clipped_relative", spec, **params)


def built(spec: Spec, **params: Any) -> Callable[..., Tensor]:
    module: Callable[..., Tensor] = encoding(spec, **params).module
    return module


def probabilities(*shape: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(shape).standard_normal(shape)).mul(2).softmax(-1).float()


def shaw(p: Array, w: Array, start: int, before: int, zero: bool) -> Array:
    """Return sum_j a_ij w_clip(j - i, k), the part of z_i that a^V_ij adds: equations 3 and 4 of the paper."""
    z = np.zeros((len(p), w.shape[1]))
    for i in range(len(p)):
        for j in range(p.shape[1]):
            far = j - (start + i)
            clip = max(-before, min(len(w) - 1 - before, far))
            if clip == far or not zero:
                z[i] += p[i, j] * w[before + clip]
    return z


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("beyond", ["clip", "zero"])
@pytest.mark.parametrize(("left", "right"), [(0, 0), (1, 1), (4, 4), (3, 1), (0, 2), (20, 16)])
def test_the_values_are_those_of_shaw(tmp_path: Path, mode: Any, beyond: str, left: int, right: int) -> None:
    w = np.random.default_rng(left).standard_normal((left + 1 + right, 6)).astype(np.float32)
    np.save(tmp_path / "w.npy", w)
    params = {"weights": str(tmp_path / "w.npy"), "left": left, "right": right, "beyond": beyond, "output": "values"}
    ours = built(Spec(mode, max_len=30), **params)
    from_start = built(Spec(mode, positions="offset", max_len=30), **params)
    for seq, seq_k in LENGTHS:
        p = probabilities(1, 2, seq, seq_k)
        for start in {seq_k - seq, (seq_k - seq) // 2, 0}:
            expected = [[shaw(head, w, start, left, beyond == "zero") for head in one] for one in p.numpy()]
            np.testing.assert_allclose(from_start(p, torch.tensor([start])).numpy(), expected, atol=1e-6)
            if start == seq_k - seq:
                np.testing.assert_allclose(ours(p).numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("beyond", ["clip", "zero"])
def test_the_values_by_hand(tmp_path: Path, beyond: str) -> None:
    np.save(tmp_path / "w.npy", np.array([[10], [1], [100]], np.float32))  # w_-1, w_0, w_1
    params = {"weights": str(tmp_path / "w.npy"), "left": 1, "right": 1, "beyond": beyond, "output": "values"}
    p = torch.tensor([[0.5, 0.25, 0.25], [0, 1, 0], [0.5, 0.25, 0.25]])[None, None]
    far = {"clip": (25, 5), "zero": (0, 0)}[beyond]  # a quarter two keys ahead, a half two keys behind
    assert built(Spec("dynamic"), **params)(p).flatten().tolist() == [0.5 + 25 + far[0], 1, far[1] + 2.5 + 0.25]


@pytest.mark.parametrize("length", [1, 3, 5, 40])
def test_both_tables_give_the_attention_of_vits(tmp_path: Path, length: int) -> None:
    vits = pytest.importorskip("transformers.models.vits.modeling_vits")
    attention = vits.VitsAttention(vits.VitsConfig(hidden_size=32, num_attention_heads=2, window_size=4)).eval()
    torch.save(attention.state_dict(), tmp_path / "vits.pt")
    params = {"weights": str(tmp_path / "vits.pt"), "left": 4, "right": 4, "beyond": "zero"}
    of_keys = built(Spec("dynamic"), key="emb_rel_k", **params)
    of_values = built(Spec("dynamic"), key="emb_rel_v", output="values", **params)
    x = torch.randn(3, length, 32)
    with torch.no_grad():
        q, k, v = (
            attention._shape(part(x), length, 3) for part in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        p = (q @ k.transpose(2, 3) * attention.scaling + of_keys(q, k)).softmax(-1)
        merged = (p @ v + of_values(p)).transpose(1, 2).reshape(3, length, 32)
        torch.testing.assert_close(attention.out_proj(merged), attention(x)[0], atol=2e-6, rtol=1e-5)
        lost = (p @ v).transpose(1, 2).reshape(3, length, 32)
        assert not torch.allclose(attention.out_proj(lost), attention(x)[0], atol=1e-3)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 20])
@pytest.mark.parametrize("most", [1, 4])
def test_rows_of_query_minus_key_give_the_attention_of_speecht5(tmp_path: Path, length: int, most: int) -> None:
    speecht5 = pytest.importorskip("transformers.models.speecht5.modeling_speecht5")
    positions = speecht5.SpeechT5RelativePositionalEncoding(8, most)
    attention = speecht5.SpeechT5Attention(16, 2).eval()
    torch.save(positions.state_dict(), tmp_path / "speecht5.pt")
    params = {"weights": str(tmp_path / "speecht5.pt"), "left": most - 1, "right": most}
    ours = built(Spec("dynamic"), distance="query_minus_key", **params)
    x = torch.randn(3, length, 16)
    with torch.no_grad():
        q, k = (part(x).view(3, length, 2, 8).transpose(1, 2) for part in (attention.q_proj, attention.k_proj))
        expected = attention(x, position_bias=positions(x), output_attentions=True)[1]
        p = (q @ k.transpose(2, 3) / 8**0.5 + ours(q, k)).softmax(-1)
    torch.testing.assert_close(p, expected, atol=1e-6, rtol=1e-5)


def test_an_order_of_rows_is_the_other_reversed(tmp_path: Path) -> None:
    w = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    np.save(tmp_path / "w.npy", w)
    np.save(tmp_path / "reversed.npy", w[::-1].copy())
    p = probabilities(1, 2, 5, 9)
    params = {"left": 2, "right": 3, "output": "values"}
    one = built(Spec("dynamic"), weights=str(tmp_path / "w.npy"), **params)
    other = built(Spec("dynamic"), weights=str(tmp_path / "reversed.npy"), distance="query_minus_key", **params)
    assert torch.equal(one(p), other(p))


def case(seq: int, seq_k: int) -> Case:
    sizes = {SEQ.name: seq, KEYS.name: seq_k, "batch": 1, "heads": 1}
    return Case("call", sizes, max_position=seq_k - 1)


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16", "fp64"])
@pytest.mark.parametrize(("seq", "seq_k"), [(1, 1), (7, 30), (3, 6000)])
def test_the_bound_holds_and_is_below_what_a_lost_column_costs(dtype: Any, seq: int, seq_k: int) -> None:
    ours = encoding(Spec("dynamic", dtype=dtype), head_dim=6, left=2, right=2, output="values")
    call = case(seq, seq_k)
    bound = ours.tolerance(call)
    feeds = feeds_for(ours.inputs, call, 0)
    (expected,) = ours.reference(feeds, None).values()
    (values,) = call_on_arrays(ours.module, list(feeds.values()))
    rounded = {"fp32": 0, "fp64": 0, "fp16": 2**-11, "bf16": 2**-8}[dtype] * np.abs(expected)
    assert (np.abs(values.astype(np.float64) - expected) <= bound.atol + rounded).all()
    assert bound.atol < 0.01 * np.abs(expected).max()


def test_numbers_that_are_probabilities_sum_to_one() -> None:
    port = Port("p", (fixed(3), SEQ, KEYS), "float64", Values(0.0, 1.0, probabilities=True))
    p = feeds_for((port,), Case("call", {SEQ.name: 5, KEYS.name: 9}, max_position=8), 0)["p"]
    np.testing.assert_allclose(p.sum(-1), 1)
    assert p.min() > 0
    assert p.max() > 0.3


REFUSED: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "scale": ({"scale": 0.0}, "scale must be a finite number other than 0, got 0.0"),
    "left": ({"left": -1}, "left must be at least 0, got -1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_of_values(name: str) -> None:
    params, text = REFUSED[name]
    with pytest.raises(ValueError, match=text):
        encoding(Spec("dynamic"), output="values", **params)


def test_values_are_scaled_where_that_is_said() -> None:
    p = probabilities(1, 1, 3, 5)
    torch.manual_seed(0)
    one = built(Spec("dynamic"), output="values", head_dim=4)
    torch.manual_seed(0)
    half = built(Spec("dynamic"), output="values", head_dim=4, scale=0.5)
    assert torch.equal(one(p), 2 * half(p))


def test_more_keys_than_are_stored_are_refused() -> None:
    ours = built(Spec("baked", max_len=6), output="values", beyond="zero", head_dim=4, left=1, right=1)
    with pytest.raises(ValueError, match="length 7 is beyond the 6 positions"):
        ours(probabilities(1, 1, 2, 7))


@pytest.mark.exhaustive
@pytest.mark.parametrize(("mode", "positions", "beyond"), [("baked", "implicit", "zero"), ("baked", "offset", "clip")])
def test_baked_ones_refuse_more_keys_in_every_graph(
    tmp_path: Path, mode: Any, positions: Positions, beyond: str
) -> None:
    params = {"head_dim": 4, "left": 3, "right": 2, "beyond": beyond, "output": "values"}
    spec = Spec(mode, positions=positions, max_len=20)
    result = export_target(
        lambda: scheme_target("clipped_relative", spec, params, 0), ExportOptions(formats=("onnx",)), tmp_path
    )
    assert result.passed, [verdict for verdict in result.verdicts if verdict.status == "fail"]
    assert any(case.refused for case in result.manifest.cases)
