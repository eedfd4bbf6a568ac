"""Elementwise kernels: in the element type of their inputs, as runtimes compute them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from posenc_export.read.kernels.call import Kernel, KernelCall
from posenc_export.read.values import Array

Function = Callable[..., Array]


def broadcast(call: KernelCall, dtype: np.dtype[np.generic] | None = None) -> list[Array]:
    """Return the inputs of an operator that broadcasts; TooLarge where its output would not fit.

    Args:
        call: the call.
        dtype: of the output; that of the first input if not given.
    """
    arrays = _aligned(call)
    try:
        shape = np.broadcast_shapes(*(array.shape for array in arrays))
    except ValueError:
        shapes = " and ".join(str(list(array.shape)) for array in arrays)
        raise ValueError(f"{call.node.op_type} cannot broadcast {shapes}") from None
    call.room(shape, dtype or arrays[0].dtype)
    return arrays


def _aligned(call: KernelCall) -> list[Array]:
    arrays = call.present()
    # a file may leave out what an operator needs
    if not arrays:
        raise ValueError(f"{call.node.op_type} has no inputs")
    # before opset 7, the second input began at an axis of the first
    if call.version < 7 and call.integer("broadcast", 0) and "axis" in call.node.attributes and len(arrays) == 2:
        first, second = arrays
        after = first.ndim - call.axis(first.ndim, 0) - second.ndim
        return [first, second.reshape((*second.shape, *[1] * max(after, 0)))]
    return arrays


def _plain(function: Function) -> Kernel:
    def kernel(call: KernelCall) -> list[Array]:
        arrays = broadcast(call)
        return [np.asarray(function(*arrays), arrays[0].dtype)]

    return kernel


def _variadic(function: Function) -> Kernel:
    def kernel(call: KernelCall) -> list[Array]:
        arrays = broadcast(call)
        return [np.asarray(reduce(function, arrays), arrays[0].dtype)]

    return kernel


def _question(function: Function) -> Kernel:
    def kernel(call: KernelCall) -> list[Array]:
        return [np.asarray(function(*broadcast(call, np.dtype(bool))), bool)]

    return kernel


def _is_integer(array: Array) -> bool:
    return np.issubdtype(array.dtype, np.integer)


def _divide(call: KernelCall) -> list[Array]:
    left, right = broadcast(call)
    if not _is_integer(left):
        return [np.asarray(np.divide(left, right), left.dtype)]
    _check_divisor(call, right)
    # integers are divided towards zero; NumPy's // goes down
    remainder = np.fmod(left, right)
    return [np.asarray(np.floor_divide(np.subtract(left, remainder), right), left.dtype)]


def _check_divisor(call: KernelCall, divisor: Array) -> None:
    if np.any(np.equal(divisor, 0)):
        raise ValueError(f"{call.node.op_type} divides integers by zero")


def _remainder(call: KernelCall) -> list[Array]:
    left, right = broadcast(call)
    if _is_integer(left):
        _check_divisor(call, right)
    function: Function = np.fmod if call.integer("fmod", 0) else np.mod
    return [np.asarray(function(left, right), left.dtype)]


def _power(call: KernelCall) -> list[Array]:
    base, exponent = broadcast(call)
    if base.dtype == exponent.dtype and not _is_integer(base):
        return [np.asarray(np.power(base, exponent), base.dtype)]
    # integers stay exact beyond 2^53 where they can
    if _is_integer(base) and _is_integer(exponent) and not np.any(np.less(exponent, 0)):
        return [np.asarray(np.power(base, exponent.astype(base.dtype)), base.dtype)]
    # mixed types are raised in double, and rounded once
    return [np.power(base.astype(np.float64), exponent.astype(np.float64)).astype(base.dtype)]


def _clip(call: KernelCall) -> list[Array]:
    array = call.array(0)
    low = call.array(1) if call.has(1) else _bound(call, "min", array)
    high = call.array(2) if call.has(2) else _bound(call, "max", array)
    call.room(array.shape, array.dtype)
    # where the bounds cross, the upper one holds
    array = array if low is None else np.maximum(array, low)
    return [np.asarray(array if high is None else np.minimum(array, high), array.dtype)]


def _bound(call: KernelCall, name: str, array: Array) -> Array | None:
    return np.asarray(call.number(name, 0)).astype(array.dtype) if name in call.node.attributes else None


def _where(call: KernelCall) -> list[Array]:
    condition, left, right = broadcast(call, call.array(1).dtype)
    return [np.where(condition.astype(bool), left, right)]


def _mean(call: KernelCall) -> list[Array]:
    arrays = broadcast(call)
    count = np.asarray(len(arrays)).astype(arrays[0].dtype)
    return [np.asarray(np.divide(reduce(np.add, arrays), count), arrays[0].dtype)]


def _shift(call: KernelCall) -> list[Array]:
    left, right = broadcast(call)
    function: Function = np.left_shift if call.text("direction", "LEFT") == "LEFT" else np.right_shift
    return [np.asarray(function(left, right), left.dtype)]


def _is_infinite(call: KernelCall) -> list[Array]:
    array = call.array(0)
    infinite, negative = np.isinf(array), np.signbit(array)
    above = infinite & ~negative if call.integer("detect_positive", 1) else np.zeros(array.shape, bool)
    below = infinite & negative if call.integer("detect_negative", 1) else np.zeros(array.shape, bool)
    return [np.asarray(above | below)]


def _sigmoid(array: Array) -> Array:
    numbers = np.exp(np.negative(array))
    unit = np.ones((), array.dtype)
    return np.asarray(np.divide(unit, np.add(numbers, unit)))


def _relu(array: Array) -> Array:
    return np.asarray(np.maximum(array, np.zeros((), array.dtype)))


PLAIN: dict[str, Function] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Neg": np.negative, "Abs": np.abs, "Sqrt": np.sqrt,
    "Reciprocal": lambda array: np.divide(np.ones((), array.dtype), array), "Exp": np.exp, "Log": np.log,
    "Sin": np.sin, "Cos": np.cos, "Tan": np.tan, "Asin": np.arcsin, "Acos": np.arccos, "Atan": np.arctan,
    "Sinh": np.sinh, "Cosh": np.cosh, "Tanh": np.tanh, "Floor": np.floor, "Ceil": np.ceil, "Round": np.rint,
    "Sign": np.sign, "Relu": _relu, "Sigmoid": _sigmoid, "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor, "BitwiseNot": np.bitwise_not,
}  # fmt: skip
"""Operators that give the element type of their first input."""
VARIADIC: dict[str, Function] = {"Min": np.minimum, "Max": np.maximum, "Sum": np.add}
"""Operators that take any number of inputs."""
QUESTIONS: dict[str, Function] = {
    "Equal": np.equal, "Less": np.less, "LessOrEqual": np.less_equal, "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal, "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor,
    "Not": np.logical_not, "IsNaN": np.isnan,
}  # fmt: skip
"""Operators that give truth values."""
OTHERS: dict[str, Kernel] = {
    "Div": _divide, "Mod": _remainder, "Pow": _power, "Clip": _clip, "Where": _where, "Mean": _mean,
    "BitShift": _shift, "IsInf": _is_infinite,
}  # fmt: skip
"""Operators with rules of their own."""


def _kernels(make: Callable[[Function], Kernel], functions: dict[str, Function]) -> Sequence[tuple[str, Kernel]]:
    return [(name, make(function)) for name, function in functions.items()]


KERNELS: dict[str, Kernel] = {
    **dict(_kernels(_plain, PLAIN)),
    **dict(_kernels(_variadic, VARIADIC)),
    **dict(_kernels(_question, QUESTIONS)),
    **OTHERS,
}
