"""The table of kernels and their caches says what the operators' own schemas say, and names tests that are there."""

import re

import numpy as np
import onnx
import pytest
import torch
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

import posenc
from helpers.shared import ROOT
from posenc.spec import Spec

PAGE = (ROOT / "docs" / "explanation" / "rotary-in-deployment.md").read_text(encoding="utf-8")
PART = PAGE.partition("## Which kernel wants which cache")[2].partition("\n\nArrays, shapes")[0]
DTYPES = {"tensor(float)": "float32", "tensor(float16)": "float16", "tensor(bfloat16)": "bfloat16"}


def cells(name: str, domain: str) -> list[str]:
    """Return the cells of the line of an operator."""
    lines = [line for line in PART.splitlines() if line.startswith(f"| [{name}]") and f"({domain}" in line]
    assert len(lines) == 1
    return lines[0].strip("| ").split(" | ")


def check(line: list[str], inputs: list[str], attributes: set[str], dtypes: set[str]) -> None:
    """Hold a line against the inputs, the attributes and the types of an operator."""
    _, arrays, _, kinds, pairing, *_ = line
    assert {"cos_cache", "sin_cache"} <= set(inputs)
    assert re.findall(r"`(\w+_cache)`", arrays) == ["cos_cache", "sin_cache"]
    assert set(re.findall(r"b?float\d+", kinds)) == dtypes
    flags = re.findall(r"^`(\w+)`", pairing)
    assert flags
    assert set(flags) <= attributes
    assert set(re.findall(r"`(do_rotary|mrope_layout)=1`", pairing)) <= attributes


@pytest.mark.parametrize("name", ["GroupQueryAttention", "MRotaryEmbedding", "RotaryEmbedding", "PagedAttention"])
def test_the_lines_of_com_microsoft_are_those_of_its_schemas(name: str) -> None:
    schemas = [one for one in get_all_operator_schema() if (one.domain, one.name) == ("com.microsoft", name)]
    (schema,) = schemas
    types = next(t.allowed_type_strs for t in schema.type_constraints if t.type_param_str == "T")
    inputs = [port.name for port in schema.inputs]
    line = cells(name, "com.microsoft")
    check(line, inputs, set(schema.attributes), {DTYPES[kind] for kind in types})
    # (rows, pairs): what the table says of the shape
    described = next(port.description for port in schema.inputs if port.name == "cos_cache")
    assert re.match(r"2D tensor with shape \(max[ _]\w+[ _]\w+, head_size / 2\)", described)
    assert line[2].startswith("(rows, pairs)")


def test_the_line_of_ai_onnx_is_that_of_its_schema() -> None:
    schema = onnx.defs.get_schema("RotaryEmbedding", 23, "")
    types = next(t.allowed_type_strs for t in schema.type_constraints if t.type_param_str == "T")
    inputs = [port.name for port in schema.inputs]
    line = cells("RotaryEmbedding", "ai.onnx")
    check(line, inputs, set(schema.attributes), {DTYPES[kind] for kind in types})
    assert inputs.index("cos_cache") < inputs.index("position_ids")
    assert "before `position_ids`" in line[1]
    described = schema.inputs[inputs.index("cos_cache")].description
    assert "3D tensor with shape `(batch_size, sequence_length, head_size / 2)`" in described
    assert "(batch, seq, pairs)" in line[2]


def test_every_line_names_a_test_or_says_that_none_runs() -> None:
    assert len(PART.splitlines()) >= 10
    for line in PART.splitlines():
        if line.startswith("| ["):
            held = line.strip("| ").split(" | ")[-1]
            (name,) = re.findall(r"^(?:`(test_\w+\.py)`|not run here)", held)
            assert not name or list((ROOT / "runtime_tests").rglob(name))


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_cosines_and_sines_side_by_side_rotate_as_vllm_documents(layout: str) -> None:
    spec, tokens = Spec("baked", max_len=70), np.arange(70)[None]
    settings = {"head_dim": 16, "rotary_dim": 8}
    cos, sin = posenc.build("rope", spec, **settings, output="cos_sin").module(torch.from_numpy(tokens))
    side_by_side = torch.cat([cos[0], sin[0]], -1)
    assert side_by_side.shape == (70, 8)
    heads = torch.from_numpy(np.random.default_rng(0).standard_normal((70, 16), dtype=np.float32))
    # what its page says: a row is halved into cosines and sines, the first rotary_dim features are rotated
    cos, sin = side_by_side.index_select(0, torch.arange(70)).chunk(2, -1)
    turned, passing = heads[:, :8], heads[:, 8:]
    is_neox_style = layout == "halves"
    x1, x2 = turned.chunk(2, -1) if is_neox_style else (turned[:, ::2], turned[:, 1::2])
    pairs = (x1 * cos - x2 * sin, x2 * cos + x1 * sin)
    rotated = torch.cat(pairs, -1) if is_neox_style else torch.stack(pairs, -1).flatten(-2)
    q = heads.numpy()[None, None]
    expected = posenc.build("rope", spec, **settings, layout=layout).reference(
        {"q": q, "k": q, "positions": tokens}, None
    )
    ours = torch.cat([rotated, passing], -1).numpy()
    np.testing.assert_allclose(ours, expected["q_rotated"][0, 0], rtol=0, atol=2e-6)
