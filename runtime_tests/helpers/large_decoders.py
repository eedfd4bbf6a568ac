"""Decoders of any size without a model: attentions with rotary tables of their own, written a block at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BLOCK = 4096
"""Rows of a table that are made at once."""
HEADS = 2


@dataclass(frozen=True)
class Decoder:
    """What a file holds.

    Args:
        layers: attentions.
        rows: of the tables of each layer; 0 for cosines and sines that the graph computes in each layer.
        thetas: the base of each layer; a single one for all.
        width: features of a head.
        weights: bytes of a weight that lies in the file itself.
    """

    layers: int = 2
    rows: int = 64
    thetas: tuple[float, ...] = (10000.0,)
    width: int = 128
    weights: int = 0

    def theta(self, layer: int) -> float:
        """Return the base of a layer."""
        return self.thetas[layer % len(self.thetas)]


def write_decoder(path: Path, decoder: Decoder) -> Path:
    """Write a decoder, its tables beside it, and return the path."""
    data = path.with_suffix(".data")
    nodes, stored = [], _small(decoder)
    for layer in range(decoder.layers):
        nodes += list(_layer(layer, computes=not decoder.rows))
    if decoder.rows:
        with data.open("wb") as file:
            for layer in range(decoder.layers):
                stored += [
                    _table(f"{name}{layer}", decoder, data.name, file.tell() + i) for i, name in _places(decoder)
                ]
                for block in _blocks(decoder, layer):
                    file.write(block)
    hidden: list[str | int | None] = ["batch", "sequence", HEADS * decoder.width]
    inputs = [
        helper.make_tensor_value_info("x0", TensorProto.FLOAT, hidden),
        helper.make_tensor_value_info("position_ids", TensorProto.INT64, ["batch", "sequence"]),
    ]
    outputs = [helper.make_tensor_value_info(f"x{decoder.layers}", TensorProto.FLOAT, hidden)]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def change_row(path: Path, decoder: Decoder, layer: int, row: int, column: int = 0) -> None:
    """Change a number of a layer's cosines in a file that was written."""
    with path.with_suffix(".data").open("r+b") as file:
        file.seek(4 * (2 * layer * decoder.rows * decoder.width + row * decoder.width + column))
        file.write(np.float32(0.5).tobytes())


def _places(decoder: Decoder) -> tuple[tuple[int, str], tuple[int, str]]:
    return (0, "cos"), (4 * decoder.rows * decoder.width, "sin")


def _table(name: str, decoder: Decoder, file: str, offset: int) -> TensorProto:
    sizes = [decoder.rows, decoder.width]
    table = TensorProto(name=name, dims=sizes, data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    for key, text in {"location": file, "offset": offset, "length": 4 * decoder.rows * decoder.width}.items():
        table.external_data.add(key=key, value=str(text))
    return table


def _blocks(decoder: Decoder, layer: int) -> Iterator[bytes]:
    """Yield the cosines of a layer, and then its sines."""
    inv_freq = decoder.theta(layer) ** (-np.arange(0, decoder.width, 2) / decoder.width)
    for function in (np.cos, np.sin):
        for start in range(0, decoder.rows, BLOCK):
            angles = np.arange(start, min(start + BLOCK, decoder.rows))[:, None] * inv_freq
            yield np.tile(function(angles), (1, 2)).astype(np.float32).tobytes()


def _small(decoder: Decoder) -> list[TensorProto]:
    """Return sizes and weights, which all layers share."""
    wide = HEADS * decoder.width
    numbers = {"one": [1], "last": [-1], "heads": [0, 0, HEADS, decoder.width], "flat": [0, 0, wide]}
    stored = [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in numbers.items()]
    stored += [numpy_helper.from_array(np.ones((wide, wide), np.float32), f"w{name}") for name in "qkv"]
    inv_freq = decoder.theta(0) ** (-np.arange(0, decoder.width, 2) / decoder.width)
    stored.append(numpy_helper.from_array(inv_freq.astype(np.float32), "inv_freq"))
    if decoder.weights:
        rows = decoder.weights // (4 * wide)
        stored.append(numpy_helper.from_array(np.zeros((rows, wide), np.float32), "unused"))
    return stored


def _layer(layer: int, *, computes: bool) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of an attention with rotated queries and keys."""

    def node(operator: str, inputs: str, outputs: str, **values: Any) -> onnx.NodeProto:
        taken, made = (text.replace("#", str(layer)).split() for text in (inputs, outputs))
        return helper.make_node(operator, taken, made, f"layer{layer}/{made[0]}", **values)

    if computes:
        yield node("Cast", "position_ids", "places#", to=TensorProto.FLOAT)
        yield node("Unsqueeze", "places# last", "column#")
        yield node("Mul", "column# inv_freq", "half#")
        yield node("Concat", "half# half#", "angles#", axis=-1)
        yield from (node(name, "angles#", f"{name}_of#") for name in ("Cos", "Sin"))
    else:
        yield from (node("Gather", f"{name.lower()}# position_ids", f"{name}_of#") for name in ("Cos", "Sin"))
    yield from (node("Unsqueeze", f"{name}_of# one", f"{name}#") for name in ("Cos", "Sin"))
    for name in "qkv":
        yield node("MatMul", f"x# w{name}", f"{name}_flat#")
        yield node("Reshape", f"{name}_flat# heads", f"{name}_heads#")
        yield node("Transpose", f"{name}_heads#", f"{name}#", perm=[0, 2, 1, 3])
    for name in "qk":
        yield node("Split", f"{name}#", f"{name}_first# {name}_second#", axis=3, num_outputs=2)
        yield node("Neg", f"{name}_second#", f"{name}_negative#")
        yield node("Concat", f"{name}_negative# {name}_first#", f"{name}_exchanged#", axis=3)
        yield node("Mul", f"{name}# Cos#", f"{name}_cosine#")
        yield node("Mul", f"{name}_exchanged# Sin#", f"{name}_sine#")
        yield node("Add", f"{name}_cosine# {name}_sine#", f"{name}_rotated#")
    yield node("Transpose", "k_rotated#", "k_across#", perm=[0, 1, 3, 2])
    yield node("MatMul", "q_rotated# k_across#", "scores#")
    yield node("Softmax", "scores#", "weights#")
    yield node("MatMul", "weights# v#", "heads_out#")
    yield node("Transpose", "heads_out#", "places_out#", perm=[0, 2, 1, 3])
    yield node("Reshape", "places_out# flat", "out#")
    yield helper.make_node("Add", [f"x{layer}", f"out{layer}"], [f"x{layer + 1}"], f"layer{layer}/sum")
