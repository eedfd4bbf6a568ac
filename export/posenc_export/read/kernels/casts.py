"""Kernels that change the element type: Cast, CastLike, and quantization of tables."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from posenc_export.read.graph.tensors import dtype_of
from posenc_export.read.kernels.call import Elsewhere, Kernel, KernelCall, place_of
from posenc_export.read.values import Array

FLOATS = (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64), np.dtype(ml_dtypes.bfloat16))
"""Types of numbers with fractions that are computed in."""
FLOAT8 = tuple(
    np.dtype(kind)
    for kind in (
        ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz,
    )
)  # fmt: skip
"""Types of eight bits, in which tables are stored."""


def cast(array: Array, dtype: np.dtype[np.generic], saturates: bool = True) -> Array:
    """Return an array in another element type; numbers outside of an integer type become its ends.

    Args:
        array: its numbers.
        dtype: the element type.
        saturates: whether numbers outside of a float of eight bits become its ends, too.
    """
    if dtype == array.dtype:
        return array
    if dtype == np.bool_:
        return np.asarray(array != np.zeros((), array.dtype), bool)
    if "O" in (array.dtype.kind, dtype.kind) or _is_small(dtype) or _is_small(array.dtype):
        raise Elsewhere("texts and packed types are left to other implementations")
    if dtype in FLOAT8 and saturates:
        ends = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
        array = np.clip(array.astype(np.float32), np.float32(ends.min), np.float32(ends.max))
    if np.issubdtype(dtype, np.integer) and (array.dtype in FLOATS or array.dtype in FLOAT8):
        return _to_integers(array, dtype)
    return array.astype(dtype)


def _holds_integers(dtype: np.dtype[np.generic]) -> bool:
    return np.issubdtype(dtype, np.integer) or "int" in dtype.name


def _is_small(dtype: np.dtype[np.generic]) -> bool:
    return dtype.kind == "V" and dtype not in FLOATS and dtype not in FLOAT8


def _to_integers(array: Array, dtype: np.dtype[np.generic]) -> Array:
    # C leaves numbers outside of the type to the machine: x86 gives the smallest of all, ARM and GPUs the nearest
    ends = np.iinfo(str(dtype))
    numbers = np.trunc(array.astype(np.float64))
    # the largest int64 is no float64: what is at or above it is set apart
    inside = (numbers > float(ends.min) - 1) & (numbers < float(ends.max) + 1)
    if float(ends.max) == float(ends.max) + 1:
        inside = (numbers >= float(ends.min)) & (numbers < float(ends.max))
    integers = np.where(inside, numbers, 0).astype(dtype)
    integers = np.where(~inside & (numbers > 0), dtype.type(ends.max), integers)
    return np.asarray(np.where(~inside & (numbers < 0), dtype.type(ends.min), integers), dtype)


def _cast(call: KernelCall) -> list[Array]:
    to = call.node.attributes.get("to")
    # the first version had the name of the type as a text
    if isinstance(to, str):
        raise Elsewhere("the first version of Cast")
    if not isinstance(to, int):
        raise ValueError("Cast has no element type to cast to")
    return _casted(call, dtype_of(to))


def _casted(call: KernelCall, dtype: np.dtype[np.generic]) -> list[Array]:
    array = call.array(0)
    # what becomes integers is double on the way
    is_wide = array.dtype.kind in "fV" and dtype.kind in "iu"
    call.room(array.shape, np.dtype(np.float64) if is_wide else dtype)
    return [cast(array, dtype, bool(call.integer("saturate", 1)))]


def _cast_like(call: KernelCall) -> list[Array]:
    return _casted(call, call.array(1).dtype)


def _along(call: KernelCall, numbers: Array, like: Array) -> Array:
    """Return scales or zero points in a shape that broadcasts with the array that they belong to."""
    if numbers.ndim == 0 or like.ndim == 0 or numbers.size == 1:
        return numbers.reshape(())
    axis, block = place_of(call.integer("axis", 1), like.ndim, call.node.op_type), call.integer("block_size", 0)
    if block:
        # a scale for each run of elements along the axis; the last run may be shorter
        return np.repeat(numbers, block, axis)[(slice(None),) * axis + (slice(like.shape[axis]),)]
    return numbers.reshape([-1 if place == axis else 1 for place in range(like.ndim)])


def _dequantize(call: KernelCall) -> list[Array]:
    array, scale = call.array(0), call.array(1)
    dtype = dtype_of(call.integer("output_dtype", 0)) if call.integer("output_dtype", 0) else scale.dtype
    call.room(array.shape, np.dtype(np.float64))
    # the difference with a zero point does not fit the stored type
    numbers = array.astype(np.int64 if _holds_integers(array.dtype) else np.float32)
    if call.has(2):
        numbers = np.subtract(numbers, _along(call, call.array(2), array).astype(numbers.dtype))
    product = np.multiply(numbers.astype(np.float32), _along(call, scale, array).astype(np.float32))
    return [np.asarray(product).astype(dtype)]


def _quantize(call: KernelCall) -> list[Array]:
    array, scale = call.array(0), call.array(1)
    wanted_type = call.integer("output_dtype", 0)
    kind = dtype_of(wanted_type) if wanted_type else np.dtype(np.uint8)
    dtype = call.array(2).dtype if call.has(2) else kind
    if not np.issubdtype(dtype, np.integer):
        raise Elsewhere("types of four and of eight bits are left to other implementations")
    call.room(array.shape, np.dtype(np.float64))
    # rounded half to even, in the type of the numbers, before the zero point comes in
    numbers = np.rint(np.divide(array, _along(call, scale, array).astype(array.dtype))).astype(np.float64)
    if call.has(2):
        numbers = np.add(numbers, _along(call, call.array(2), array).astype(np.float64))
    ends = np.iinfo(str(dtype))
    return [np.asarray(np.clip(numbers, ends.min, ends.max)).astype(dtype)]


KERNELS: dict[str, Kernel] = {
    "Cast": _cast,
    "CastLike": _cast_like,
    "DequantizeLinear": _dequantize,
    "QuantizeLinear": _quantize,
}
