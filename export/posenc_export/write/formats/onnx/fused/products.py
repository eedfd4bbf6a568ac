"""One product in the place of several with the same left side: those that make queries, keys and values of tokens.

    x Wq, x Wk, x Wv                     Split(x (Wq, Wk, Wv))
    x Wq + bq, x Wk + bk, x Wv + bv      Split(x (Wq, Wk, Wv) + (bq, bk, bv))

Each number is the same sum of products as before. A step of a decoder mostly reads weights, and one product reads them
in one piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from posenc_export.write.formats.onnx.forms import put_value
from posenc_export.write.formats.onnx.lengths import initializer, node

if TYPE_CHECKING:
    import onnx_ir as ir

AT_LEAST = 3
"""Products with one left side that become one: of two, the Split costs what the product saves."""


class Product(NamedTuple):
    """A product with stored weights, and the sum behind it, if there is one.

    Args:
        matmul: the product.
        weights: what it multiplies by, (features, columns).
        bias: what is added, (columns,).
        last: the node that gives the result.
    """

    matmul: ir.Node
    weights: ir.Value
    bias: ir.Value | None
    last: ir.Node


def fuse_products(model: ir.Model) -> int:
    """Write products that make queries, keys and values as one, in place; return how many became one."""
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    groups: dict[ir.Value, list[Product]] = {}
    for each in model.graph:
        found = _product(each) if each.op_type == "MatMul" and each.domain == "" else None
        if found is not None and each.inputs[0] is not None:
            groups.setdefault(each.inputs[0], []).append(found)
    count = 0
    for x, products in groups.items():
        alike = len({product.bias is None for product in products}) == 1
        if len(products) >= AT_LEAST and alike:
            _pack(model.graph, x, products)
            count += 1
    if count:
        RemoveUnusedNodesPass()(model)
    return count


def _product(matmul: ir.Node) -> Product | None:
    weights, result = matmul.inputs[1], matmul.outputs[0]
    if weights is None or weights.const_value is None or len(weights.const_value.shape) != 2:
        return None
    uses = [use.node for use in result.uses()]
    if len(weights.uses()) != 1 or result.shape is None:
        return None
    if len(uses) == 1 and uses[0].op_type == "Add":
        bias = next(each for each in uses[0].inputs if each is not result)
        stored = None if bias is None else bias.const_value
        if stored is not None and tuple(stored.shape) == (weights.const_value.shape[1],):
            return Product(matmul, weights, bias, uses[0])
    return Product(matmul, weights, None, matmul)


def _pack(graph: ir.Graph, x: ir.Value, products: Sequence[Product]) -> None:
    import onnx_ir as ir

    name = f"{products[0].weights.name}_packed"
    before = next(each for each in graph if each in {product.matmul for product in products})
    widths = [int(product.weights.const_value.shape[1]) for product in products]  # type: ignore[union-attr,arg-type]
    whole = _joined(graph, name, [product.weights for product in products], axis=1)
    nodes = [node("MatMul", f"{name}_product", x, whole)]
    if products[0].bias is not None:
        biases = [product.bias for product in products if product.bias is not None]
        nodes.append(node("Add", f"{name}_sum", nodes[-1].outputs[0], _joined(graph, f"{name}_bias", biases, axis=0)))
    parts = [ir.Value(name=f"{name}_{number}") for number in range(len(products))]
    sizes = initializer(graph, f"{name}_sizes", widths)
    split = ir.node("Split", [nodes[-1].outputs[0], sizes], {"axis": -1}, outputs=parts, name=f"{name}_split")
    first = products[0].last.outputs[0]
    for made in nodes:
        made.outputs[0].type = first.type
        made.outputs[0].shape = ir.Shape([*[*(first.shape or ())][:-1], sum(widths)])
    graph.insert_before(before, [*nodes, split])
    for product, part in zip(products, parts, strict=True):
        put_value(graph, product.last.outputs[0], part)


def _joined(graph: ir.Graph, name: str, values: Sequence[ir.Value], axis: int) -> ir.Value:
    """Return stored tensors side by side, made when they are written: a model's weights are held once."""
    import onnx_ir as ir

    tensors = [value.const_value for value in values if value.const_value is not None]
    dtype, shape = tensors[0].dtype, [*tensors[0].shape.numpy()]
    shape[axis] = sum(tensor.shape.numpy()[axis] for tensor in tensors)

    def join() -> ir.TensorProtocol:
        return ir.Tensor(np.concatenate([tensor.numpy() for tensor in tensors], axis), dtype=dtype, name=name)

    tensor = ir.LazyTensor(join, dtype=dtype, shape=ir.Shape(shape), name=name)
    value = ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(shape), const_value=tensor)
    graph.register_initializer(value)
    return value
