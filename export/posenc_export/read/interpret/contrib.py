"""Shapes of operators that the onnx package does not know: those of ONNX Runtime, and those its optimizers put in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from posenc_export.read.graph import Node
from posenc_export.read.interpret.attending import (
    attention,
    embedded,
    gated_bias,
    grouped,
    many_headed,
    paged,
    quantized_attention,
    relative_bias,
)
from posenc_export.read.interpret.call import NodeCall
from posenc_export.read.interpret.shapes import Kind, inferred
from posenc_export.read.values import Data, Operand, Shape

Rule = Callable[[NodeCall], list[Kind | None]]


def contributed(node: Node, operands: Sequence[Operand | None], opsets: Mapping[str, int]) -> list[Kind | None]:
    """Return what each output of a node is, by the table; None where it holds no rule; raises Stopped."""
    call = NodeCall(node, operands, opsets)
    # an operator that nobody knows has no rule, and its outputs are unknown
    rule = RULES.get(node.op_type)
    try:
        kinds = rule(call) if rule and call.known else []
    except (ValueError, IndexError, ZeroDivisionError):  # inputs of another rank, heads that divide nothing
        kinds = []
    return [*kinds, *[None] * len(node.outputs)][: len(node.outputs)]


def _alike(call: NodeCall) -> list[Kind | None]:
    """Return the shape of the first input, for every output."""
    return [(call.shape(0), call.dtype(0))] * len(call.node.outputs)


def _normalized(call: NodeCall) -> list[Kind | None]:
    """Return the shapes of a normalization: the output, its mean and deviation, the sum before it."""
    whole, reduced = (call.shape(0), call.dtype(0)), ((*call.shape(0)[:-1], 1), np.dtype(np.float32))
    return [whole, reduced, reduced, whole]


def _simplified(call: NodeCall) -> list[Kind | None]:
    whole, _, reduced, _ = _normalized(call)
    return [whole, reduced]


def _split_gelu(call: NodeCall) -> list[Kind | None]:
    shape = call.shape(0)
    return [((*shape[:-1], shape[-1] // 2), call.dtype(0))]


def _multiplied(call: NodeCall) -> list[Kind | None]:
    """Return the shape of a product whose factors may be transposed."""
    left, right = (_transposed(call, call.shape(place), side) for place, side in enumerate("AB"))
    return [(call.product(left, right), call.dtype(0))]


def _transposed(call: NodeCall, shape: Shape, side: str) -> Shape:
    """Return the shape of a factor as it is multiplied: rows may come before the batch, and columns before rows."""
    if call.integer(f"transBatch{side}") and len(shape) > 2:
        shape = (*shape[1:-1], shape[0], shape[-1])
    return (*shape[:-2], shape[-1], shape[-2]) if call.integer(f"trans{side}") and len(shape) > 1 else shape


def _dequantized_product(call: NodeCall) -> list[Kind | None]:
    """Return the shape of a product of quantized factors that comes out in float: the scale's type."""
    scale = 2
    return [(call.product(call.shape(0), call.shape(1)), call.dtype(scale))]


def _packed_product(call: NodeCall) -> list[Kind | None]:
    """Return the shape of a product with a packed weight, whose attributes say how large it is."""
    shape, columns = call.shape(0), call.integer("N")
    call.require(shape[-1] == call.integer("K", shape[-1]), f"{shape[-1]} columns and a weight of {call.integer('K')}")
    return [((*shape[:-1], columns), call.dtype(0))]


def _gemm(call: NodeCall) -> list[Kind | None]:
    """Return the shape of a Gemm, plain, with an activation, or with quantized factors."""
    left, right = call.shape(0), call.shape(3 if call.node.op_type == "QGemm" else 1)
    left = left[::-1] if call.integer("transA") else left
    right = right[::-1] if call.integer("transB") else right
    return [(call.product(left, right), call.dtype(0))]


def _broadcast_quantized(call: NodeCall) -> list[Kind | None]:
    second = 3
    return [(call.broadcast(call.shape(0), call.shape(second)), call.dtype(0))]


def _convolved(call: NodeCall) -> list[Kind | None]:
    """Return the shape of a convolution or a pooling with an activation in it, as the plain operator has it."""
    plain = {"FusedConv": "Conv", "NhwcFusedConv": "Conv", "NhwcConv": "Conv", "NhwcMaxPool": "MaxPool"}
    last = call.node.op_type.startswith("Nhwc")
    shape = call.shape(0)
    first = (shape[0], shape[-1], *shape[1:-1]) if last else shape
    # in blocks of channels, as ONNX Runtime dumps them, operators keep their names
    node = call.renamed(plain.get(call.node.op_type, call.node.op_type))
    operands = [Operand(call.node.inputs[0], Data(first, call.dtype(0))), *call.operands[1 : len(node.inputs)]]
    kind = inferred(node, operands, {"": 21})[0]
    if kind is None:
        return [None]
    out = kind[0]
    return [((out[0], *out[2:], out[1]) if last else out, kind[1])]


