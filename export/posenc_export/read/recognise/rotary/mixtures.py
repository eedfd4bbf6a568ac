"""Sums of two products of the same data with tables, element by element: x_i c + x_j s."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from posenc_export.read.recognise.flow import Flow
from posenc_export.read.recognise.rotary.matrices import Sides, by_feature, of_matrices, of_sums
from posenc_export.read.recognise.rotary.products import factors_of, fades, product_of, products_before, with_scale
from posenc_export.read.values import Data, Meeting, Operand


@dataclass(frozen=True)
class Mixture:
    """A sum of two products of the same data."""

    node: Meeting
    sides: Sides


def mixtures(flow: Flow) -> Iterator[Mixture]:
    """Yield the nodes in which each element becomes a mixture of two of the same tensor."""
    for node in flow.run.nodes:
        if node.op_type in ("Add", "Sub") and len(node.operands) == 2 and node.domain in ("", "ai.onnx"):
            sides = _of_sum(flow, node)
        else:
            sides = of_matrices(flow, node) or of_sums(flow, node)
        if sides is not None:
            yield _scaled(flow, Mixture(node, by_feature(_of_scaled(flow, sides))))


def _of_sum(flow: Flow, node: Meeting) -> Sides | None:
    """Return the products that a sum or a difference has, of the same tensor."""
    left = product_of(flow, node.operands[0])
    right = None if left is None else product_of(flow, node.operands[1])
    if left is None or right is None or left.index.shape != right.index.shape:
        return None
    # the nearest tensor that both were made of: either may be multiplied by several tables in turn
    others = {side.tensor: side for side in reversed([*products_before(flow, right)])}
    for side in products_before(flow, left):
        if side.tensor in others:
            other = others[side.tensor]
            # Sub turns the sign of its second product
            return side, replace(other, by=-other.by if node.op_type == "Sub" else other.by)
    return None


def _of_scaled(flow: Flow, sides: Sides) -> Sides:
    """Return two products of data that fade with the place of a token, with these scales among their numbers."""
    node = flow.maker(sides[0].tensor)
    parts = None if node is None or node.op_type != "Mul" else factors_of(node)
    if parts is None or not fades(parts[1]):
        return sides
    left, right = (with_scale(flow, side) for side in sides)
    return sides if left is None or right is None or left.tensor != right.tensor else (left, right)


def _scaled(flow: Flow, mixture: Mixture) -> Mixture:
    """Return a mixture with the scales by which what it makes is multiplied or divided, and fades with the place."""
    takers = flow.takers.get(mixture.node.outputs[0], [])
    if len(takers) != 1 or takers[0].op_type not in ("Mul", "Div") or len(takers[0].operands) != 2:
        return mixture
    node = takers[0]
    data, table = _data_and_table(node)
    if data is None or table is None or data.tensor != mixture.node.outputs[0] or not fades(table):
        return mixture
    out, numbers = flow.run.values.get(node.outputs[0]), flow.numbers(table)
    shape = mixture.sides[0].index.shape
    if numbers is None or not isinstance(out, Data) or out.shape != shape:
        return mixture
    scale = np.broadcast_to(numbers.astype(np.float64), shape)
    scale = 1 / scale if node.op_type == "Div" else scale
    left, right = (replace(side, by=side.by * scale, scales=(*side.scales, table)) for side in mixture.sides)
    return Mixture(node, (left, right))


def _data_and_table(node: Meeting) -> tuple[Operand | None, Operand | None]:
    """Return what a node multiplies, or divides, and by what: a divisor comes second."""
    if node.op_type == "Div":
        return node.operands[0], node.operands[1]
    return factors_of(node) or (None, None)
