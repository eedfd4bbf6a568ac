"""Shapes of ONNX Runtime's own operators: those that it gives when it runs them."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from helpers.graph_files import graph, runs, written
from posenc_export.read.ends import find_end
from posenc_export.read.graph.read import read_graph
from posenc_export.read.interpret.run import interpret
from posenc_export.read.interpret.state import shape_of
from posenc_export.read.values import Array

F, H = np.float32, np.float16
ROWS = np.ones((32, 4), F)
NODES: dict[str, tuple[str, dict[str, tuple[int, ...]], dict[str, Array]]] = {
    "skip": (
        "y, m, d, s = com.microsoft.SkipLayerNormalization (a, c, g)",
        {"a": (2, 5, 8), "c": (2, 5, 8)},
        {"g": np.ones(8, F)},
    ),
    "simplified": ("y = SimplifiedLayerNormalization (a, g)", {"a": (2, 5, 8)}, {"g": np.ones(8, F)}),
    "rotated": (
        "y = com.microsoft.RotaryEmbedding (a, ids, cos, sin)",
        {"a": (2, 3, 5, 8)},
        {"ids": np.arange(10).reshape(2, 5), "cos": ROWS, "sin": ROWS},
    ),
    "grouped": (
        "y, k, v = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2, do_rotary = 1>"
        " (a, c, d, p, q, last, total, cos, sin)",
        {"a": (2, 5, 64), "c": (2, 5, 32), "d": (2, 5, 32), "p": (2, 2, 0, 16), "q": (2, 2, 0, 16)},
        {
            "last": np.full(2, 4, np.int32), "total": np.array(5, np.int32),
            "cos": np.ones((32, 8), F), "sin": np.ones((32, 8), F),
        },
    ),
    "many headed": (
        "y, k, v = com.microsoft.MultiHeadAttention <num_heads = 4> (a, c, d)",
        {"a": (2, 5, 32), "c": (2, 7, 32), "d": (2, 7, 32)},
        {},
    ),
    "attended": (
        "y = com.microsoft.Attention <num_heads = 4> (a, w, bias)",
        {"a": (2, 5, 32)},
        {"w": np.ones((32, 96), F), "bias": np.ones(96, F)},
    ),
    "fused product": (
        "y = com.microsoft.FusedMatMul <transA = 1, transB = 1> (a, c)",
        {"a": (2, 8, 5), "c": (2, 7, 8)},
        {},
    ),
    "fused gemm": (
        'y = com.microsoft.FusedGemm <transB = 1, activation = "Relu"> (a, w, bias)',
        {"a": (5, 8)},
        {"w": np.ones((7, 8), F), "bias": np.ones(7, F)},
    ),
    "fused convolution": (
        'y = com.microsoft.FusedConv <activation = "Relu", kernel_shape = [3, 3], strides = [2, 1]> (a, w)',
        {"a": (1, 3, 9, 8)},
        {"w": np.ones((4, 3, 3, 3), F)},
    ),
    "biased gelu": ("y = com.microsoft.BiasGelu (a, bias)", {"a": (2, 5, 8)}, {"bias": np.ones(8, F)}),
    "embedded": (
        "y, m = com.microsoft.EmbedLayerNormalization (ids, , words, places, , g, g)",
        {},
        {
            "ids": np.full((2, 5), 3, np.int32), "words": np.ones((9, 8), F),
            "places": ROWS.repeat(2, 1), "g": np.ones(8, F),
        },
    ),
    "quantized product": (
        "y = com.microsoft.DynamicQuantizeMatMul (a, w, scale)",
        {"a": (2, 5, 8)},
        {"w": np.ones((8, 7), np.uint8), "scale": np.array(0.1, F)},
    ),
    "packed product": (
        "y = com.microsoft.MatMulNBits <K = 32, N = 7, bits = 4, block_size = 32> (a, w, scale)",
        {"a": (2, 5, 32)},
        {"w": np.ones((7, 1, 16), np.uint8), "scale": np.ones(7, F)},
    ),
}  # fmt: skip


def body_of(node: str, shapes: dict[str, tuple[int, ...]]) -> str:
    inputs = ", ".join(f"float[{', '.join(map(str, shape))}] {name}" for name, shape in shapes.items())
    return f"g ({inputs}) => (float y) {{ {node} }}"


@pytest.mark.parametrize("name", NODES)
def test_shapes_are_those_that_onnx_runtime_gives(name: str, tmp_path: Path) -> None:
    node, shapes, tables = NODES[name]
    path = written(tmp_path, body_of(node, shapes), tables, opset=17)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()][:1]
    results = session.run(names, {key: np.ones(shape, F) for key, shape in shapes.items()})
    run = interpret(read_graph(path))
    assert run.stopped is None
    assert [shape_of(run.values[key]) for key in names] == [result.shape for result in results]


@pytest.mark.parametrize("length", [32, 33])
def test_rotary_operators_end_with_their_cosines(length: int, tmp_path: Path) -> None:
    node = "y = com.microsoft.RotaryEmbedding (a, position_ids, cos, sin)"
    body = f"g (float[1, 3, s, 8] a, int64[1, s] position_ids) => (float y) {{ {node} }}"
    path = written(tmp_path, body, {"cos": ROWS, "sin": ROWS})
    feeds: dict[str, Array] = {"a": np.ones((1, 3, length, 8), F), "position_ids": np.arange(length)[None]}
    run = interpret(read_graph(path), {"s": length})
    assert (run.stopped is None) is runs(path, feeds) is (length == 32)


def test_tables_of_operators_meet_data(tmp_path: Path) -> None:
    node, shapes, tables = NODES["grouped"]
    run = interpret(graph(tmp_path, body_of(node, shapes), tables))
    assert [item.op_type for item in run.meetings] == ["GroupQueryAttention"]


def test_grouped_attention_ends_with_its_cosines(tmp_path: Path) -> None:
    caches = "float[1, 2, past, 16] past_key, float[1, 2, past, 16] past_value"
    data = "float[1, sequence, 64] q, float[1, sequence, 32] k, float[1, sequence, 32] v"
    names = "q, k, v, past_key, past_value, seqlens_k, total, cos, sin"
    body = f"""g ({data}, {caches}, int32[1] seqlens_k, int32[1] total) => (float y, float a, float c) {{
        y, a, c = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2, do_rotary = 1> ({names})
    }}"""
    path = written(tmp_path, body, {"cos": np.ones((32, 8), F), "sin": np.ones((32, 8), F)}, opset=17)
    end = find_end(read_graph(path))
    assert end is not None
    assert (end.last, end.beyond) == (32, "refuses")
    for length in (32, 33):
        cache, keys = np.ones((1, 2, 0, 16), F), np.ones((1, length, 32), F)
        feeds: dict[str, Array] = {"q": np.ones((1, length, 64), F), "k": keys, "v": keys}
        feeds |= {"past_key": cache, "past_value": cache, "seqlens_k": np.array([length - 1], np.int32)}
        assert runs(path, {**feeds, "total": np.array([length], np.int32)}) is (length == 32)
