"""Small graphs of the operators that look rotary tables up themselves, with tables of 2048 rows."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from helpers.graph_files import written

ROWS, PAIRS, THETA = 2048, 8, 1e6
GRAPHS = {
    "RotaryEmbedding": """
g (float[batch, 2, sequence, 16] q, int64[batch, sequence] position_ids) => (float[batch, 2, sequence, 16] rotated) {
    rotated = com.microsoft.RotaryEmbedding (q, position_ids, cos_cache, sin_cache)
}""",
    "RotaryEmbedding of ONNX": """
g (float[batch, 2, sequence, 16] q, int64[batch, sequence] position_ids) => (float[batch, 2, sequence, 16] rotated) {
    rotated = RotaryEmbedding (q, cos_cache, sin_cache, position_ids)
}""",
    "MRotaryEmbedding": """
g (float[batch, 2, sequence, 16] q, int64[3, batch, sequence] position_ids) => (float[batch, 2, sequence, 16] rotated) {
    rotated = com.microsoft.MRotaryEmbedding <mrope_section = [4, 2, 2]> (q, position_ids, cos_cache, sin_cache)
}""",
    "GroupQueryAttention": """
g (float[batch, sequence, 32] q, float[batch, sequence, 16] k, float[batch, sequence, 16] v,
   float[batch, 1, past, 16] past_key, float[batch, 1, past, 16] past_value,
   int64[batch, past_plus_sequence] attention_mask)
=> (float[batch, sequence, 32] out, float[batch, 1, past_plus_sequence, 16] key,
    float[batch, 1, past_plus_sequence, 16] value) {
    one = Constant <value = int64[1] {1}> ()
    tokens = ReduceSum <keepdims = 0> (attention_mask, one)
    last = Sub (tokens, one)
    seqlens_k = Cast <to = 6> (last)
    second = Constant <value = int64 {1}> ()
    mask_shape = Shape (attention_mask)
    total_length = Gather (mask_shape, second)
    total = Cast <to = 6> (total_length)
    out, key, value = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1, do_rotary = 1>
        (q, k, v, past_key, past_value, seqlens_k, total, cos_cache, sin_cache)
}""",
    "PagedAttention": """
g (float16[tokens, 32] q, float16[tokens, 16] k, float16[tokens, 16] v, float16[blocks, 16, 1, 16] key_cache,
   float16[blocks, 16, 1, 16] value_cache, int32[batch_plus_1] cumulative, int32[batch] past, int32[batch, pages] table)
=> (float16[tokens, 32] out) {
    out, key, value = com.microsoft.PagedAttention <num_heads = 2, kv_num_heads = 1, do_rotary = 1>
        (q, k, v, key_cache, value_cache, cumulative, past, table, cos_cache, sin_cache)
}""",
}
"""Graphs by operator; ONNX Runtime has PagedAttention on CUDA alone."""


def cos_sin(rows: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return cosines and sines (rows, pairs) as powers of one turn, and not of angles."""
    turns = np.exp(1j * THETA ** (-np.arange(PAIRS, dtype=np.longdouble) / PAIRS)) ** np.arange(rows)[:, None]
    return np.asarray(turns.real, np.float64), np.asarray(turns.imag, np.float64)


def of_kernel(folder: Path, name: str) -> Path:
    """Write the graph of an operator, with tables as models make them: of angles in float32, in the inputs' dtype."""
    dtype = np.float16 if "float16" in GRAPHS[name] else np.float32
    inv_freq = (THETA ** (-np.arange(PAIRS) / PAIRS)).astype(np.float32)
    angles = np.arange(ROWS, dtype=np.float32)[:, None] * inv_freq
    tables = {"cos_cache": np.cos(angles).astype(dtype), "sin_cache": np.sin(angles).astype(dtype)}
    opset = 23 if name.endswith("ONNX") else 18
    return written(folder, GRAPHS[name], tables, opset)
