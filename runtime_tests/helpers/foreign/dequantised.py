"""The file before a quantizer with the weights that the quantizer has made: what the quantized file must give."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import NodeProto, helper, numpy_helper

from posenc_export.read.values import Array

MIDDLE = 8
"""What stands for 0 among 4 bits where a quantizer is symmetric."""


def dequantised(before: Path, after: Path, to: Path) -> Path:
    """Write a file with the weights of its quantized form as floats; the place of each is found by what it gives.

    Args:
        before: the file before the quantizer.
        after: the quantized one.
        to: where the new file goes.
    """
    model = onnx.load(before)
    rounded = dict(_rounded(model, onnx.load(after)))
    for tensor in model.graph.initializer:
        if tensor.name in rounded:
            tensor.CopyFrom(numpy_helper.from_array(rounded.pop(tensor.name), tensor.name))
    if rounded or not model.graph.initializer:
        raise ValueError(f"{after.name} has weights that {before.name} does not store: {', '.join(rounded)}")
    onnx.save(model, to)
    return to


def _rounded(before: onnx.ModelProto, after: onnx.ModelProto) -> Iterator[tuple[str, Array]]:
    """Yield the weights that were quantized, by their names before."""
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in after.graph.initializer}
    weights = {node.output[0]: node.input[1] for node in before.graph.node if node.op_type == "MatMul"}
    for node in after.graph.node:
        if node.op_type == "MatMulNBits":
            yield weights[node.output[0]], of_blocks(node, stored)
        elif node.op_type == "DequantizeLinear" and all(name in stored for name in node.input):
            table, scale = (stored[name].astype(np.float32) for name in node.input)
            yield node.output[0], table * scale[:, None]


def of_blocks(node: NodeProto, stored: dict[str, Array]) -> Array:
    """Return the weight, (K, N), that a product has in blocks of 4 bits."""
    sizes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
    if sizes["bits"] != 4 or len(node.input) != 3:
        raise ValueError(f"{node.name} is not of 4 bits around {MIDDLE}")
    packed, scales = stored[node.input[1]].astype(np.uint8), stored[node.input[2]].astype(np.float32)
    numbers = np.stack([packed & 15, packed >> 4], -1).reshape(*packed.shape[:2], -1).astype(np.float32) - MIDDLE
    rows = numbers * scales.reshape(packed.shape[0], packed.shape[1], 1)
    whole: Array = rows.reshape(packed.shape[0], -1)[:, : sizes["K"]].T.astype(np.float32)
    return whole
