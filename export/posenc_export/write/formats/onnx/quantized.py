"""Products with weights that were rounded to blocks: ONNX Runtime's MatMulNBits holds them in a few bits each.

A product becomes one of blocks only where these stand for the very numbers of its weights. So what was not rounded, as
the numbers of positions, stays as it is, and the file is the one of floats but for how it stores them.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc.ports import Array
from posenc_export.common.errors import ExportFailed
from posenc_export.write.formats import AccuracyLevel
from posenc_export.write.formats.onnx.lengths import initializer
from posenc_models.whole import BLOCK, Blocks, Quantize, blocks_of

if TYPE_CHECKING:
    from onnx import ModelProto

OPERATOR, DOMAIN = "MatMulNBits", "com.microsoft"
Part = Any
"""A graph of onnx_ir that is being written, or a node or a value in it."""
Stored = tuple[Part, Part, Blocks]
"""The two initializers of a matrix in blocks, whole numbers and scales, and what is in them."""


def store_in_blocks(model: Part, quantize: Quantize, accuracy_level: AccuracyLevel = 1) -> None:
    """Store the weights of products in blocks, where that changes none of their numbers, in place.

    Raises ExportFailed where there are none.
    """
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    stored: dict[tuple[int, bool], Stored | None] = {}
    replaced = 0
    for node in [node for node in model.graph if node.op_type in ("MatMul", "Gemm") and node.domain == ""]:
        found = _weights(node)
        if found is None:
            continue
        value, across = found
        key = id(value), across
        if key not in stored:
            matrix = value.const_value.numpy()
            stored[key] = _store(model.graph, f"{value.name}{'_T' * across}", matrix.T if across else matrix, quantize)
        parts = stored[key]
        if parts is not None:
            _replace(model.graph, node, accuracy_level, parts)
            replaced += 1
    if not replaced:
        raise ExportFailed(f"--quantize {quantize}: the graph multiplies by no weights of linear layers")
    RemoveUnusedNodesPass()(model)
    model.graph.opset_imports.setdefault(DOMAIN, 1)


def compute_in(model: ModelProto, accuracy_level: AccuracyLevel) -> None:
    """Have the products of a graph computed at an accuracy level, in place."""
    for node in model.graph.node:
        if node.op_type == OPERATOR and node.domain == DOMAIN:
            for attribute in node.attribute:
                if attribute.name == "accuracy_level":
                    attribute.i = accuracy_level


def note_of_blocks(model: ModelProto) -> str:
    """Return a line on the weights that a graph has in blocks: how many of all."""
    nodes = [node for node in model.graph.node if node.op_type == OPERATOR]
    numbers = {attribute.name: attribute.i for node in nodes[:1] for attribute in node.attribute}
    dims = {tensor.name: tensor.dims for tensor in model.graph.initializer}
    packed = {node.input[1]: prod(dims[node.input[1]]) * 8 // numbers["bits"] for node in nodes}
    beside = {name for node in nodes for name in node.input[1:3]}
    others = sum(prod(sizes) for name, sizes in dims.items() if name not in beside)
    count = sum(packed.values())
    return (
        f"{len(nodes)} products read weights of {numbers['bits']} bits, in blocks of {numbers['block_size']}: "
        f"{count / (count + others):.0%} of all weights"
    )


def _weights(node: Part) -> tuple[Part, bool] | None:
    """Return the stored matrix that a node multiplies by, and whether that is its transpose; None where it is none."""
    value, across = node.inputs[1], False
    if node.op_type == "Gemm":
        numbers = {
            name: node.attributes[name].value
            for name in ("alpha", "beta", "transA", "transB")
            if name in node.attributes
        }
        if numbers.get("alpha", 1.0) != 1.0 or numbers.get("beta", 1.0) != 1.0 or numbers.get("transA", 0):
            return None
        across = bool(numbers.get("transB", 0))
    made = value.producer()
    if made is not None and made.op_type == "Transpose" and len(made.inputs[0].shape or ()) == 2:
        value, across = made.inputs[0], not across
    is_matrix = value.const_value is not None and value.producer() is None and len(value.const_value.shape) == 2
    return (value, across) if is_matrix else None


def _store(graph: Part, name: str, matrix: Array, quantize: Quantize) -> Stored | None:
    """Store the blocks of a matrix in a graph; return them, or None where they do not stand for its numbers."""
    if matrix.dtype not in (np.float32, np.float16):
        return None
    blocks = blocks_of(matrix, quantize)
    if not np.array_equal(blocks.weights, matrix):
        return None
    packed = initializer(graph, f"{name}_{quantize}", blocks.packed)
    return packed, initializer(graph, f"{name}_scales", blocks.scales), blocks


def _replace(graph: Part, node: Part, accuracy_level: AccuracyLevel, stored: Stored) -> None:
    """Put a product with blocks in the place of a node, and the sum of a Gemm behind it."""
    import onnx_ir as ir

    packed, scales, blocks = stored
    old = node.outputs[0]
    attributes = {"K": blocks.rows, "N": len(blocks.packed), "bits": blocks.bits, "block_size": BLOCK}
    made = [
        ir.node(
            OPERATOR,
            [node.inputs[0], packed, scales],
            {**attributes, "accuracy_level": accuracy_level},
            domain=DOMAIN,
            name=f"{old.name}_in_blocks",
        )
    ]
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        product = made[0].outputs[0]
        product.name, product.type, product.shape = f"{old.name}_product", old.type, old.shape
        made.append(ir.node("Add", [product, node.inputs[2]], name=f"{old.name}_sum"))
    ir.convenience.replace_nodes_and_values(graph, node, [node], made, [old], [made[-1].outputs[0]])
