"""Shapes of ONNX Runtime's operators of attention and embedding, and the tables that end in them."""

from __future__ import annotations

import numpy as np

from posenc_export.read.interpret.call import NodeCall
from posenc_export.read.interpret.shapes import Kind

COS, TOTAL = 7, 6
"""Where GroupQueryAttention takes its cosines and the total length."""
PAST_KEY = {
    "MultiHeadAttention": 6,
    "DecoderMaskedMultiHeadAttention": 5,
    "GroupQueryAttention": 3,
    "SparseAttention": 3,
}
BIAS = {"MultiHeadAttention": 5, "DecoderMaskedMultiHeadAttention": 4}
"""Where operators take keys of the past and what is added to scores."""


def embedded(call: NodeCall) -> list[Kind | None]:
    """Return the shapes of EmbedLayerNormalization; raises Stopped where its table of positions ends."""
    batch, length = call.shape(0)
    quantized = call.node.op_type.startswith("Q")
    words, places = call.shape(2), call.shape(3)
    ids = 8
    # without ids, rows are taken from the first on
    last = (call.number(ids) if not quantized and call.has(ids) else None) or length - 1
    call.require(last < places[0], f"position {last} is outside of the {places[0]} rows of {call.node.inputs[3]!r}")
    whole: Kind = ((batch, length, words[1]), call.dtype(5) if quantized else call.dtype(2))
    return [whole, ((batch,), np.dtype(np.int32)), whole]


def attention(call: NodeCall) -> list[Kind | None]:
    """Return the shapes of the Attention of ONNX Runtime: queries, keys and values come of one weight."""
    batch, length, _ = call.shape(0)
    # queries, keys and values are as wide as each other unless an attribute says otherwise
    sizes = call.node.attributes.get("qkv_hidden_sizes")
    weights = call.shape(1) if call.has(1) else (0, 3 * call.shape(0)[2])
    hidden = int(np.ravel(np.asarray(sizes))[2]) if sizes is not None else weights[1] // 3
    heads = max(call.integer("num_heads", 1), 1)
    past = call.shape(4) if call.has(4) else (2, batch, heads, 0, hidden // heads)
    total = length + past[3]
    bias = 5
    if call.has(bias):
        call.broadcast(call.shape(bias), (batch, heads, length, total))
    return [((batch, length, hidden), call.dtype(0)), ((2, batch, heads, total, past[4]), call.dtype(0))]


def quantized_attention(call: NodeCall) -> list[Kind | None]:
    """Return the shapes of QAttention, whose output has the type of its scales."""
    batch, length, _ = call.shape(0)
    hidden, heads = call.shape(1)[1] // 3, max(call.integer("num_heads", 1), 1)
    past = 8
    total = length + (call.shape(past)[3] if call.has(past) else 0)
    scale = call.dtype(3)
    return [
        ((batch, length, hidden), scale),
        ((2, batch, heads, total, hidden // heads), scale),
    ]


def many_headed(call: NodeCall) -> list[Kind | None]:
    """Return the shapes of MultiHeadAttention; raises Stopped where what is added to scores does not fit."""
    query, heads = call.shape(0), max(call.integer("num_heads", 1), 1)
    batch, length = query[:2]
    if len(query) == 5:  # queries, keys and values packed: batch, length, heads, 3, width
        hidden, keys = heads * query[4], length
    else:
        value = call.shape(2) if call.has(2) else call.shape(1)
        hidden, keys = (value[2], value[1]) if len(value) == 3 else (heads * value[-1], value[-2])
    past = PAST_KEY[call.node.op_type]
    total = keys + (call.shape(past)[2] if call.has(past) else 0)
    bias = BIAS[call.node.op_type]
    if call.has(bias):
        call.broadcast(call.shape(bias), (batch, heads, length, total))
    present: Kind = ((batch, heads, total, hidden // heads), call.dtype(0))
    return [((batch, length, hidden), call.dtype(0)), present, present]


def grouped(call: NodeCall) -> list[Kind | None]:
    """Return the shapes of GroupQueryAttention; raises Stopped where its cosines end before the total length."""
    batch, length, width = call.shape(0)
    heads, key_heads = max(call.integer("num_heads", 1), 1), max(call.integer("kv_num_heads", 1), 1)
    # without keys of their own, queries, keys and values are packed into one
    head = width // heads if call.has(1) else width // (heads + 2 * key_heads)
    past = PAST_KEY[call.node.op_type]
    before = call.shape(past)[2] if call.has(past) else 0
    total = (call.number(TOTAL) if call.node.op_type == "GroupQueryAttention" else None) or before + length
    # ONNX Runtime asks for as many rows as there are tokens, with those of the past
    if call.has(COS) and call.integer("do_rotary"):
        rows = call.shape(COS)[0]
        call.require(total <= rows, f"{total} tokens and {rows} rows in {call.node.inputs[COS]!r}")
    present: Kind = ((batch, key_heads, max(total, before), head), call.dtype(0))
    return [((batch, length, heads * head), call.dtype(0)), present, present]


def paged(call: NodeCall) -> list[Kind | None]:
    """Return the shapes of PagedAttention, whose tokens of all sequences stand one after another."""
    count, width = call.shape(0)
    heads, key_heads = max(call.integer("num_heads", 1), 1), max(call.integer("kv_num_heads", 1), 1)
    hidden = width if call.has(1) else width // (heads + 2 * key_heads) * heads
    caches: list[Kind | None] = [(call.shape(i), call.dtype(i)) if call.has(i) else None for i in (3, 4)]
    return [((count, hidden), call.dtype(0)), *caches]


def relative_bias(call: NodeCall) -> list[Kind | None]:
    """Return the shape of RelativePositionBias, from its table and the numbers of queries and keys."""
    query, keys = call.number(1), call.number(2)
    return [None if query is None or keys is None else ((1, call.shape(0)[1], query, keys), call.dtype(0))]


def gated_bias(call: NodeCall) -> list[Kind | None]:
    """Return the shape of GatedRelativePositionBias: that of the bias, for each batch."""
    batch, bias = call.shape(0)[0], call.shape(2)
    return [((batch, *bias[1:]), call.dtype(0))]
