"""Products of moved data and tables, element by element: what each element is multiplied by, and where it was before.

Data may be multiplied by several tables in turn, as xPos multiplies by cosines and by scales, and by numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from posenc.ports import Floats
from posenc_export.common.arrays import FLOATS
from posenc_export.read.recognise.flow import Flow
from posenc_export.read.values import Constant, Data, Meeting, Operand, Position

LARGEST = 1 << 23
"""Tensors of more elements are not looked into."""
DEEPEST = 3
"""Tables by which data are multiplied in turn, at most."""


@dataclass(frozen=True)
class Product:
    """Data times a table, as one side of a sum sees it.

    Args:
        node: the node that multiplies.
        table: the table, or the position value.
        tensor: what the data were before they were moved.
        shape: the shape of that tensor.
        index: of each element, its place in that tensor.
        by: by what each element is multiplied, with the signs of all moves.
        scales: further tables that are in these numbers.
    """

    node: Meeting
    table: Operand
    tensor: str
    shape: tuple[int, ...]
    index: NDArray[np.int64]
    by: Floats
    scales: tuple[Operand, ...] = ()

    @property
    def tables(self) -> tuple[Operand, ...]:
        """All tables that are in these numbers."""
        return (self.table, *self.scales)


def product_of(flow: Flow, operand: Operand | None) -> Product | None:
    """Return what an operand is as a product of moved data and a table; None where it is none."""
    if operand is None or not isinstance(operand.value, Data) or math.prod(operand.value.shape) > LARGEST:
        return None
    # what was made by a Mul counts as moved from there, through whatever moves lie between
    node = flow.maker(operand.tensor)
    if node is None or (node.op_type != "Mul" and operand.value.moved is None):
        return None
    index, sign = np.arange(math.prod(operand.value.shape)).reshape(operand.value.shape), None
    if node.op_type != "Mul" and operand.value.moved is not None:
        moved = operand.value.moved()
        node, index, sign = flow.maker(moved.tensor), moved.index, moved.sign
    if node is None or node.op_type != "Mul" or np.any(index < 0):
        return None
    return _of_node(flow, node, index, sign)


def products_before(flow: Flow, product: Product) -> Iterator[Product]:
    """Yield a product, and with it that of its data by another table, as far back as tables go."""
    found: Product | None = product
    for _ in range(DEEPEST):
        if found is None:
            return
        yield found
        found = with_scale(flow, found)


def with_scale(flow: Flow, product: Product) -> Product | None:
    """Return a product with that of its data by another table; None where its data are no such product."""
    node = flow.maker(product.tensor)
    inner = None if node is None or node.op_type != "Mul" else _of_node(flow, node, product.index, None)
    if inner is None:
        return None
    return replace(
        product,
        tensor=inner.tensor,
        shape=inner.shape,
        index=inner.index,
        by=product.by * inner.by,
        scales=(*product.scales, *inner.tables),
    )


def fades(operand: Operand) -> bool:
    """Return whether a table differs from token to token and from feature to feature, as scales of xPos do."""
    value = operand.value
    if not isinstance(value, Position) or not _is_table(operand) or not (value.inputs or value.sizes):
        return False
    numbers = value.array.astype(np.float64)
    along = [axis for axis in range(numbers.ndim) if (np.abs(np.diff(numbers, axis=axis)) > 0).any()]
    return len(along) > 1 and along[-1] == numbers.ndim - 1 and bool((numbers > 0).all())


def factors_of(node: Meeting) -> tuple[Operand, Operand] | None:
    """Return the data and the table that a node multiplies."""
    left, right = (*node.operands, None, None)[:2]
    if left is None or right is None:
        return None
    for data, table in ((left, right), (right, left)):
        if isinstance(data.value, Data) and not data.value.positional and data.value.moved and _is_table(table):
            return data, table
    return None


def _of_node(flow: Flow, node: Meeting, index: NDArray[np.int64], sign: NDArray[np.int8] | None) -> Product | None:
    """Return some elements of what a node multiplies, as a product."""
    behind, factor = _without_scalars(flow, node)
    parts = None if behind is None else factors_of(behind)
    if behind is None or parts is None:
        return None
    product = _traced(flow, behind, parts, index, sign)
    return product if product is None or factor == 1 else replace(product, by=product.by * factor)


def _without_scalars(flow: Flow, node: Meeting) -> tuple[Meeting | None, float]:
    """Return the product behind products by one number, and these numbers multiplied: x-transformers scales by 1."""
    factor = 1.0
    found: Meeting | None = node
    while found is not None and found.op_type == "Mul":
        scalars = [
            o for o in found.operands if o is not None and isinstance(o.value, Constant) and not any(o.value.shape)
        ]
        others = [o for o in found.operands if o is not None and isinstance(o.value, Data)]
        numbers = flow.numbers(scalars[0]) if len(scalars) == len(others) == 1 else None
        if numbers is None:
            break
        factor *= float(numbers)
        found = flow.maker(others[0].tensor)
    return (found if found is not None and found.op_type == "Mul" else None), factor


def _is_table(operand: Operand) -> bool:
    """Tell whether an operand is a float table of several rows and columns."""
    value = operand.value
    if not isinstance(value, Constant | Position):
        return False
    shape, dtype = (value.array.shape, value.array.dtype) if isinstance(value, Position) else (value.shape, value.dtype)
    return dtype.name in FLOATS and sum(size > 1 for size in shape) >= 1


def _traced(
    flow: Flow,
    node: Meeting,
    parts: tuple[Operand, Operand],
    index: NDArray[np.int64],
    sign: NDArray[np.int8] | None,
) -> Product | None:
    """Return a product, each of its elements traced to where it was."""
    data, table = parts
    numbers = flow.numbers(table)
    if numbers is None or not isinstance(data.value, Data) or data.value.moved is None:
        return None
    shape = np.broadcast_shapes(data.value.shape, numbers.shape)
    # every element of the data is traced to where it was before it was moved, and the table goes along
    moved = data.value.moved()
    by = np.broadcast_to(numbers.astype(np.float64), shape)
    by = by if moved.sign is None else by * moved.sign
    source = np.broadcast_to(moved.index, shape).ravel()[index]
    by = by.ravel()[index] * (1 if sign is None else sign)
    origin = flow.run.values.get(moved.tensor)
    if not isinstance(origin, Data) or np.any(source < 0):
        return None
    return Product(node, table, moved.tensor, origin.shape, source, by)
