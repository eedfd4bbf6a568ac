"""Rows of clipped distances, against Shaw's formula, wav2vec2-BERT and VITS."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import posenc
from posenc.ports import Array
from posenc.spec import Spec, UnsupportedSpec


def built(spec: Spec, **params: Any) -> Callable[..., Tensor]:
    module: Callable[..., Tensor] = posenc.build("clipped_relative", spec, **params).module
    return module


def test_the_clipped_bias_is_that_of_wav2vec2_bert(tmp_path: Path) -> None:
    bert = pytest.importorskip("transformers.models.wav2vec2_bert.modeling_wav2vec2_bert")
    config = bert.Wav2Vec2BertConfig(hidden_size=32, num_attention_heads=2, position_embeddings_type="relative_key")
    attention = bert.Wav2Vec2BertSelfAttention(config)
    torch.save(attention.state_dict(), tmp_path / "w2v.pt")
    params = {"weights": str(tmp_path / "w2v.pt"), "key": "distance_embedding.weight"}
    q = torch.randn(2, 2, 100, 16)
    with torch.no_grad():
        _, expected = bert._apply_relative_key_position_encoding(attention, q, q)
    ours = built(Spec("dynamic"), **params)
    torch.testing.assert_close(ours(q, q), expected, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(ours(q[:, :, 90:], q), expected[:, :, 90:], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("length", [1, 3, 5, 40])
def test_the_window_is_that_of_vits(tmp_path: Path, length: int) -> None:
    vits = pytest.importorskip("transformers.models.vits.modeling_vits")
    attention = vits.VitsAttention(vits.VitsConfig(hidden_size=32, num_attention_heads=2, window_size=4))
    torch.save(attention.state_dict(), tmp_path / "vits.pt")
    params: dict[str, Any] = {"weights": str(tmp_path / "vits.pt"), "key": "emb_rel_k", "left": 4, "right": 4}
    q = torch.randn(3, 2, length, 16)
    with torch.no_grad():
        rows = attention._get_relative_embeddings(attention.emb_rel_k, length)
        logits = torch.matmul((q * attention.scaling).flatten(0, 1), rows.transpose(-2, -1))
        expected = attention._relative_position_to_absolute_position(logits).view(3, 2, length, length)
    ours = built(Spec("dynamic"), beyond="zero", **params)
    torch.testing.assert_close(ours(q, q), expected, atol=1e-6, rtol=1e-5)


def shaw(q: Array, w: Array) -> Array:
    """Return the part of e_ij that a^K_ij adds, q_i . w_clip(j - i, k) / sqrt(d_z): equations 3 to 5 of the paper."""
    k, (length, width) = len(w) // 2, q.shape
    e = np.zeros((length, length))
    for i in range(length):
        for j in range(length):
            clip = max(-k, min(k, j - i))
            e[i, j] = sum(q[i, z] * w[k + clip, z] for z in range(width)) / width**0.5
    return e


@pytest.mark.parametrize("k", [0, 1, 4, 16])
@pytest.mark.parametrize("mode", ["baked", "dynamic"])
def test_the_clipped_bias_is_that_of_shaw(tmp_path: Path, k: int, mode: Any) -> None:
    rng = np.random.default_rng(k)
    w, q = rng.standard_normal((2 * k + 1, 6)), rng.standard_normal((2, 3, 12, 6))
    np.save(tmp_path / "w.npy", w.astype(np.float32))
    ours = built(Spec(mode, max_len=20), weights=str(tmp_path / "w.npy"), left=k, right=k)
    expected = np.array([[shaw(head, w) for head in sequence] for sequence in q])
    queries = torch.from_numpy(q).float()
    np.testing.assert_allclose(ours(queries, queries).numpy(), expected, atol=2e-6)
    np.testing.assert_allclose(ours(queries[:, :, 9:], queries).numpy(), expected[:, :, 9:], atol=2e-6)


def test_the_clip_by_hand(tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", np.array([[10], [1], [100]], np.float32))  # w_-1, w_0, w_1
    ours = built(Spec("dynamic"), weights=str(tmp_path / "w.npy"), left=1, right=1)
    q = torch.tensor([1.0, 2.0, 3.0]).view(1, 1, 3, 1)
    assert ours(q, q)[0, 0].tolist() == [[1, 100, 100], [20, 2, 200], [30, 30, 3]]
    assert shaw(q[0, 0].numpy(), np.array([[10], [1], [100]])).tolist() == ours(q, q)[0, 0].tolist()


@pytest.mark.parametrize("mode", ["baked", "dynamic"])
@pytest.mark.parametrize("output", ["bias", "scores"])
def test_positions_that_are_given_are_those_that_are_counted(tmp_path: Path, mode: Any, output: str) -> None:
    """Explicit positions of packed sequences, and of a mask with padding on the left, which moves no token."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "w.npy", rng.standard_normal((9, 6)).astype(np.float32))
    params: dict[str, Any] = {"weights": str(tmp_path / "w.npy"), "left": 5, "right": 3, "output": output}
    implicit, explicit, mask = (
        built(Spec(mode, positions=positions, max_len=20), **params) for positions in ("implicit", "explicit", "mask")
    )
    q, scores = torch.randn(2, 3, 12, 6), torch.randn(2, 3, 12, 12)
    values = (q,) if output == "bias" else (q, scores)
    counted = implicit(q, q) if output == "bias" else implicit(q, scores)
    at = torch.stack([torch.arange(12), torch.arange(12) + 7])
    assert torch.equal(explicit(*values, at, at), counted)
    padding = torch.tensor([[1] * 12, [0] * 4 + [1] * 8])
    padded = mask(*values, padding)
    assert torch.equal(padded[0], counted[0])
    assert torch.equal(padded[1, :, 4:, 4:], counted[1, :, 4:, 4:])


def test_values_are_not_weighted_at_positions_that_are_given() -> None:
    with pytest.raises(UnsupportedSpec, match="output=values has no explicit form: a look-up finds the one key at"):
        built(Spec(positions="explicit"), head_dim=6, output="values")
