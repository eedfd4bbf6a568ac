"""Small graphs that turn queries and keys as exporters write them, and what is read in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from posenc_export.read.graph.read import read_graph
from posenc_export.read.interpret.run import interpret
from posenc_export.read.values import Run

HEADS, DIM = 4, 16


@dataclass
class Sheet:
    """A graph that is written node by node; data have the axes (batch, heads, seq, DIM)."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    stored: dict[str, NDArray[np.generic]] = field(default_factory=dict)

    def op(self, operator: str, *inputs: str, domain: str = "", **values: Any) -> str:
        """Add a node and return its output."""
        name = f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [f"{name}_out"], name, domain=domain, **values))
        return f"{name}_out"

    def keep(self, array: NDArray[np.generic], name: str = "") -> str:
        """Store an array and return its name."""
        name = name or f"stored_{len(self.stored)}"
        self.stored[name] = array
        return name

    def cut(self, data: str, start: int, end: int, step: int = 1) -> str:
        """Return some features of the last axis."""
        ends = [self.keep(np.array([number], np.int64)) for number in (start, end, -1, step)]
        return self.op("Slice", data, *ends)

    def looked_up(self, table: str) -> str:
        """Return rows of a table at position_ids, (batch, 1, seq, width)."""
        return self.op("Unsqueeze", self.op("Gather", table, "position_ids"), self.keep(np.array([1], np.int64)))

    def run(self, folder: Path, *outputs: str) -> Run:
        """Write the graph and interpret it."""
        size: list[str | int] = ["batch", HEADS, "seq", DIM]
        inputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, size) for name in ("q", "k")]
        inputs.append(helper.make_tensor_value_info("position_ids", onnx.TensorProto.INT64, ["batch", "seq"]))
        made = [onnx.ValueInfoProto(name=name) for name in outputs]
        tensors = [numpy_helper.from_array(array, name) for name, array in self.stored.items()]
        graph = helper.make_graph(self.nodes, "graph", inputs, made, tensors)
        opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), folder / "model.onnx")
        return interpret(read_graph(folder / "model.onnx"))


def halves(sheet: Sheet, data: str, cosine: str, sine: str, width: int = DIM) -> str:
    """Turn as Llama does: x cos + rotate_half(x) sin, with tables as wide as the features."""
    low, high = sheet.cut(data, 0, width // 2), sheet.cut(data, width // 2, width)
    turned = sheet.op("Concat", sheet.op("Neg", high), low, axis=-1)
    return sheet.op("Add", sheet.op("Mul", data, cosine), sheet.op("Mul", turned, sine))


def neighbours(sheet: Sheet, data: str, cosine: str, sine: str) -> str:
    """Turn neighbours, each half in a sum of its own, and put them side by side again."""
    even, odd = sheet.cut(data, 0, DIM, 2), sheet.cut(data, 1, DIM, 2)
    first = sheet.op("Sub", sheet.op("Mul", even, cosine), sheet.op("Mul", odd, sine))
    second = sheet.op("Add", sheet.op("Mul", sine, even), sheet.op("Mul", odd, cosine))
    last = sheet.keep(np.array([-1], np.int64))
    stacked = sheet.op("Concat", sheet.op("Unsqueeze", first, last), sheet.op("Unsqueeze", second, last), axis=-1)
    return sheet.op("Reshape", stacked, sheet.keep(np.array([0, 0, 0, DIM], np.int64)))


def tables(theta: float, rows: int = 64, width: int = DIM, *, wide: bool = True) -> list[NDArray[np.float32]]:
    """Return cosines and sines, a column a feature or a column a pair."""
    angles = np.arange(rows)[:, None] * theta ** (-np.arange(0, width, 2) / width)
    angles = np.concatenate([angles, angles], axis=1) if wide else angles
    return [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]


def layer(sheet: Sheet, cosine: str, sine: str) -> str:
    """Turn queries and keys and multiply them."""
    turned = [halves(sheet, sheet.op("Sqrt", data), cosine, sine) for data in ("q", "k")]
    return sheet.op("MatMul", turned[0], sheet.op("Transpose", turned[1], perm=[0, 1, 3, 2]))
