"""Models with one rotated key for all heads (MLA): scores of q with many heads and k with one are the model's own."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor

import posenc_export
from posenc import Spec, build
from posenc.ports import Array
from posenc_models import ModelConfig, read_config

pytest.importorskip("transformers")
from transformers import DeepseekV2Config, DeepseekV3Config
from transformers.models.deepseek_v2 import modeling_deepseek_v2
from transformers.models.deepseek_v3 import modeling_deepseek_v3

HEADS, WIDTH = 8, 64
YARN = {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "beta_fast": 32, "beta_slow": 1}
SIZES = {
    "num_attention_heads": HEADS,
    "qk_rope_head_dim": WIDTH,
    "max_position_embeddings": 163840,
    "rope_theta": 10000,
}
V2 = {**SIZES, "model_type": "deepseek_v2", "rope_scaling": {**YARN, "mscale": 0.707, "mscale_all_dim": 0.707}}
V3 = {**SIZES, "model_type": "deepseek_v3", "rope_scaling": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}}
# Kimi K2 is DeepSeek V3 with a base and a scaling of its own
KIMI = {**V3, "rope_theta": 50000, "rope_scaling": {**V3["rope_scaling"], "factor": 32}}  # type: ignore[dict-item]
CONFIGS = {"V2": V2, "V3": V3, "Kimi": KIMI, "halves": {**V3, "rope_interleave": False}}


def drawn() -> tuple[Tensor, Tensor, Tensor]:
    """Queries with many heads, keys with one, and positions of two sequences, the first padded on the left."""
    generator = torch.Generator().manual_seed(0)
    q, k = (torch.randn(2, heads, 7, WIDTH, generator=generator) for heads in (HEADS, 1))
    return q, k, torch.stack([torch.arange(7).sub(2).clamp(min=0), torch.arange(50, 57)])


def by_the_model(config: dict[str, Any], q: Tensor, k: Tensor, positions: Tensor) -> Array:
    """Scores by the rotation that a model's own attention calls, with its own angles."""
    values = {key: value for key, value in config.items() if key != "model_type"}
    if config["model_type"] == "deepseek_v2":
        v2 = modeling_deepseek_v2
        freqs = v2.DeepseekV2RotaryEmbedding(DeepseekV2Config(**values))(q, positions)
        return scores(*v2.apply_rotary_emb(q, k, freqs))
    v3 = modeling_deepseek_v3
    cos, sin = v3.DeepseekV3RotaryEmbedding(DeepseekV3Config(**values))(q, positions)
    is_apart = config.get("rope_interleave", True)
    rotate = v3.apply_rotary_pos_emb_interleave if is_apart else v3.apply_rotary_pos_emb
    return scores(*rotate(q, k, cos, sin))


def scores(q: Tensor, k: Tensor) -> Array:
    """Products of every query with the one key, which no order of the features changes: (batch, head, seq, seq)."""
    assert k.shape[1] == 1
    product: Array = (q.double() @ k.double().transpose(-1, -2)).numpy()
    return product


def within(q: Tensor, k: Tensor) -> float:
    """Theirs are angles in float32, below 57, off by four roundings; so is each of two rotations, |a| + |b| in size."""
    largest = float(q.double().norm(dim=-1).max() * k.double().norm(dim=-1).max())
    return 2 * 4 * 57 * 2.0**-24 * largest


@pytest.mark.parametrize("name", CONFIGS)
def test_many_heads_of_queries_meet_one_key(name: str) -> None:
    q, k, positions = drawn()
    # a part of the head, without the features that do not turn
    reading = read_config(CONFIGS[name])
    assert reading.parameters["head_dim"] == WIDTH
    module = build(reading.scheme, Spec(mode="dynamic", max_len=4096), **reading.parameters).module
    theirs = by_the_model(CONFIGS[name], q, k, positions)
    np.testing.assert_allclose(scores(*module(q, k, positions)), theirs, rtol=0, atol=within(q, k))
    # no tolerance of this size lets a rotation pass that is one position off for queries alone
    assert float(np.abs(scores(module(q, k, positions + 1)[0], module(q, k, positions)[1]) - theirs).max()) > 1


@pytest.mark.exhaustive
def test_a_file_takes_one_key_head(tmp_path: Path) -> None:
    """The graph of V3, made with its model asked: q and k keep their own numbers of heads."""
    config = ModelConfig.of(V3)
    posenc_export.export(config, to=tmp_path / "mla", formats=["onnx"], mode="dynamic", max_len=64, require=["model"])
    session = onnxruntime.InferenceSession(str(tmp_path / "mla" / "model.onnx"), providers=["CPUExecutionProvider"])
    q, k, positions = drawn()
    feeds = {"q": q.numpy(), "k": k.numpy(), "positions": positions.numpy()}
    got_q, got_k = (torch.from_numpy(out) for out in session.run(None, feeds))
    assert (got_q.shape, got_k.shape) == (q.shape, k.shape)
    np.testing.assert_allclose(scores(got_q, got_k), by_the_model(V3, q, k, positions), rtol=0, atol=within(q, k))
