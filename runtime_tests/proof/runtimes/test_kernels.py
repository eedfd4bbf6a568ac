"""Attention kernels of ONNX Runtime that take caches of cosines and sines, given ours, beside attention in float64."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import torch
from onnx import helper
from safetensors.numpy import load_file

import posenc
from helpers.combinations import run
from posenc.parameters import Value
from posenc.ports import Array
from posenc.spec import DType, Spec
from posenc_export.write.formats import FORMATS

ROWS, PROMPT, HEADS, KV_HEADS, HEAD_DIM = 4200, 512, 4, 2, 64
BAKED = Spec("baked", max_len=ROWS)
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 512}
SETTINGS: dict[str, dict[str, Value]] = {
    "default": {"rope_theta": 500000.0},
    "llama3": {"rope_type": "llama3", **LLAMA3},
    "yarn": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 512},
    "part of a head": {"rotary_dim": 32},
    "neighbours": {"layout": "interleaved"},
}


def caches(settings: dict[str, Value], dtype: DType = "fp32") -> dict[str, Array]:
    """Return the cosines and sines of all rows, a column a pair, as a baked encoding stores them."""
    spec = replace(BAKED, dtype=dtype)
    encoding = posenc.build("rope", spec, head_dim=HEAD_DIM, output="cos_sin", width="half", **settings)
    cos, sin = encoding.module(torch.arange(ROWS)[None])
    return {"cos_cache": cos[0].numpy(), "sin_cache": sin[0].numpy()}


def kernel(operator: str, attributes: Mapping[str, Any], inputs: dict[str, Array], outputs: int) -> list[Array]:
    """Run one operator of com.microsoft on the CPU; an empty array stands for an input that is left out."""
    names = [name if array.ndim == 0 or array.size else "" for name, array in inputs.items()]
    fed = {name: inputs[name] for name in names if name}
    made = [f"out{i}" for i in range(outputs)]
    node = helper.make_node(operator, names, made, domain="com.microsoft", **attributes)
    ports = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in fed.items()
    ]
    results = [helper.make_tensor_value_info(name, ports[0].type.tensor_type.elem_type, None) for name in made]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(helper.make_graph([node], "kernel", ports, results), opset_imports=opsets, ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [np.asarray(array) for array in session.run(None, fed)]


def rotated(heads: Array, first: int, settings: dict[str, Value]) -> Array:
    """Return heads (1, heads, seq, dim) at successive positions as the scheme's float64 reference rotates them."""
    encoding = posenc.build("rope", BAKED, head_dim=HEAD_DIM, **settings)
    positions = first + np.arange(heads.shape[2], dtype=np.int64)[None]
    return encoding.reference({"q": heads, "k": heads[:, :1], "positions": positions}, None)["q_rotated"]


