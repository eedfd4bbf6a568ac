"""ONNX Runtime's own fusions of a small attention whose rotation is our file: what they count, and the same numbers."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import compose, helper, numpy_helper, parser
from onnxruntime.transformers import optimizer
from onnxruntime.transformers.convert_generation import replace_mha_with_gqa

from helpers.combinations import run
from posenc.ports import Array
from posenc.spec import Spec

HEADS, HEAD_DIM, HIDDEN, ROWS = 4, 16, 64, 300
# One token behind a cache, as the TorchScript-based exporter writes Llama's attention: the fusions know this form.
BEFORE = """<ir_version: 8, opset_import: ["" : 18, "com.microsoft" : 1]>
before (float[b, 1, 64] x, int64[b, 1] positions, int64[b, t] mask,
        float[b, 4, p, 16] past_k, float[b, 4, p, 16] past_v)
    => (float[b, 4, 1, 16] q, float[b, 4, 1, 16] k, float[b, 4, 1, 16] v, int64[3] merged, float[b, 1, 1, t] bias)
    <int64 zero = {0}, int64 one = {1}, int64[1] first = {0}, int64[1] second = {1}, int64[1] third = {2},
     int64[1] heads = {4}, int64[1] dim = {16}, int64[1] rest = {-1}, float unit = {1.0}, float least = {-10000.0}>
{
    shape = Shape(x)
    batch = Gather(shape, zero)
    seq = Gather(shape, one)
    b1 = Unsqueeze(batch, first)
    s1 = Unsqueeze(seq, first)
    split = Concat <axis = 0> (b1, s1, heads, dim)
    merged = Concat <axis = 0> (b1, s1, rest)
    flat_q = MatMul(x, wq)
    heads_q = Reshape(flat_q, split)
    q = Transpose <perm = [0, 2, 1, 3]> (heads_q)
    flat_k = MatMul(x, wk)
    heads_k = Reshape(flat_k, split)
    k = Transpose <perm = [0, 2, 1, 3]> (heads_k)
    flat_v = MatMul(x, wv)
    heads_v = Reshape(flat_v, split)
    v = Transpose <perm = [0, 2, 1, 3]> (heads_v)
    mask_rows = Unsqueeze(mask, second)
    mask_heads = Unsqueeze(mask_rows, third)
    mask_shape = Shape(mask_heads)
    wide_mask = Expand(mask_heads, mask_shape)
    float_mask = Cast <to = 1> (wide_mask)
    left_out = Sub(unit, float_mask)
    is_left_out = Cast <to = 9> (left_out)
    bias = Where(is_left_out, least, left_out)
}"""
AFTER = """<ir_version: 8, opset_import: ["" : 18, "com.microsoft" : 1]>
after (float[b, 1, 64] x, float[b, 4, 1, 16] qr, float[b, 4, 1, 16] kr, float[b, 4, 1, 16] v, int64[3] merged,
       float[b, 1, 1, t] bias, float[b, 4, p, 16] past_k, float[b, 4, p, 16] past_v)
    => (float[b, 1, 64] y, float[b, 4, t, 16] present_k, float[b, 4, t, 16] present_v) <float root = {4.0}>
{
    present_k = Concat <axis = 2> (past_k, kr)
    present_v = Concat <axis = 2> (past_v, v)
    columns = Transpose <perm = [0, 1, 3, 2]> (present_k)
    products = MatMul(qr, columns)
    scaled = Div(products, root)
    biased = Add(scaled, bias)
    shares = Softmax <axis = -1> (biased)
    mixed = MatMul(shares, present_v)
    tokens = Transpose <perm = [0, 2, 1, 3]> (mixed)
    joined = Reshape(tokens, merged)
    projected = MatMul(joined, wo)
    y = Add(x, projected)
}"""


def attention(rotation: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model of one attention with a cache, rotated by a file of ours."""
    before, after = parser.parse_model(BEFORE), parser.parse_model(AFTER)
    draw = np.random.default_rng(0)
    for name in ("wq", "wk", "wv", "wo"):
        weights = (0.3 * draw.standard_normal((HIDDEN, HIDDEN))).astype(np.float32)
        (after if name == "wo" else before).graph.initializer.append(numpy_helper.from_array(weights, name))
    ours = compose.add_prefix(rotation, "rotary_")
    nodes = [*before.graph.node]
    # the names of our ports are those of the attention's values
    joined = {"rotary_q": "q", "rotary_k": "k", "rotary_positions": "positions"}
    joined |= {"rotary_q_rotated": "qr", "rotary_k_rotated": "kr"}
    for node in ours.graph.node:
        node.input[:] = [joined.get(name, name) for name in node.input]
        node.output[:] = [joined.get(name, name) for name in node.output]
        nodes.append(node)
    graph = helper.make_graph(
        [*nodes, *after.graph.node],
        "attention",
        list(before.graph.input),
        list(after.graph.output),
        [*before.graph.initializer, *ours.graph.initializer, *after.graph.initializer],
    )
    return helper.make_model(graph, opset_imports=list(before.opset_import), ir_version=8)


