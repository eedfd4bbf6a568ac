"""Calls of operators, in all the forms that their versions have: arrays and attributes."""

from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from helpers.nodes import Arrays

DRAWN = np.random.default_rng(25)


def ints(*numbers: int) -> NDArray[np.int64]:
    return np.array(numbers, np.int64)


def floats(*shape: int) -> NDArray[np.float32]:
    return DRAWN.standard_normal(shape).astype(np.float32)


def drawn(*shape: int, low: int = -9, high: int = 10) -> NDArray[np.int64]:
    return DRAWN.integers(low, high, shape)


@dataclass(frozen=True)
class Case:
    operator: str
    opset: int
    arrays: Arrays
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    domain: str = ""

    def __str__(self) -> str:
        values = ",".join(f"{name}={value}" for name, value in self.attributes.items())
        shapes = ",".join("x".join(map(str, array.shape)) if array is not None else "-" for array in self.arrays)
        return f"{self.operator}-{self.opset}({shapes};{values})"


def case(operator: str, opset: int, *arrays: Any, outputs: int = 1, domain: str = "", **attributes: Any) -> Case:
    listed = [array if array is None else np.asarray(array) for array in arrays]
    return Case(operator, opset, listed, attributes, outputs, domain)


HALVES = (np.float16, ml_dtypes.bfloat16)
POSITIVE = np.abs(floats(99)) + np.float32(0.01)
FAR = np.arange(0, 100000, 7).astype(np.float32)
UNARY = [
    *(case(name, 13, floats(99)) for name in ("Neg", "Abs", "Exp", "Floor", "Ceil", "Sign", "Relu", "Sigmoid", "Tanh")),
    *(case(name, 13, POSITIVE) for name in ("Sqrt", "Log", "Reciprocal")),
    *(case(name, 13, FAR) for name in ("Sin", "Cos")),
    *(case(name, 13, floats(99) / 9) for name in ("Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh")),
    case("Round", 11, np.array([0.5, 1.5, 2.5, -0.5, -1.5, np.inf], np.float32)), case("Neg", 13, drawn(4)),
    case("Abs", 13, drawn(4)), case("Not", 1, drawn(5) > 0),
    case("IsNaN", 13, np.array([np.nan, 1, np.inf], np.float32)),
    case("IsInf", 10, np.array([np.inf, -np.inf, 1], np.float32), detect_negative=0),
    case("IsInf", 10, np.array([np.inf, -np.inf, 1], np.float32), detect_positive=0),
    case("Clip", 6, floats(9), min=-0.5), case("Clip", 6, floats(9), max=0.25),
    case("Clip", 13, drawn(9), None, np.array(3)), case("Clip", 13, drawn(9), np.array(-2), np.array(3)),
    case("Identity", 13, floats(3)), case("Dropout", 13, floats(3)),
]  # fmt: skip
BINARY = [
    *(case(name, 14, floats(3, 1), floats(2, 1, 4)) for name in ("Add", "Sub", "Mul", "Div")),
    *(case(name, 14, drawn(3, 1), drawn(4) + 20) for name in ("Add", "Sub", "Mul", "Div")),
    case("Div", 14, drawn(50), -drawn(50, low=1)), case("Div", 14, np.uint8(7), np.uint8(2)),
    case("Sub", 14, np.uint8(3), np.uint8(5)), case("Mod", 13, drawn(50), drawn(50, low=1)),
    case("Mod", 13, drawn(50), -drawn(50, low=1)), case("Mod", 13, floats(50), floats(50), fmod=1),
    case("Mod", 13, drawn(50), -drawn(50, low=1), fmod=1), case("Pow", 15, POSITIVE, floats(99)),
    case("Pow", 15, floats(9), np.int64(3)), case("Pow", 15, drawn(9), np.int64(3)),
    case("Pow", 15, drawn(9), np.float32(2)),
    case("Pow", 15, np.float32(10000), (np.arange(64) / 64).astype(np.float32)),
    *(case(name, 16, drawn(3, 1), drawn(4)) for name in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")),
    *(case(name, 7, drawn(3, 1) > 0, drawn(4) > 0) for name in ("And", "Or", "Xor")),
    *(case(name, 13, floats(3, 1), floats(4), floats(2, 1, 1)) for name in ("Min", "Max", "Sum", "Mean")),
    *(case(name, 18, drawn(3, 1), drawn(4)) for name in ("Min", "Max", "BitwiseAnd", "BitwiseOr", "BitwiseXor")),
    case("BitwiseNot", 18, drawn(4)), case("BitShift", 11, np.uint8(3), np.uint8(5), direction="LEFT"),
    case("BitShift", 11, np.uint64(1000), np.uint64(3), direction="RIGHT"),
    case("Where", 16, drawn(3, 1) > 0, floats(3, 4), floats(4)),
    case("Where", 16, drawn(3, 1) > 0, drawn(3, 4), np.int64(2)),
]  # fmt: skip
HALF = [

    *(case(name, 14, floats(40).astype(dtype), floats(40).astype(dtype))
      for name in ("Add", "Mul", "Div") for dtype in HALVES),
    *(case(name, 13, FAR[:99].astype(dtype)) for name in ("Sin", "Cos") for dtype in HALVES),
    case("MatMul", 13, floats(5, 40).astype(np.float16), floats(40, 3).astype(np.float16)),
    case("ReduceSum", 13, floats(500).astype(np.float16)), case("CumSum", 14, np.ones(3000, np.float64), np.int64(0)),
]  # fmt: skip
CASTS = [
    *(case("Cast", 19, floats(9) * 1000, to=to) for to in (1, 6, 7, 9, 10, 11, 16)),
    *(case("Cast", 19, drawn(9), to=to) for to in (1, 2, 3, 5, 6, 9, 10, 11, 16)),
    *(case("Cast", 19, np.array([1e9, 3, np.nan, -np.inf], np.float32), to=to, saturate=on)
      for to in (17, 19) for on in (0, 1)),
    case("CastLike", 19, floats(4) * 5, drawn(2)), case("Cast", 19, np.array([0, 0.5, -0.0, np.nan]), to=9),
    case("DequantizeLinear", 19, drawn(3, 4).astype(np.int8), POSITIVE[:4], drawn(4).astype(np.int8), axis=1),
    case("DequantizeLinear", 21, drawn(4, 4).astype(np.int8), POSITIVE[:8].reshape(4, 2), axis=1, block_size=2),
    case("DequantizeLinear", 13, drawn(3, 4, low=0, high=255).astype(np.uint8), np.float32(0.1), np.uint8(7)),
    case("DequantizeLinear", 13, drawn(3, 4).astype(np.int8), POSITIVE[:3], drawn(3).astype(np.int8), axis=0),
    case("DequantizeLinear", 10, drawn(3, 4).astype(np.int32), np.float32(0.1)),
    case("QuantizeLinear", 19, floats(3, 4) * 100, POSITIVE[:4], drawn(4).astype(np.int8), axis=1),
    case("QuantizeLinear", 13, floats(3, 4) * 100, np.float32(0.3)),
    case("QuantizeLinear", 13, FAR, np.float32(0.5), np.int8(3)),
]  # fmt: skip
MAKING = [
    case("Range", 13, np.array(7), np.array(-8), np.array(-3)),
    case("Range", 13, np.array(3), np.array(3), np.array(1)),
    case("Range", 13, np.float32(0), np.float32(20.5), np.float32(1)),
    case("Range", 13, np.array(0), np.array(10), np.array(4)), case("Shape", 15, floats(2, 3, 4), start=-2),
    case("Shape", 15, floats(2, 3, 4), start=1, end=-1), case("Shape", 1, floats(2, 3)),
    case("Shape", 15, floats(2, 3, 4), start=-9, end=9), case("Size", 13, floats(2, 3)),
    case("ConstantOfShape", 9, ints(2, 3)), case("EyeLike", 9, drawn(3, 5), k=1, dtype=1),
    case("EyeLike", 9, floats(3, 5), k=-1), case("EyeLike", 9, floats(3, 5), k=2**40),
    case("Trilu", 14, floats(2, 3, 4), np.int64(-1), upper=0), case("Trilu", 14, drawn(3, 4)),
    case("Trilu", 14, drawn(3, 4), np.int64(1)), case("Trilu", 14, drawn(3, 4), np.int64(-9)),
    case("OneHot", 11, drawn(3, 4), np.array(6), np.array([2.0, 5], np.float32), axis=1),
    case("OneHot", 11, drawn(3, 4), np.array(6), ints(2, 5)), case("NonZero", 13, drawn(3, 4) % 2),
    case("NonZero", 13, np.zeros(3)),
]  # fmt: skip
MOVING = [
    case("Reshape", 14, floats(0, 3), ints(3, 0), allowzero=1), case("Reshape", 14, floats(2, 3), ints(0, -1, 1)),
    case("Reshape", 1, floats(2, 3), shape=[-1]),
    *(case("Flatten", 13, floats(2, 3, 4), axis=axis) for axis in (-1, 0, 1, 3)),
    case("Transpose", 13, floats(2, 3, 4)), case("Transpose", 13, floats(2, 3, 4), perm=[1, 2, 0]),
    case("Squeeze", 13, floats(1, 3, 1)), case("Squeeze", 11, floats(1, 3, 1), axes=[-1]),
    case("Squeeze", 13, floats(1, 3, 1), ints(0)), case("Unsqueeze", 11, floats(3), axes=[0, 2]),
    case("Unsqueeze", 13, floats(3), ints(0, -1)), case("Expand", 13, floats(3, 1), ints(2, 1, 4)),
    case("Expand", 13, floats(3, 1), ints(1)), case("Tile", 13, floats(3, 2), ints(2, 3)),
    case("Tile", 13, floats(3, 2), ints(2, 0)), case("Concat", 13, floats(2, 3), floats(2, 1), axis=-1),
    case("Split", 2, floats(7, 4), axis=1, split=[1, 3], outputs=2), case("Split", 13, floats(6, 4), axis=0, outputs=3),
    case("Split", 18, floats(7, 4), axis=0, num_outputs=3, outputs=3),
    case("Split", 13, floats(6, 4), ints(1, 5), outputs=2),
    case("Slice", 13, floats(7, 8), ints(-1), ints(-(2**63)), ints(1), ints(-1)),
    case("Slice", 13, floats(7, 8), ints(100), ints(-100), ints(0), ints(-2)),
    case("Slice", 13, floats(7, 8), ints(-100, 6), ints(100, 2**63 - 1), ints(0, -1), ints(3, 1)),
    case("Slice", 10, floats(7, 8), ints(1), ints(3)),
    case("Slice", 1, floats(7, 8), starts=[1, -3], ends=[100, -1], axes=[1, 0]),
    case("Slice", 1, floats(7, 8), starts=[1], ends=[3]), case("Pad", 2, floats(3, 4), pads=[1, 2, 0, -1], value=3.0),
    case("Pad", 13, floats(3, 4), ints(1, 2, 0, -1)),
    case("Pad", 18, floats(3, 4), ints(2, 1), np.float32(7), ints(-1)),
    case("Pad", 13, floats(3, 4), ints(1, 2, 0, 1), mode="reflect"),
    case("Pad", 13, floats(3, 4), ints(4, 2, 0, 7), mode="edge"),
    case("Pad", 19, floats(3, 4), ints(1, 2, 0, 3), mode="wrap"),
    case("DepthToSpace", 13, floats(2, 8, 3, 4), blocksize=2),
    case("DepthToSpace", 13, floats(2, 8, 3, 4), blocksize=2, mode="CRD"),
    case("SpaceToDepth", 13, floats(2, 8, 6, 4), blocksize=2),
]  # fmt: skip
GATHERING = [
    *(case("Gather", 13, floats(3, 4), drawn(2, 2, low=-3, high=3), axis=axis) for axis in (0, 1, -1)),
    case("Gather", 13, floats(3, 4), np.array(-1)),
    case("GatherND", 12, floats(3, 4, 5), drawn(3, 2, 1) % 4, batch_dims=1),
    case("GatherND", 12, floats(3, 4, 5), drawn(7, 2) % 3),
    case("GatherElements", 13, floats(3, 4, 5), drawn(2, 4, 3) % 4, axis=1),
    case("GatherElements", 13, floats(3, 4), drawn(3, 4, low=-3, high=0)),
    *(case("ScatterND", 18, floats(4, 5), ints(1, 3, 1).reshape(3, 1), floats(3, 5), reduction=way)
      for way in ("add", "mul", "max", "min")),
    case("ScatterND", 13, floats(4, 5), ints(1, 3, 2, -1).reshape(2, 2), floats(2)),
    case("ScatterElements", 18, floats(4, 5), drawn(2, 3) % 4, floats(2, 3), axis=0, reduction="max"),
    case("ScatterElements", 18, floats(4, 5), drawn(2, 3) % 4, floats(2, 3), axis=0, reduction="add"),
    case("Scatter", 9, floats(4, 5), ints(1, 0, 3, 2, 3, 0).reshape(2, 3), floats(2, 3), axis=0),
    case("TopK", 11, floats(3, 9), ints(4), outputs=2),
    case("TopK", 11, drawn(3, 9), ints(4), largest=0, axis=1, outputs=2),
    case("TopK", 11, drawn(3, 9), ints(2), axis=0, outputs=2), case("TopK", 1, floats(3, 9), k=3, outputs=2),
    case("TopK", 10, floats(3, 9), ints(2), outputs=2),
    case("Compress", 11, floats(3, 4), np.array([True, False, True]), axis=0),
    case("Compress", 11, floats(3, 4), np.array([False, True])),
]  # fmt: skip
REDUCING = [
    case("ReduceSum", 11, floats(3, 4), axes=[1], keepdims=0), case("ReduceSum", 13, drawn(3, 4), ints(-1)),
    case("ReduceMean", 18, floats(3, 4)), case("ReduceMax", 13, drawn(3, 4), axes=[0]),
    case("ReduceProd", 13, floats(3, 4)), case("ReduceSum", 13, drawn(3, 4), noop_with_empty_axes=1),
    case("ReduceMin", 18, floats(2, 3, 4), ints(0, 2), keepdims=0),
    case("ReduceSumSquare", 13, floats(3, 4), axes=[-1]), case("ReduceL2", 13, floats(3, 4)),
    case("ReduceMean", 13, floats(3, 4), axes=[-1]), case("ReduceMax", 18, drawn(3, 4), keepdims=0),
    case("ArgMax", 13, drawn(5, 6) % 3, axis=1, select_last_index=1), case("ArgMax", 13, drawn(5, 6) % 3, keepdims=0),
    case("ArgMin", 13, drawn(5, 6) % 3), case("CumSum", 14, floats(3, 4), np.int64(1), exclusive=1),
    case("CumSum", 14, floats(3, 4), np.int64(-2), reverse=1),
    case("CumSum", 14, drawn(3, 4), np.int64(1), exclusive=1, reverse=1),
    case("CumSum", 14, drawn(5).astype(np.int32), np.int32(0)),
    case("Gemm", 13, floats(3, 4), floats(5, 4), floats(5), transB=1, alpha=0.5, beta=2.0),
    case("Gemm", 13, floats(4, 3), floats(4, 5), transA=1), case("MatMul", 13, floats(2, 3, 4), floats(4)),
    case("MatMul", 13, floats(3, 1), floats(2, 1, 5)), case("MatMul", 13, floats(3), floats(3)),
    case("Einsum", 12, floats(5), floats(3), equation="i,j->ij"),
    case("Einsum", 12, floats(2, 5), floats(2, 5, 3), equation="bi,bij"),
    case("Einsum", 12, floats(2, 5), floats(5, 3), equation="...i, ij -> ...j"),
]  # fmt: skip
ELSEWHERE = [
    case("Resize", 13, floats(1, 2, 3, 3), None, np.array([1, 1, 2, 2], np.float32), mode="linear"),
    case("Softmax", 13, floats(3, 4)),
    case("Resize", 13, floats(1, 2, 3, 3), None, None, ints(1, 2, 7, 5), mode="cubic"),
    case("LayerNormalization", 17, floats(3, 4), floats(4)), case("Unique", 11, drawn(9)),
    case("Hardmax", 13, floats(3, 4)), case("GlobalMaxPool", 1, floats(2, 3, 4)),
    case("ReverseSequence", 10, floats(4, 3), ints(1, 2, 4)), case("ReduceLogSumExp", 18, floats(3, 4), ints(1)),
    case("Erf", 13, floats(9)), case("Softplus", 1, floats(9)),
]  # fmt: skip
MS = "com.microsoft"
CONTRIBUTED = [
    case("Range", 1, np.array(0), np.array(7), np.array(2), domain=MS),
    case("Trilu", 1, floats(3, 4), domain=MS, upper=0),
    case("DequantizeLinear", 1, drawn(3, 4).astype(np.int8), np.float32(0.1), np.int8(3), domain=MS),
    case("FusedMatMul", 1, floats(2, 3, 4), floats(2, 5, 4), domain=MS, transB=1, alpha=0.5),
    case("FusedMatMul", 1, floats(4, 3), floats(4, 5), domain=MS, transA=1),
    case("QuickGelu", 1, floats(9), domain=MS, alpha=1.5),
    case("GatherND", 1, floats(3, 4), drawn(2, 1) % 3, domain=MS),
]  # fmt: skip
