"""Kernels of products of matrices; half precision is multiplied in float32 and rounded once, as runtimes do it."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from posenc_export.read.kernels.call import Elsewhere, Kernel, KernelCall, NoKernel, wide
from posenc_export.read.values import Array


def _matmul(call: KernelCall) -> list[Array]:
    left, right = call.array(0), call.array(1)
    return [_multiplied(call, left, right)]


def _multiplied(call: KernelCall, left: Array, right: Array) -> Array:
    rows, columns = left.shape[-2:-1], right.shape[-1:] if right.ndim > 1 else ()
    inner = right.shape[-2] if right.ndim > 1 else right.shape[-1] if right.ndim else None
    if not left.ndim or left.shape[-1] != inner:
        raise ValueError(f"{call.node.op_type} cannot multiply {list(left.shape)} by {list(right.shape)}")
    shape = call.room((*np.broadcast_shapes(left.shape[:-2], right.shape[:-2]), *rows, *columns), left.dtype)
    # integers are not multiplied by BLAS: a large product would take minutes
    call.work(prod(shape) * inner)
    return np.asarray(np.matmul(wide(left), wide(right))).astype(left.dtype)


def _fused(call: KernelCall) -> list[Array]:
    if call.integer("transBatchA", 0) or call.integer("transBatchB", 0):
        raise NoKernel("FusedMatMul with axes of the batch moved has no kernel")
    left, right = (
        np.swapaxes(array, -1, -2) if call.integer(name, 0) and array.ndim > 1 else array
        for name, array in (("transA", wide(call.array(0))), ("transB", wide(call.array(1))))
    )
    total = np.multiply(_multiplied(call, left, right), _factor(call, "alpha", left))
    return [np.asarray(total).astype(call.array(0).dtype)]


def _gemm(call: KernelCall) -> list[Array]:
    left, right = wide(call.array(0)), wide(call.array(1))
    left = left.T if call.integer("transA", 0) else left
    right = right.T if call.integer("transB", 0) else right
    total = np.multiply(_multiplied(call, left, right), _factor(call, "alpha", left))
    if call.has(2) and call.number("beta", 1.0) != 0:
        total = np.add(total, np.multiply(wide(call.array(2)), _factor(call, "beta", left)))
    return [np.asarray(total).astype(call.array(0).dtype)]


def _factor(call: KernelCall, name: str, like: Array) -> Array:
    return np.asarray(call.number(name, 1.0)).astype(like.dtype)


def _einsum(call: KernelCall) -> list[Array]:
    arrays, equation = call.present(), call.text("equation", "").replace(" ", "")
    terms = equation.split("->")[0].split(",")
    if len(terms) != len(arrays):
        raise ValueError(f"Einsum has {len(arrays)} inputs for {equation!r}")
    if "." in equation:
        raise Elsewhere("equations with dots are left to other implementations")
    sizes: dict[str, int] = {}
    for term, array in zip(terms, arrays, strict=True):
        if len(term) != array.ndim or any(
            sizes.setdefault(*item) != item[1] for item in zip(term, array.shape, strict=True)
        ):
            raise ValueError(f"Einsum cannot do {equation!r} on {[list(array.shape) for array in arrays]}")
    result = equation.split("->")[1] if "->" in equation else _once(equation)
    if any(label not in sizes for label in result):
        raise ValueError(f"Einsum gives an axis that no input has: {equation!r}")
    # every label is a loop, those that are summed too
    call.room([sizes[label] for label in result], arrays[0].dtype)
    call.work(prod(sizes.values()))
    return [_summed(equation, arrays).astype(arrays[0].dtype)]


def _once(equation: str) -> str:
    # without a result, it has the labels that stand once, in the order of the alphabet
    return "".join(label for label in sorted(set(equation) - {","}) if equation.count(label) == 1)


def _summed(equation: str, arrays: list[Array]) -> Array:
    function: Callable[..., Array] = np.einsum
    return np.asarray(function(equation, *map(wide, arrays)))


KERNELS: dict[str, Kernel] = {"MatMul": _matmul, "FusedMatMul": _fused, "Gemm": _gemm, "Einsum": _einsum}