def attention(q: Array, k: Array, v: Array) -> Array:
    """Return causal attention of the last tokens in float64: (1, heads, seq, dim) -> (1, seq, heads * dim)."""
    tensors = (torch.from_numpy(x.astype(np.float64)) for x in (q, k, v))
    queries, keys, values = (x.repeat_interleave(HEADS // x.shape[1], 1) for x in tensors)
    scores = queries @ keys.transpose(-1, -2) / HEAD_DIM**0.5
    later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(k.shape[2] - q.shape[2] + 1)
    out = scores.masked_fill(later, -torch.inf).softmax(-1) @ values
    return np.asarray(out.transpose(1, 2).flatten(2))


def drawn(seed: int, heads: int, tokens: int) -> Array:
    """Return heads of one sequence: (1, heads, tokens, dim)."""
    shape = (1, heads, tokens, HEAD_DIM)
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def flat(heads: Array) -> Array:
    """Return heads side by side: (1, heads, seq, dim) -> (1, seq, heads * dim)."""
    return np.ascontiguousarray(heads.swapaxes(1, 2)).reshape(1, heads.shape[2], -1)


def grouped(settings: dict[str, Value], past: int, dtype: DType, *, packed: bool) -> list[tuple[Array, Array]]:
    """Return the outputs of GroupQueryAttention, keys and values in the cache behind them, each beside float64."""
    tokens, kind = 1 if past else PROMPT, np.float16 if dtype == "fp16" else np.float32
    q, k, v = (drawn(i, heads, tokens).astype(kind) for i, heads in enumerate((HEADS, KV_HEADS, KV_HEADS)))
    # keys of the past lie rotated in a KV cache
    old_k = rotated(drawn(3, KV_HEADS, past), 0, settings).astype(kind)
    old_v = drawn(4, KV_HEADS, past).astype(kind)
    flats, none = [flat(x) for x in (q, k, v)], np.zeros(0, kind)
    query, key, value = (np.concatenate(flats, -1), none, none) if packed else flats
    inputs = {"query": query, "key": key, "value": value, "past_key": old_k, "past_value": old_v}
    lengths = {"seqlens_k": np.array([past + tokens - 1], np.int32), "total": np.array(past + tokens, np.int32)}
    interleaved = int(settings.get("layout") == "interleaved")
    attributes = {"num_heads": HEADS, "kv_num_heads": KV_HEADS, "do_rotary": 1, "rotary_interleaved": interleaved}
    fed = inputs | lengths | caches(settings, dtype)
    # the kernel rotates the new keys and puts them behind the old ones
    made = kernel("GroupQueryAttention", attributes, fed, outputs=3)
    keys = np.concatenate([old_k, rotated(k, past, settings)], 2)
    values = np.concatenate([old_v, v], 2)
    return list(zip(made, (attention(rotated(q, past, settings), keys, values), keys, values), strict=True))


PASTS = pytest.mark.parametrize("past", [0, ROWS - 1], ids=["prompt", "a token behind 4199"])


@pytest.mark.parametrize("packed", [False, True], ids=["apart", "packed"])
@PASTS
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_grouped_query_attention_takes_the_caches(settings: dict[str, Value], past: int, packed: bool) -> None:
    (out, expected), (present_k, keys), (present_v, values) = grouped(settings, past, "fp32", packed=packed)
    # the kernel sums up to 4200 products in float32
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(present_k, keys, rtol=0, atol=2e-6)
    np.testing.assert_array_equal(present_v, values)


@PASTS
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_half_precision_costs_what_its_roundings_do(settings: dict[str, Value], past: int) -> None:
    (out, expected), (present_k, keys), (present_v, values) = grouped(settings, past, "fp16", packed=False)
    # a key is two products and a sum, of numbers that were rounded to 2^-11 of them: at most 5 such roundings of the
    # largest feature
    np.testing.assert_allclose(present_k.astype(np.float64), keys, rtol=0, atol=5 * 2.0**-11 * np.abs(keys).max())
    # means of values, as far off as half precision may be anywhere here: 2 x 2^-10 of the largest number
    np.testing.assert_allclose(out.astype(np.float64), expected, rtol=0, atol=2 * 2.0**-10 * np.abs(expected).max())
    np.testing.assert_array_equal(present_v, values)


@pytest.mark.parametrize("section_layout", ["sectioned", "interleaved"])
def test_multimodal_rotary_embedding_takes_the_caches_of_one_position(section_layout: str) -> None:
    settings: dict[str, Value] = {"rope_theta": 1e6}
    heads, positions = drawn(0, HEADS, PROMPT), np.random.default_rng(1).integers(0, ROWS, (3, 1, PROMPT))
    # interleaved height and width have a third of the pairs each at most
    sections = (12, 10, 10)
    sectioned = {"sections": sections, "section_layout": section_layout}
    encoding = posenc.build("mrope", BAKED, head_dim=HEAD_DIM, **settings, **sectioned)
    feeds = {"q": heads, "k": heads[:, :1], "positions": positions}
    attributes = {"mrope_section": sections, "mrope_layout": int(section_layout == "interleaved")}
    fed = {"input": heads, "position_ids": positions} | caches(settings)
    (out,) = kernel("MRotaryEmbedding", attributes, fed, outputs=1)
    np.testing.assert_allclose(out, encoding.reference(feeds, None)["q_rotated"], rtol=0, atol=2e-6)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_an_exported_file_holds_what_the_kernels_took(tmp_path: Path, settings: dict[str, Value]) -> None:
    parameters = {"head_dim": HEAD_DIM, "output": "cos_sin", **settings}
    result = run("rope", BAKED, parameters, tmp_path, formats=("cache",))
    assert result.passed, result.verdicts
    read = load_file(result.folder / FORMATS["cache"].file)
    expected = caches(settings)
    assert read.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(read[name], array, strict=True)
