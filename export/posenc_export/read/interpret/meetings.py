"""Which nodes are those in which a position value meets data or a weight."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes  # noqa: F401  its types are floats for NumPy only once it is imported
import numpy as np

from posenc_export.read.graph import Node
from posenc_export.read.interpret.state import dtype_of, is_data, is_positional, shape_of, size_of
from posenc_export.read.values import Constant, Operand, Position, Value

MOVING = {
    *(
        "Reshape",
        "Transpose",
        "Slice",
        "Split",
        "Squeeze",
        "Unsqueeze",
        "Expand",
        "Tile",
        "Identity",
        "Cast",
        "CastLike",
    ),
    *(
        "Flatten",
        "Gather",
        "GatherND",
        "Pad",
        "Shape",
        "Size",
        "Resize",
        "Upsample",
        "ConstantOfShape",
        "TopK",
        "Range",
    ),
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2", "CumSum", "OneHot", "Compress"),
    *("QuantizeLinear", "DequantizeLinear", "Dropout", "DepthToSpace", "SpaceToDepth", "ReverseSequence"),
}
"""Operators whose further inputs say where, and are not computed with."""
ELEMENTWISE = {
    *("Add", "Sub", "Mul", "Div", "Pow", "Mod", "Min", "Max", "Sum", "Mean", "Where", "Concat", "And", "Or", "Xor"),
    *("PRelu", "Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "BitShift", "BiasAdd", "BiasGelu"),
    *("QLinearAdd", "QLinearMul", "SkipLayerNormalization", "FusedElementwise", "BiasSoftmax"),
}
TABLED = {
    *("RotaryEmbedding", "MRotaryEmbedding", "GemmaRotaryEmbedding", "GroupQueryAttention", "PagedAttention"),
    *("EmbedLayerNormalization", "QEmbedLayerNormalization", "SparseAttention", "RelativePositionBias"),
    *("GatedRelativePositionBias", "MultiHeadAttention", "DecoderMaskedMultiHeadAttention", "Attention"),
}
"""Operators that take tables, ids or biases beside data."""
PRODUCTS = {
    *("MatMul", "Gemm", "Conv", "ConvTranspose", "FusedMatMul", "FusedGemm", "FusedConv", "Einsum", "MatMulInteger"),
    *("QLinearMatMul", "MatMulNBits", "QGemm", "DynamicQuantizeMatMul", "MatMulIntegerToFloat", "QLinearConv"),
    *("LSTM", "GRU", "RNN", "DynamicQuantizeLSTM", "ConvInteger", "NhwcConv", "MatMulBnb4"),
}
COORDINATES = 4
"""How many numbers say a place at most: row, column, frame, scale; what multiplies more of them is a weight."""
SHARES = 1e-2
"""How far the shares of a row may be from 1 together: in half precision they are rounded."""
WEIGHT = 256
"""How many numbers a weight has at least."""


def is_meeting(node: Node, operands: Sequence[Operand | None]) -> bool:
    """Return whether a position value, or a constant that may be one, meets data in a node."""
    values = [operand.value for operand in operands if operand]
    if node.op_type in TABLED:
        return any(is_data(value) for value in values)
    if not any(is_data(value) for value in values) or node.op_type in MOVING:
        return False
    if any(is_positional(value) for value in values):
        return True
    # a bias or a scale of a layer is such a constant, too: whoever names encodings tells them apart
    return node.op_type in ELEMENTWISE and any(_is_table(value) for value in values)


def _is_table(value: Value) -> bool:
    """Return whether a constant has several float numbers."""
    return isinstance(value, Constant) and is_float(value) and size_of(value) > 1


def is_float(value: Value) -> bool:
    """Return whether the elements of a value are float numbers, of the small types too."""
    dtype = dtype_of(value)
    return dtype is not None and (dtype.kind in "fc" or (dtype.kind == "V" and "float" in dtype.name))


def looks_up(node: Node, operands: Sequence[Operand | None]) -> bool:
    """Return whether a node takes rows of a stored table at positions."""
    if node.op_type not in ("Gather", "GatherBlockQuantized", "GatherND") or len(operands) < 2:
        return False
    table, indices = operands[0], operands[1]
    if table is None or indices is None or not isinstance(table.value, Constant):
        return False
    shape = shape_of(table.value) or ()
    # shapes and lists of sizes are taken apart by Gather too: those are no tables
    return is_positional(indices.value) and (len(shape) > 1 or (is_float(table.value) and size_of(table.value) > 1))


def is_weighted(node: Node, operands: Sequence[Operand | None]) -> bool:
    """Return whether a node multiplies position values by a stored weight, which makes them data."""
    if node.op_type not in PRODUCTS:
        return False
    values = [operand.value for operand in operands if operand]
    weights = [value for value in values if isinstance(value, Constant) and _is_weight(value)]
    return bool(weights) and any(is_positional(value) and not _resamples(value) for value in values)


def _resamples(value: Value) -> bool:
    """Return whether each row of numbers adds up to 1: shares of the rows of a table, by which it is resampled."""
    if not isinstance(value, Position) or value.array.ndim < 2 or value.array.dtype.kind != "f":
        return False
    # features of positions, such as sines, do not add up to 1
    sums = value.array.sum(axis=-1, dtype=np.float64)
    return value.array.shape[-1] > COORDINATES and bool((np.abs(sums - 1) < SHARES).all())


def _is_weight(value: Constant) -> bool:
    """Return whether a constant mixes more features than a place has coordinates."""
    shape = value.shape
    rows = int(np.prod(shape[1:])) if len(shape) > 2 else min(shape, default=0)
    return len(shape) >= 2 and rows > COORDINATES and size_of(value) >= WEIGHT