def _blocks_undone(call: NodeCall) -> list[Kind | None]:
    """Return the shape of data whose blocks of channels are undone: channels that filled blocks are left out."""
    batch, _, *sizes = call.shape(0)
    channels = call.integer("channels")
    shape = (batch, *sizes, channels) if call.integer("channels_last") else (batch, channels, *sizes)
    return [(shape, call.dtype(0))]


def _blocks_made(call: NodeCall) -> list[Kind | None]:
    """Return the shape of data in blocks of channels, which come first."""
    batch, *sizes = call.shape(0)
    shape = (batch, sizes[-1], *sizes[:-1]) if call.integer("channels_last") else (batch, *sizes)
    return [(shape, call.dtype(0))]


def _recurrent(call: NodeCall) -> list[Kind | None]:
    """Return the shapes of a quantized LSTM."""
    length, batch, _ = call.shape(0)
    hidden, directions = call.integer("hidden_size"), call.shape(1)[0]
    state: Kind = ((directions, batch, hidden), call.dtype(0))
    return [((length, directions, batch, hidden), call.dtype(0)), state, state]


def _block_rows(call: NodeCall) -> list[Kind | None]:
    """Return the shape of rows that are stored in blocks of few bits: bytes may hold two numbers each."""
    table, indices, axis = call.shape(0), call.shape(1), call.integer("gather_axis")
    packed = 2 if call.integer("bits", 4) == 4 and call.dtype(0) == np.uint8 else 1
    scales = 2
    shape = (*table[:axis], *indices, *table[axis + 1 : -1], table[-1] * packed)
    return [(shape, call.dtype(scales))]


def _retyped(call: NodeCall) -> list[Kind | None]:
    """Return the shape of what is quantized or not: the type is that of the scale, or of the zero point."""
    place = 1 if call.node.op_type == "DequantizeLinear" else 2
    return [(call.shape(0), call.dtype(place) if len(call.operands) > place else np.dtype(np.uint8))]


def _joined(call: NodeCall) -> list[Kind | None]:
    """Return the shape of a Concat of quantized tensors, each with scale and zero point, after those of the output."""
    axis, shapes = call.integer("axis"), [call.shape(i) for i in range(2, len(call.operands), 3)]
    joined = list(shapes[0])
    joined[axis] = sum(shape[axis] for shape in shapes)
    return [(tuple(joined), call.dtype(2))]


ALIKE = (
    "LayerNormalization RMSNormalization GroupNorm SkipGroupNorm RotaryEmbedding MRotaryEmbedding GemmaRotaryEmbedding"
    " Gelu FastGelu BiasGelu QuickGelu BiasAdd BiasSoftmax BiasDropout Silu Swish HardSwish Mish ScaledTanh Affine"
    " ThresholdedRelu Trilu MoE QMoE QLinearSigmoid QLinearLeakyRelu QLinearSoftmax"
)
"""Operators whose outputs are like their first input."""
RULES: dict[str, Rule] = {
    **dict.fromkeys(ALIKE.split(), _alike),
    "SkipLayerNormalization": _normalized,
    "SkipSimplifiedLayerNormalization": _normalized,
    "SimplifiedLayerNormalization": _simplified,
    "EmbedLayerNormalization": embedded,
    "QEmbedLayerNormalization": embedded,
    "Attention": attention,
    "QAttention": quantized_attention,
    "MultiHeadAttention": many_headed,
    "DecoderMaskedMultiHeadAttention": many_headed,
    "GroupQueryAttention": grouped,
    "SparseAttention": grouped,
    "PagedAttention": paged,
    "RelativePositionBias": relative_bias,
    "GatedRelativePositionBias": gated_bias,
    "BiasSplitGelu": _split_gelu,
    "FusedMatMul": _multiplied,
    "FusedMatMulActivation": _multiplied,
    "TransposeMatMul": _multiplied,
    "DynamicQuantizeMatMul": _dequantized_product,
    "MatMulIntegerToFloat": _dequantized_product,
    "MatMulNBits": _packed_product,
    "MatMulBnb4": _packed_product,
    "FusedGemm": _gemm,
    "QGemm": _gemm,
    "QLinearAdd": _broadcast_quantized,
    "QLinearMul": _broadcast_quantized,
    "FusedConv": _convolved,
    "NhwcFusedConv": _convolved,
    "NhwcConv": _convolved,
    "NhwcMaxPool": _convolved,
    "Conv": _convolved,
    "MaxPool": _convolved,
    "AveragePool": _convolved,
    "GlobalAveragePool": _convolved,
    "GlobalMaxPool": _convolved,
    "ReorderInput": _blocks_made,
    "ReorderOutput": _blocks_undone,
    "DynamicQuantizeLSTM": _recurrent,
    "GatherBlockQuantized": _block_rows,
    "QuantizeLinear": _retyped,
    "DequantizeLinear": _retyped,
    "QLinearConcat": _joined,
}
"""By operator, whatever its domain: ONNX Runtime writes some of its own into that of ONNX."""
