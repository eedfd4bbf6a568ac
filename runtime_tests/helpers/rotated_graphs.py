"""Small decoders as ONNX graphs, rotated in one of the ways that exporters write: for what reads files of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

HEADS, HEAD_DIM = 2, 16
WIDTH = HEADS * HEAD_DIM
WORDS = 61


def frequencies(theta: float) -> NDArray[np.float64]:
    """The frequencies of a base; zeros for base 0."""
    return np.zeros(HEAD_DIM // 2) if theta == 0 else theta ** (-np.arange(0, HEAD_DIM, 2) / HEAD_DIM)


@dataclass
class Decoder:
    """A decoder that is being written.

    Args:
        thetas: the base of each layer's rotation; None for a layer without.
        rows: of stored tables; None where angles are computed.
        dtype: of angles that are computed.
        fused: whether com.microsoft.RotaryEmbedding rotates, by ids that the graph counts for a batch of one.
    """

    thetas: Sequence[float | None]
    rows: int | None = None
    dtype: type[np.generic] = np.float32
    fused: bool = False
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    stored: dict[str, NDArray[np.generic]] = field(default_factory=dict)

    def add(self, op_type: str, *inputs: str, domain: str = "", **attributes: object) -> str:
        """Add a node; return the name of its output."""
        name = f"{op_type}_{len(self.nodes)}"
        node = helper.make_node(op_type, list(inputs), [name], name=name, domain=domain)
        node.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
        self.nodes.append(node)
        return name

    def store(self, name: str, values: object) -> str:
        """Store a tensor; return its name."""
        self.stored.setdefault(name, np.asarray(values))
        return name

    def angles(self, theta: float) -> tuple[str, str]:
        """Add the cosines and sines of a base: (batch, 1, seq, head_dim) where they are computed, else the tables."""
        label = f"{theta:g}"
        if self.rows is not None:
            angles = np.arange(self.rows)[:, None] * frequencies(theta)
            full = angles if self.fused else np.tile(angles, 2)
            cos = self.store(f"cos_{label}", np.cos(full).astype(np.float32))
            sin = self.store(f"sin_{label}", np.sin(full).astype(np.float32))
            if self.fused:
                return cos, sin
            return self.row(self.add("Gather", cos, "position_ids")), self.row(self.add("Gather", sin, "position_ids"))
        inv_freq = self.store(f"inv_freq_{label}", frequencies(theta).astype(self.dtype))
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        positions = self.add("Cast", self.add("Unsqueeze", "position_ids", self.store("last", [-1])), to=kind)
        pairs = self.add("Mul", positions, inv_freq)
        whole = self.add("Concat", pairs, pairs, axis=-1)
        cos, sin = (self.row(self.add("Cast", self.add(op, whole), to=int(TensorProto.FLOAT))) for op in ("Cos", "Sin"))
        return cos, sin

    def row(self, name: str) -> str:
        """Put an axis for heads behind that of batches."""
        return self.add("Unsqueeze", name, self.store("one", [1]))

    def rotated(self, heads: str, theta: float) -> str:
        """Rotate (batch, heads, seq, head_dim) by halves."""
        cos, sin = self.angles(theta)
        if self.fused:
            return self.add("RotaryEmbedding", heads, self.ids(), cos, sin, domain="com.microsoft")
        half, end = self.store("half", [HEAD_DIM // 2]), self.store("end", [HEAD_DIM])
        axis, zero = self.store("last", [-1]), self.store("zero", [0])
        first, second = self.add("Slice", heads, zero, half, axis), self.add("Slice", heads, half, end, axis)
        turned = self.add("Concat", self.add("Neg", second), first, axis=-1)
        return self.add("Add", self.add("Mul", heads, cos), self.add("Mul", turned, sin))

    def ids(self) -> str:
        """Count positions for a batch of one."""
        length = self.add("Gather", self.add("Shape", "input_ids"), self.store("place", np.int64(1)))
        steps = self.add("Range", self.store("nothing", np.int64(0)), length, self.store("step", np.int64(1)))
        return self.add("Unsqueeze", steps, self.store("zero", [0]))

    def heads(self, x: str, name: str) -> str:
        """Project and split into heads."""
        weight = self.store(name, np.random.default_rng(len(name)).normal(size=(WIDTH, WIDTH)).astype(np.float32))
        shape = self.store("split", [0, 0, HEADS, HEAD_DIM])
        return self.add("Transpose", self.add("Reshape", self.add("MatMul", x, weight), shape), perm=[0, 2, 1, 3])

    def layer(self, x: str, number: int, theta: float | None) -> str:
        """Add an attention."""
        q, k, v = (self.heads(x, f"layers.{number}.{name}") for name in "qkv")
        if theta is not None:
            q, k = self.rotated(q, theta), self.rotated(k, theta)
        scores = self.add("MatMul", q, self.add("Transpose", k, perm=[0, 1, 3, 2]))
        mixed = self.add("MatMul", self.add("Softmax", scores, axis=-1), v)
        joined = self.add("Reshape", self.add("Transpose", mixed, perm=[0, 2, 1, 3]), self.store("join", [0, 0, WIDTH]))
        return self.add("Add", x, joined)

    def save(self, path: Path) -> Path:
        """Write the file."""
        table = np.random.default_rng(0).normal(size=(WORDS, WIDTH)).astype(np.float32)
        x = self.add("Gather", self.store("words", table), "input_ids")
        for number, theta in enumerate(self.thetas):
            x = self.layer(x, number, theta)
        axes: list[str | int | None] = ["batch", "seq"]
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.INT64, axes) for name in ("input_ids", "position_ids")
        ]
        output = helper.make_tensor_value_info(x, TensorProto.FLOAT, [*axes, WIDTH])
        initializers = [numpy_helper.from_array(values, name) for name, values in self.stored.items()]
        graph = helper.make_graph(self.nodes, "decoder", inputs[: 1 if self.fused else 2], [output], initializers)
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
        return path