def counts(model: onnx.ModelProto) -> dict[str, int]:
    """Return how many operators of com.microsoft a model has."""
    names = [n.op_type for n in model.graph.node if n.domain == "com.microsoft"]
    return {name: names.count(name) for name in sorted(set(names))}


def outputs(model: onnx.ModelProto, past: int) -> list[Array]:
    """Run a token of one sequence behind a cache."""
    draw = np.random.default_rng(past)
    cache = (1, HEADS, past, HEAD_DIM)
    feeds = {
        "x": draw.standard_normal((1, 1, HIDDEN), dtype=np.float32),
        "positions": np.array([[past]]),
        "mask": np.ones((1, past + 1), np.int64),
        "past_k": draw.standard_normal(cache, dtype=np.float32),
        "past_v": draw.standard_normal(cache, dtype=np.float32),
    }
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    # GroupQueryAttention counts positions by itself, and an optimizer drops the input
    fed = {port.name: feeds[port.name] for port in session.get_inputs()}
    return [np.asarray(array) for array in session.run(["y", "present_k", "present_v"], fed)]


def optimized(model: onnx.ModelProto, folder: Path) -> Any:
    """Return a model after the fusions of onnxruntime.transformers."""
    onnx.save(model, folder / "attention.onnx")
    options = {"model_type": "gpt2", "num_heads": HEADS, "hidden_size": HIDDEN, "opt_level": 0}
    return optimizer.optimize_model(str(folder / "attention.onnx"), **options)


def written(folder: Path, spec: Spec) -> onnx.ModelProto:
    """Return our file with one operator for a rotation."""
    parameters = {"head_dim": HEAD_DIM}
    result = run("rope", spec, parameters, folder, formats=("onnx",), rotary_op="microsoft", validate=False)
    return onnx.load(result.folder / "model.onnx")


def test_a_rotation_by_stored_tables_is_fused_with_attention(tmp_path: Path) -> None:
    plain = attention(written(tmp_path / "bundle", Spec("baked", max_len=ROWS)))
    assert counts(plain) == {"RotaryEmbedding": 2}
    model = optimized(plain, tmp_path)
    assert counts(model.model) == {"MultiHeadAttention": 1, "RotaryEmbedding": 2}
    fused = onnx.ModelProto()
    fused.CopyFrom(model.model)
    replace_mha_with_gqa(model, "mask")
    model.prune_graph()
    assert counts(model.model) == {"GroupQueryAttention": 1}
    (node,) = [n for n in model.model.graph.node if n.op_type == "GroupQueryAttention"]
    stored = {tensor.name: tuple(tensor.dims) for tensor in model.model.graph.initializer}
    # its caches are our tables, whole
    assert [stored[name] for name in node.input[7:9]] == [(ROWS, HEAD_DIM // 2)] * 2
    for past in (1, 8, ROWS - 1):
        expected = outputs(plain, past)
        for optimizer_made in (fused, model.model):
            for array, unfused in zip(outputs(optimizer_made, past), expected, strict=True):
                # attention sums in another order
                np.testing.assert_allclose(array, unfused, rtol=0, atol=1e-5)


@pytest.mark.exhaustive
def test_a_rotation_by_the_caches_of_a_call_is_not(tmp_path: Path) -> None:
    model = optimized(attention(written(tmp_path / "bundle", Spec("dynamic", max_len=ROWS))), tmp_path)
    assert counts(model.model) == {"RotaryEmbedding": 2}
