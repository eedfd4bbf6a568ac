"""Pairs that matrices turn: products of two features with a matrix (2, 2) of each token, as two products and a sum.

Graphs write them as MatMul, as Einsum, or as a product element by element whose last axis a ReduceSum takes together.
"""

from __future__ import annotations

import math
import re

import numpy as np
from numpy.typing import NDArray

from posenc_export.read.interpret.state import shape_of, small_numbers
from posenc_export.read.recognise.flow import Flow
from posenc_export.read.recognise.rotary.products import LARGEST, Product, factors_of, product_of
from posenc_export.read.values import Data, Meeting, Operand

PAIR = 2
"""Features that a matrix mixes."""
OF_MATMUL = "...ij,...jk->...ik"
EQUATION = re.compile(
    r"([a-zA-Z]*(?:\.\.\.)?[a-zA-Z]*),([a-zA-Z]*(?:\.\.\.)?[a-zA-Z]*)->([a-zA-Z]*(?:\.\.\.)?[a-zA-Z]*)"
)
"""Two terms and a result."""
Sides = tuple[Product, Product]


def of_matrices(flow: Flow, node: Meeting) -> Sides | None:
    """Return the two products that a product with matrices (2, 2) adds up, in its own shape; None of other nodes."""
    equation = _equation(node)
    parts = None if equation is None else factors_of(node)
    if equation is None or parts is None:
        return None
    first, second, result = equation
    data, table = parts
    terms = (first, second) if node.operands[0] is data else (second, first)
    label = _summed(terms, result)
    if label is None:
        return None
    axes = [_axis(term, label) for term in terms]
    shapes = [shape_of(data.value) or (), shape_of(table.value) or ()]
    # weights are told by their sizes alone: none is loaded
    if any(len(shape) < PAIR or shape[axis] != PAIR for shape, axis in zip(shapes, axes, strict=True)):
        return None
    numbers = flow.numbers(table)
    if numbers is None or numbers.size < 2 * PAIR or not isinstance(data.value, Data) or data.value.moved is None:
        return None
    moved = data.value.moved()
    origin = flow.run.values.get(moved.tensor)
    out = flow.run.values.get(node.outputs[0])
    if not isinstance(origin, Data) or not isinstance(out, Data) or math.prod(out.shape) > LARGEST:
        return None
    if np.any(moved.index < 0):
        return None
    sign = np.ones(moved.index.shape) if moved.sign is None else moved.sign.astype(np.float64)
    rest = f"{terms[0].replace(label, '')},{terms[1].replace(label, '')}->{result}"
    products = []
    for place in range(PAIR):
        index, signs = moved.index.take(place, axes[0]), sign.take(place, axes[0])
        by = numbers.astype(np.float64).take(place, axes[1])
        ones = np.ones(by.shape, np.int64)
        source, factor = np.einsum(rest, index, ones), np.einsum(rest, signs, by)
        if source.shape != out.shape:
            return None
        products.append(Product(node, table, moved.tensor, origin.shape, source, factor))
    return products[0], products[1]


def of_sums(flow: Flow, node: Meeting) -> Sides | None:
    """Return the two products that a ReduceSum along an axis of two adds up, in its own shape; None of other nodes."""
    operand = node.operands[0] if node.op_type == "ReduceSum" and node.operands else None
    if operand is None:
        return None
    shape, axes = shape_of(operand.value) or (), _axes(node)
    if len(axes) != 1 or len(shape) < PAIR or shape[axes[0]] != PAIR:
        return None
    product = product_of(flow, operand)
    out = flow.run.values.get(node.outputs[0])
    if product is None or not isinstance(out, Data):
        return None
    index, by = (np.moveaxis(part, axes[0], 0) for part in (product.index, product.by))
    sides = [
        Product(
            product.node, product.table, product.tensor, product.shape, one.reshape(out.shape), other.reshape(out.shape)
        )
        for one, other in zip(index, by, strict=True)
    ]
    return sides[0], sides[1]


def by_feature(sides: Sides) -> Sides:
    """Return two products so that one has the feature itself, and the other the one that it is paired with.

    A matrix makes both features of a pair of the first in one product and of the second in the other, along an axis of
    two. Products of a rotation that is written otherwise come back as they are.
    """
    left, right = sides
    for axis in reversed(range(left.index.ndim)):
        if left.index.shape[axis] != PAIR or not all(_is_even(side.index, axis) for side in sides):
            continue
        chosen = np.arange(PAIR).reshape([PAIR if other == axis else 1 for other in range(left.index.ndim)])
        own, paired = _chosen(left, right, chosen), _chosen(right, left, chosen)
        of_own, of_paired = (np.moveaxis(side.by, axis, 0) for side in (own, paired))
        if np.array_equal(of_own[0], of_own[1]) and np.array_equal(of_paired[0], -of_paired[1]):
            return own, paired
    return sides


def _chosen(first: Product, second: Product, chosen: NDArray[np.int64]) -> Product:
    """Return the first product where 0 is chosen, and the second where 1 is."""
    index = np.where(chosen == 0, first.index, second.index)
    by = np.where(chosen == 0, first.by, second.by)
    return Product(first.node, first.table, first.tensor, first.shape, index, by, first.scales)


def _is_even(index: NDArray[np.int64], axis: int) -> bool:
    return bool(np.array_equal(index.take(0, axis), index.take(1, axis)))


def _equation(node: Meeting) -> tuple[str, str, str] | None:
    """Return the terms of a product of two, and of its result; None of other nodes."""
    if node.domain not in ("", "ai.onnx") or len(node.operands) != PAIR:
        return None
    if node.op_type == "MatMul":
        text = OF_MATMUL
    elif node.op_type == "Einsum":
        written = node.attributes.get("equation", "")
        text = written.decode() if isinstance(written, bytes) else str(written)
    else:
        return None
    found = EQUATION.fullmatch(text.replace(" ", ""))
    return None if found is None else (found[1], found[2], found[3])


def _summed(terms: tuple[str, str], result: str) -> str | None:
    """Return the one label that is summed, which both terms have; None of other terms."""
    labels = [[letter for letter in term if letter != "."] for term in (*terms, result)]
    if any(len(set(each)) != len(each) for each in labels):
        return None
    gone = {*labels[0], *labels[1]} - {*labels[2]}
    if len(gone) != 1 or not gone <= {*labels[0]} & {*labels[1]}:
        return None
    return gone.pop()


def _axis(term: str, label: str) -> int:
    """Return the axis of a label: from the end where it stands behind an ellipsis."""
    place = term.index(label)
    return place - len(term) if "." in term[:place] else place


def _axes(node: Meeting) -> list[int]:
    """Return the axes of a reduction; none where it takes all, or nobody knows."""
    operand: Operand | None = node.operands[1] if len(node.operands) > 1 else None
    numbers = node.attributes.get("axes") if operand is None else small_numbers(operand.value)
    return [] if numbers is None else [int(axis) for axis in np.ravel(np.asarray(numbers))]
